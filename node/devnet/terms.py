"""The terms of a federation on this machine: what its scenario says, and windows that suit the number of clients."""

from dataclasses import replace
from typing import Any

from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.devnet.windows import bounded, windows
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.settings import ModelSpec, default_model
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.privacy.settings import LEAST_RATED, ClientLevelSettings
from fedgrove.node.protocol.terms import FederationConfig, SharedSettings
from fedgrove.node.scenario.method import NOBODY
from fedgrove.node.scenario.scenario import Scenario


def terms_on(
    scenario: Scenario, dataset: Dataset, shared_digest: bytes, counter: bytes = bytes(32), signer: str = NOBODY
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
        task=TaskSettings.of_network(ModelSpec(name, dataset.input_shape, dataset.classes)),
        shared=SharedSettings(shared_digest.hex()),
        **_common(scenario, counter, signer),
    )


def terms_of_task(scenario: Scenario, task: TaskSettings, counter: bytes, signer: str) -> FederationConfig:
    """The terms of a federation that trains a task; other parameters as ``terms_on`` has them."""
    return FederationConfig(task=task, **_common(scenario, counter, signer))


def ledger_rounds(scenario: Scenario) -> int:
    """Rounds on the ledger: before clusters train, their clients compare their data."""
    return scenario.federation.rounds + scenario.method.first_rounds


def _common(scenario: Scenario, counter: bytes, signer: str) -> dict[str, Any]:
    """The terms that follow from the scenario alone, by table."""
    method, federation = scenario.method.terms(counter, signer), scenario.federation
    before = method.first_rounds
    return {
        "federation": replace(federation, rounds=federation.rounds + before, repeats=federation.repeats + before),
        "training": scenario.training,
        "strategy": scenario.strategy,
        "masking": scenario.masking,
        "ledger": _windows(scenario),
        "privacy": scenario.privacy,
        "evaluation": scenario.evaluation,
        "server": scenario.server,
        "bounds": scenario.bounds,
        "method": method,
    }


def _windows(scenario: Scenario) -> LedgerSettings:
    rated = isinstance(scenario.privacy, ClientLevelSettings) and scenario.evaluation is not None
    clients = scenario.cast.clients
    settings = windows(clients, LEAST_RATED) if rated else windows(clients)
    return bounded(settings) if scenario.bounds is not None else settings
