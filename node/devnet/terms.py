"""The terms of a federation on this machine: what its scenario says, and windows that suit the number of clients."""

from dataclasses import fields, replace
from typing import Any

from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.silence import check_drop
from fedgrove.node.devnet.windows import windows
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.settings import ModelSpec, default_model
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.kmeans.datasets import Points
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.procfl.course import FEWEST
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.terms import MAX_CLUSTERED, ProCflTerms
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import LEAST_RATED, ClientLevelSettings
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, MembershipSettings, SharedSettings
from fedgrove.node.scenario.checks import check_subject, check_training
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.names import name_of
from fedgrove.node.scenario.reading import completed
from fedgrove.node.scenario.scenario import Scenario

LEAST_CLIENTS, MOST_CLIENTS, MOST_ROUNDS = 3, 1000, 10_000
FEWEST_CLUSTERED = 2 * FEWEST
_NOBODY = "0x" + 40 * "0"
_OF_CLUSTERING = (("federation", "name"), ("federation", "rounds"), ("federation", "repeats"), ("federation", "seed"))


def terms_on(
    scenario: Scenario, dataset: Dataset, shared_digest: bytes, counter: bytes = bytes(32), signer: str = _NOBODY
) -> FederationConfig:
    """The terms of a federation that trains a shipped network on a data set.

    Parameters
    ----------
    shared_digest : bytes
        Of the shared samples.
    counter, signer : bytes, str
        The coordinator's mailbox key and account, which clusters need.
    """
    name = scenario.model.name or default_model(dataset.name, dataset.input_shape)
    return FederationConfig(
        model=ModelSpec(name, dataset.input_shape, dataset.classes),
        shared=SharedSettings(shared_digest.hex()),
        **_common(scenario, counter, signer),
    )


def terms_of_task(scenario: Scenario, task: TaskSettings, counter: bytes, signer: str) -> FederationConfig:
    """The terms of a federation that trains a task; other parameters as ``terms_on`` has them."""
    return FederationConfig(task=task, **_common(scenario, counter, signer))


def terms_of_points(scenario: Scenario, points: Points, ledger: LedgerSettings, **pace: int) -> FederationConfig:
    """The terms of a federation that clusters points; ``pace`` are keys of ``[kmeans]`` that suit its chain."""
    federation, iterations = scenario.federation, scenario.kmeans.iterations if scenario.kmeans else 0
    dimensions = points.parts[0].shape[1]
    return FederationConfig(
        federation=FederationSettings(name=federation.name, rounds=federation.rounds, seed=federation.seed),
        method=KMeansTerms(k=points.k, dimensions=dimensions, step=points.step, iterations=iterations, **pace),
        ledger=ledger,
    )


def ledger_rounds(scenario: Scenario) -> int:
    """Rounds on the ledger: before clusters train, their clients compare their data."""
    return scenario.federation.rounds + first_rounds(scenario)


def first_rounds(scenario: Scenario) -> int:
    """Rounds before those that train."""
    clusters = cluster_terms(scenario, bytes(32), _NOBODY)
    return clusters.first_rounds if clusters else 0


def cluster_terms(scenario: Scenario, counter: bytes, signer: str) -> ProCflTerms | None:
    """The ``[procfl]`` table with the coordinator's mailbox key and account; None where one model is trained."""
    settings = scenario.method
    if settings is None:
        return None
    if not isinstance(settings, SimulatedProCfl):
        raise InvalidConfig(f"method must be training or procfl: {settings.method} is simulated only")
    shared = {item.name: getattr(settings, item.name) for item in fields(ProCflSettings)}
    own = {"labels": settings.labels, "shown": settings.shown}
    return ProCflTerms(**shared, **own, counter=counter.hex(), signer=signer)


