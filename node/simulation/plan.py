"""Everything that a simulation depends on; with the data, it fixes every byte of the result."""

import dataclasses
import hashlib
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from fedgrove.common.settings import InvalidConfig, bare
from fedgrove.node.base.strict_tables import build, build_tagged
from fedgrove.node.learning.server_steps import SERVER_STEPS, ServerSettings
from fedgrove.node.learning.settings import (
    CONFUSION,
    MODELS,
    RIGHT,
    SHARING,
    STEPPING,
    STRATEGIES,
    EvaluationSettings,
    PartitionSettings,
    TrainingSettings,
    bf16_fault,
)
from fedgrove.node.privacy.settings import LEAST_RATED, MECHANISMS, ClientLevelSettings, PrivacySettings
from fedgrove.node.scenario.clusters import METHODS, ClusteringSettings
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.task_settings import SimulatedTask

MAX_CLIENTS = 1_000_000
# Came later than plans whose runs are kept: at these values they are left out, and digests stay what they were.
_LATER = {
    **{"copies": 1, "groups": 5, "others": 0.2, "privacy": None, "clustering": None, "attack": None, "device": "cpu"},
    **{"task": None, "source": "", "bases": (), "evaluation": None, "validation": 0.0, "server": None, "patience": 0},
    **{"precision": "fp32", "portable": False, "together": 1, "masked": "weights"},
}
# Settings of several kinds: the types, the key that tells them apart, and the kinds by its value.
_TAGGED: dict[str, tuple[Any, str, Mapping[str, type]]] = {
    "privacy": (PrivacySettings, "mechanism", MECHANISMS),
    "server": (ServerSettings, "step", SERVER_STEPS),
    "clustering": (ClusteringSettings, "method", METHODS),
}
PLACES = {
    "clients": "simulation.clients",
    "evaluate_every": "simulation.evaluate_every",
    "probe_every": "simulation.probe_every",
    "device": "simulation.device",
    "together": "simulation.together",
    "dataset": "data.dataset",
    "train_samples": "data.train_samples",
    "test_samples": "data.test_samples",
    "validation": "data.validation",
    "shared_per_class": "data.shared_per_class",
    "source": "data.source",
    "rounds": "federation.rounds",
    "sampled": "federation.sampling_rate",
    "seed": "federation.seed",
    "patience": "federation.patience",
    "model": "model.name",
    "strategy": "strategy.name",
    "options": "strategy.options",
    "bound": "masking.bound",
    "masked": "masking.masked",
}
"""Table and key of each plain value in a plan's file; the other attributes are tables of their own."""
OF_NETWORKS = (
    *("dataset", "train_samples", "test_samples", "shared_per_class", "partition", "model", "probe_every", "device"),
    *("attack", "validation", "together"),
)
"""What says how a shipped network is trained, and nothing of a task."""


@dataclass(frozen=True)
class Plan:
    """What is simulated.

    Attributes
    ----------
    dataset : str
        Name of the data set, or the user's own, as ``--dataset`` takes it.
    clients : int
        K, the number of clients; they are numbered from 1, as on the ledger.
    sampled : float
        r: in each round ⌊r·K⌋ clients, at least one, are drawn without replacement (FedAom, algorithm 2); with
        client-level privacy each client is drawn with the probability r, independently.
    rounds : int
        T, the number of communication rounds.
    strategy : str
        Local training: fedaom, fedaomsam, fedavg, fedcurv, feddyn, fedlc, fedntd, fedprox, fedsam, fedspeed, moon,
        scaffold or share.
    options : mapping of str to float
        Options of the strategy, by name.
    training : TrainingSettings
        Of a client's round.
    partition : PartitionSettings
        How the training samples are split.
    model : str
        Name of the model; empty takes the default for the data set.
    shared_per_class : int
        Samples per class of the shared set, where the strategy needs one.
    seed : int
        Root of all randomness.
    evaluate_every : int
        Rounds between two tests of the global model, which is also tested after the last round.
    probe_every : int
        Rounds between two tests of the drawn clients' local models out of distribution (FedAom 4.5); 0 is never.
    test_samples : int
        Use only this many test samples, the first ones; 0 uses all.
    train_samples : int
        Use only this many training samples, drawn with the seed; 0 uses all.
    validation : float
        Share of the training samples, drawn with the seed, that nobody trains on and models are tested on; with 0 they
        are tested on the test samples.
    bound : float
        Largest absolute value in an upload: larger values are cut off there, and the record counts them.
    masked : str
        ``weights`` or ``delta`` (the update against the round's global model), as in a federation; client-level privacy
        and SignDS upload updates in any case.
    privacy : PrivacySettings or None
        Mechanism of differential privacy; None has masks only.
    clustering : ClusteringSettings or None
        How clients get models of their own; None trains one model, and does not measure how it suits whom.
    attack : AttackSettings or None
        Who poisons the training; needs ``clustering``.
    task : SimulatedTask or None
        What is trained in place of a shipped network: a task of the user's own.
    source : str
        What the task's ``data`` reads: a folder with one source for each client, in the order of their names, and
        perhaps one whose name starts with ``test``; any other is shared out, each client taking every n-th sample.
    evaluation : EvaluationSettings or None
        How the clients evaluate each round's model before they train it; None: they do not.
    server : ServerSettings or None
        The server's step on the mean of a round's uploads; None: the mean is the next model.
    patience : int
        The run ends when the clients' loss has not fallen by more than its standard error for this many rounds; 0: only
        ``rounds`` ends it. It needs ``evaluation``.
    device : str
        cpu or cuda; a plan's file may say auto, for cuda if there is any. A GPU adds in another order than the
        processor, so results differ in their last bits.
    together : int
        Clients that one call of a kernel trains: those with equal terms and nearly as many samples form groups of this
        size, whatever the workers. It pays for small fully connected networks (``node.learning.together``); the last
        bits differ from those of 1, one client after the other.
    """

    dataset: str = "digits"
    clients: int = 100
    sampled: float = 0.1
    rounds: int = 100
    strategy: str = "fedavg"
    options: Mapping[str, float] = field(default_factory=dict)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    partition: PartitionSettings = field(default_factory=PartitionSettings)
    model: str = ""
    shared_per_class: int = 5
    seed: int = 0
    evaluate_every: int = 1
    probe_every: int = 0
    test_samples: int = 0
    train_samples: int = 0
    validation: float = 0.0
    bound: float = 8.0
    privacy: PrivacySettings | None = None
    clustering: ClusteringSettings | None = None
    attack: AttackSettings | None = None
    device: str = "cpu"
    task: SimulatedTask | None = None
    source: str = ""
    evaluation: EvaluationSettings | None = None
    server: ServerSettings | None = None
    together: int = 1
    patience: int = 0
    masked: Literal["weights", "delta"] = "weights"

    def __post_init__(self) -> None:
        _check(1 <= self.clients <= MAX_CLIENTS, "clients", f"a whole number from 1 to {MAX_CLIENTS}", self.clients)
        _check(0 < self.sampled <= 1, "sampled", "above 0 and at most 1", self.sampled)
        _check(1 <= self.rounds <= 100_000, "rounds", "a whole number from 1 to 100000", self.rounds)
        _check(self.strategy in STRATEGIES, "strategy", f"one of {', '.join(STRATEGIES)}", self.strategy)
        _check(self.model in ("", *MODELS), "model", f"one of {', '.join(MODELS)}", self.model)
        _check(1 <= self.shared_per_class <= 1000, "shared_per_class", "from 1 to 1000", self.shared_per_class)
        _check(0 <= self.seed < 1 << 63, "seed", "a whole number from 0 to 2^63 - 1", self.seed)
        _check(1 <= self.evaluate_every <= 100_000, "evaluate_every", "from 1 to 100000", self.evaluate_every)
        _check(0 <= self.probe_every <= 100_000, "probe_every", "from 0 (never) to 100000", self.probe_every)
        _check(self.test_samples >= 0, "test_samples", "0 (all) or more", self.test_samples)
        _check(self.train_samples >= 0, "train_samples", "0 (all) or more", self.train_samples)
        _check(0 <= self.validation <= 0.5, "validation", "from 0 (test samples) to 0.5", self.validation)
        _check(1e-3 <= self.bound <= 1e6, "bound", "from 0.001 to 1000000", self.bound)
        _check(self.masked in ("weights", "delta"), "masked", "weights or delta", self.masked)
        _check(0 <= self.patience <= 100_000, "patience", "a whole number from 0 to 100000", self.patience)
        _check(self.device in ("cpu", "cuda"), "device", "cpu or cuda", self.device)
        # Whole numbers of JSON may be too large for a float.
        fine = all(type(value) in (int, float) and abs(value) <= sys.float_info.max for value in self.options.values())
        _check(fine, "options", "finite numbers by name", self.options)
        _check(1 <= self.together <= 10_000, "together", "a whole number from 1 to 10000", self.together)
        _check_task(self)
        _check_clustering(self)
        _check_evaluation(self)
        _check_server(self)
        _check_processor(self)
        _check_together(self)

    @property
    def subject(self) -> str:
        """What is trained on, for people: the task's folder, or the data set."""
        return self.dataset if self.task is None else self.task.folder

    @property
    def drawn(self) -> int:
        """Clients drawn in each round."""
        # 0.29 · 100 is 28.999… in floating point, and means 29.
        return max(1, math.floor(self.sampled * self.clients + 1e-9))

    def draw(self, number: int) -> tuple[int, ...]:
        """The clients of a round, ascending, where a fixed number is drawn; a function of seed, clients and round."""
        if self.drawn == self.clients:
            return tuple(range(1, self.clients + 1))
        digest = hashlib.sha256(f"fedgrove draw {self.seed} {self.clients} {number}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "big"))
        return tuple(sorted(1 + int(client) for client in rng.choice(self.clients, self.drawn, replace=False)))

    def evaluates(self, number: int) -> bool:
        """Whether the global model is tested after this round."""
        return number % self.evaluate_every == 0 or number == self.rounds

    def probes(self, number: int) -> bool:
        """Whether local models are tested out of distribution in this round."""
        return self.probe_every > 0 and number % self.probe_every == 0

    def with_seed(self, seed: int) -> "Plan":
        """The same plan from another root of randomness."""
        return replace(self, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """Plain values; equal plans give equal ones, whether a number was written 1 or 1.0."""
        plain = {**_plain(self), "options": {name: float(self.options[name]) for name in sorted(self.options)}}
        return plain if self.task is None else {name: plain[name] for name in plain if name not in OF_NETWORKS}

    @classmethod
    def from_json(cls, value: Any) -> "Plan":
        """Parse what ``to_json`` gave; keys that are left out take their defaults, unknown ones are refused."""
        if not isinstance(value, dict):
            raise InvalidConfig(f"the plan must be an object, not {value!r}")
        try:
            settled = {
                name: build_tagged(kinds, tag, value[name], name)
                for name, (_, tag, kinds) in _TAGGED.items()
                if value.get(name) is not None
            }
            return build(cls, {name: entry for name, entry in value.items() if name not in _TAGGED}, "", **settled)
        except InvalidConfig as fault:
            raise InvalidConfig(str(fault)) from None

    def digest(self) -> str:
        """SHA-256, in hex, of the canonical JSON form (sorted keys, no spaces)."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> dict[str, Any]:
    plain = {}
    for item in fields(value):
        entry = getattr(value, item.name)
        if item.name in _LATER and entry == _LATER[item.name]:
            continue
        if bare(item.type) is float:
            plain[item.name] = float(entry)
        else:
            plain[item.name] = _plain_value(entry)
    tag = next((tag for kind, tag, _ in _TAGGED.values() if isinstance(value, kind)), None)
    return {tag: getattr(value, tag), **plain} if tag else plain


def _plain_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain_value(each) for each in value]
    return _plain(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _check_task(plan: Plan) -> None:
    if plan.task is None:
        _check(plan.source == "", "source", "left out without a task, whose data() reads it", plan.source)
        return
    if plan.clustering is not None:
        name = plan.clustering.method
        raise InvalidConfig(f"{name} trains shipped networks, and no task: leave out one of the tables {name} and task")
    for item in fields(plan):
        if item.name in OF_NETWORKS and getattr(plan, item.name) != _default_of(item):
            raise InvalidConfig(f"{PLACES.get(item.name, item.name)} is for shipped networks: leave it out with a task")
    for name in ("crop", "flip", "erase"):
        if getattr(plan.training, name):
            raise InvalidConfig(f"training.{name} must be left out with a task, whose data() augments")
    if plan.strategy in SHARING and not plan.task.shared:
        raise InvalidConfig(f"task.shared must name a file of the task's folder where strategy.name is {plan.strategy}")


def _default_of(item: dataclasses.Field) -> Any:
    return item.default if item.default_factory is dataclasses.MISSING else item.default_factory()


def _check_clustering(plan: Plan) -> None:
    if plan.attack is not None and plan.clustering is None:
        raise InvalidConfig("attack is simulated with a method for clusters only: give procfl, ifca or global, too")
    if plan.clustering is None:
        return
    if plan.privacy is not None:
        raise InvalidConfig(f"privacy and {plan.clustering.method} are not simulated together: leave out one of them")
    _check(plan.masked == "weights", "masked", f"weights with {plan.clustering.method}", plan.masked)
    if plan.server is not None:
        raise InvalidConfig(f"server must be left out with {plan.clustering.method}: its step is on one model")
    if plan.probe_every:
        name, method = PLACES["probe_every"], plan.clustering.method
        raise InvalidConfig(f"{name} must be 0 with {method}, which measures personalised accuracy instead")
    if plan.attack is not None and plan.partition.copies > 1:
        raise InvalidConfig(
            "partition.copies must be 1 with an attack: samples of several owners cannot be poisoned for one"
        )


def _check_evaluation(plan: Plan) -> None:
    if plan.evaluation is None:
        without = "0 without [evaluation]: it waits for the clients' loss to fall"
        _check(not plan.patience, "patience", without, plan.patience)
        return
    if isinstance(plan.privacy, ClientLevelSettings):
        _check_rates(plan, plan.privacy, plan.evaluation)
    elif plan.privacy:
        other = plan.privacy.mechanism
        raise InvalidConfig(f"evaluation must be left out with {other}: members do not evaluate together there")
    if plan.task is None and (plan.evaluation.held_out == 0 or set(plan.evaluation.metrics) - {RIGHT, CONFUSION}):
        known = f"{RIGHT} and {CONFUSION}"
        raise InvalidConfig(f"evaluation must have a held_out above 0, and metrics {known} only, without a task")
    if plan.privacy and CONFUSION in plan.evaluation.metrics:
        raise InvalidConfig(f"evaluation.metrics must leave {CONFUSION} out with a privacy mechanism")


def _check_rates(plan: Plan, privacy: ClientLevelSettings, evaluation: EvaluationSettings) -> None:
    """What the clients can tell under noise, where enough of them are drawn; as in a federation's terms."""
    drawn = plan.clients * min(privacy.sampling_rates, default=plan.sampled)
    with_client = "with privacy.mechanism client"
    if drawn < LEAST_RATED:
        reason = "noise drowns the rates of fewer"
        raise InvalidConfig(f"evaluation {with_client} needs {LEAST_RATED} drawn clients, not {drawn:g}: {reason}")
    if not evaluation.metrics:
        raise InvalidConfig(f"evaluation.metrics must name one at least {with_client}, which tells rates and no loss")
    if plan.patience:
        raise InvalidConfig(f"federation.patience must be 0 {with_client}, which tells rates and no loss")


def _check_server(plan: Plan) -> None:
    if plan.server is not None and plan.strategy in STEPPING:
        raise InvalidConfig(f"server must be left out with {plan.strategy}, which has a step of its own")


def _check_processor(plan: Plan) -> None:
    fault = bf16_fault(plan.training, plan.strategy, plan.task is not None)
    if fault:
        raise InvalidConfig(f"training.precision must be {fault}")


def _check_together(plan: Plan) -> None:
    """What a network and a strategy must be like is checked where torch is at hand (``node.learning.together``)."""
    others = {
        "evaluation": plan.evaluation is not None,
        "a method for clusters": plan.clustering is not None,
        "simulation.probe_every": plan.probe_every > 0,
        "simulation.device = 'cuda'": plan.device != "cpu",
        f"training.precision = '{plan.training.precision}'": plan.training.precision != "fp32",
    }
    if plan.together > 1 and any(others.values()):
        names = ", ".join(name for name, there in others.items() if there)
        raise InvalidConfig(f"simulation.together must be 1 with {names}")


def _check(fine: bool, name: str, allowed: str, value: object) -> None:
    if not fine:
        raise InvalidConfig(f"{PLACES[name]} must be {allowed}, not {value!r}")