def _common(scenario: Scenario, counter: bytes, signer: str) -> dict[str, Any]:
    """The terms that follow from the scenario alone, by table."""
    clusters, before = cluster_terms(scenario, counter, signer), first_rounds(scenario)
    federation = scenario.federation
    return {
        "federation": replace(federation, rounds=federation.rounds + before, repeats=federation.repeats + before),
        "training": scenario.training,
        "strategy": scenario.strategy,
        "masking": scenario.masking,
        "ledger": _windows(scenario),
        "privacy": scenario.privacy,
        "evaluation": scenario.evaluation,
        "server": scenario.server,
        "method": clusters or TrainingTerms(),
        # A counter of overlaps must be no member.
        "membership": MembershipSettings("approved" if clusters else "open"),
    }


def _windows(scenario: Scenario) -> LedgerSettings:
    rated = isinstance(scenario.privacy, ClientLevelSettings) and scenario.evaluation is not None
    clients = scenario.cast.clients
    return windows(clients, LEAST_RATED) if rated else windows(clients)


def check_federation(scenario: Scenario, most_clients: int = MOST_CLIENTS) -> None:
    """Raise InvalidConfig unless a federation on this machine can run the scenario."""
    clients, rounds = scenario.cast.clients, scenario.federation.rounds
    if not LEAST_CLIENTS <= clients <= most_clients:
        allowed = f"a whole number from {LEAST_CLIENTS} to {most_clients}"
        raise InvalidConfig(f"scenario.clients must be {allowed}, not {clients}")
    if rounds > MOST_ROUNDS:
        raise InvalidConfig(f"federation.rounds must be a whole number from 1 to {MOST_ROUNDS}, not {rounds}")
    if scenario.attack is not None:
        raise InvalidConfig("attack is for simulations: leave the table out")
    if scenario.kmeans is not None:
        _check_clustering(scenario)
        return
    check_subject(scenario)
    check_training(scenario)
    _check_clusters(scenario)
    _check_evaluation(scenario)
    hopeless = "" if scenario.method else check_drop(clients, scenario.cast.drop)
    if hopeless:
        raise InvalidConfig(f"scenario.drop {hopeless}")


def _check_clustering(scenario: Scenario) -> None:
    """Raise InvalidConfig for what only models have: K-means would pass over it in silence."""
    plain, tables = completed({"kmeans": {}}).to_tables(), scenario.to_tables()
    if scenario.method is not None:
        raise InvalidConfig("method is for models: leave it out with kmeans")
    for name, keys in sorted(tables.items(), key=lambda table: table[0] in plain):  # others follow from these
        for key in sorted(keys, key=lambda key: not name_of(f"{name}.{key}")):  # those first that have options
            free = name in ("scenario", "run", "kmeans") or (name, key) in _OF_CLUSTERING
            if not free and (name not in plain or keys[key] != plain[name][key]):
                raise InvalidConfig(f"{name}.{key} is for models: leave it out with kmeans")


def _check_clusters(scenario: Scenario) -> None:
    clients, clusters = scenario.cast.clients, cluster_terms(scenario, bytes(32), _NOBODY)
    if clusters is None:
        return
    if scenario.privacy is not None:
        raise InvalidConfig("privacy cannot be combined with method: clusters have no privacy mechanism")
    if not FEWEST_CLUSTERED <= clients <= MAX_CLUSTERED:
        why = f"two groups of {FEWEST} at least, as smaller groups are not summed, and all overlaps are stated at once"
        raise InvalidConfig(f"scenario.clients must be from {FEWEST_CLUSTERED} to {MAX_CLUSTERED} with method: {why}")


def _check_evaluation(scenario: Scenario) -> None:
    """Under the noise of client-level privacy some things cannot be told."""
    clients = scenario.cast.clients
    if not isinstance(scenario.privacy, ClientLevelSettings):
        return
    if scenario.evaluation is not None and clients < LEAST_RATED:
        needed = f"{LEAST_RATED} clients, not {clients}: noise drowns the rates of fewer"
        raise InvalidConfig(f"evaluation.held_out with a privacy budget needs {needed}")
    if scenario.federation.patience:
        why = "members report noisy rates, and no loss"
        raise InvalidConfig(f"federation.patience must be 0 with a privacy budget: {why}")
