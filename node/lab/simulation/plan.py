"""Everything that a simulation depends on; with the data, it fixes every byte of the result."""

import dataclasses
import hashlib
import json
import math
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from fedgrove.node.lab.simulation.clustered.poisoning import AttackSettings
from fedgrove.node.learning.settings import MODELS, STRATEGIES, PartitionSettings, TrainingSettings
from fedgrove.node.methods.procfl.settings import METHODS, ClusteringSettings
from fedgrove.node.privacy.settings import MECHANISMS, PrivacySettings

MAX_CLIENTS = 1_000_000
# Came later than plans whose runs are kept: at these values they are left out, and digests stay what they were.
_LATER = {"copies": 1, "groups": 5, "others": 0.2, "privacy": None, "clustering": None, "attack": None, "device": "cpu"}


class InvalidPlan(ValueError):
    """The plan cannot be run; the message names the value and says what is allowed."""


@dataclass(frozen=True)
class Plan:
    """What is simulated.

    Attributes
    ----------
    dataset : str
        Name of the data set, as ``load_dataset`` takes it.
    clients : int
        K; they are numbered from 1, as on the ledger.
    sampled : float
        r: in each round ⌊r·K⌋ clients, at least one, are drawn without replacement (FedAom, algorithm 2); with
        client-level privacy each client with the probability r, independently (``node.lab.simulation.draws``).
    rounds : int
        T.
    strategy : str
        One of ``STRATEGIES``.
    options : mapping of str to float
        The strategy's.
    training : TrainingSettings
        Of a client's round.
    partition : PartitionSettings
        How the training samples are dealt.
    model : str
        One of ``MODELS``; empty takes what suits the data set.
    shared_per_class : int
        Samples a class of the shared set, where the strategy needs one.
    seed : int
        Root of all randomness.
    evaluate_every : int
        The global model is tested each so many rounds, and after the last.
    probe_every : int
        Each so many rounds the drawn clients' local models are tested out of distribution (FedAom 4.5); 0 is never.
    test_samples : int
        Only the first so many test samples are used; 0 uses all.
    train_samples : int
        Only so many training samples, drawn with the seed, are dealt; 0 deals all.
    bound : float
        Largest absolute value of a parameter in the fixed-point sum; more is an error, never a clip.
    privacy : PrivacySettings or None
        Mechanism of differential privacy; None has masks only.
    clustering : ClusteringSettings or None
        How clients get models of their own; None trains one model, and does not measure how it suits whom.
    attack : AttackSettings or None
        Who poisons the training; needs ``clustering``.
    device : str
        cpu or cuda. A GPU adds in another order than the processor, so results differ in their last bits.
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
    bound: float = 8.0
    privacy: PrivacySettings | None = None
    clustering: ClusteringSettings | None = None
    attack: AttackSettings | None = None
    device: str = "cpu"

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
        _check(1e-3 <= self.bound <= 1e6, "bound", "from 0.001 to 1000000", self.bound)
        _check(self.device in ("cpu", "cuda"), "device", "cpu or cuda", self.device)
        # Whole numbers of JSON may be too large for a float.
        fine = all(type(value) in (int, float) and abs(value) <= sys.float_info.max for value in self.options.values())
        _check(fine, "options", "finite numbers by name", self.options)
        _check_clustering(self)

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
        return {**_plain(self), "options": {name: float(self.options[name]) for name in sorted(self.options)}}

    @classmethod
    def from_json(cls, value: Any) -> "Plan":
        """Parse what ``to_json`` gave; keys that are left out take their defaults, unknown ones are refused."""
        return _build(cls, value, "the plan")

    def digest(self) -> str:
        """SHA-256, in hex, of the canonical JSON form (sorted keys, no spaces)."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> dict[str, Any]:
    plain = {}
    for item in fields(value):
        entry = getattr(value, item.name)
        if item.name in _LATER and entry == _LATER[item.name]:
            continue
        if item.type is float:
            plain[item.name] = float(entry)
        elif dataclasses.is_dataclass(entry) and not isinstance(entry, type):
            plain[item.name] = _plain(entry)
        else:
            plain[item.name] = list(entry) if isinstance(entry, tuple) else entry
    tag = next((tag for kind, (tag, _) in _TAGGED.items() if isinstance(value, kind)), None)
    return {tag: getattr(value, tag), **plain} if tag else plain


def _build(kind: type, table: Any, label: str) -> Any:
    if not isinstance(table, dict):
        raise InvalidPlan(f"{label} must be an object, not {table!r}")
    types = {item.name: item.type for item in fields(kind)}
    values = {}
    for name, value in table.items():
        if name not in types:
            raise InvalidPlan(f"unknown key {name!r} in {label}: it has {', '.join(types)}")
        values[name] = _converted(types[name], value, f"{name} in {label}")
    try:
        return kind(**values)
    except InvalidPlan:
        raise
    except (ValueError, TypeError, AttributeError) as fault:
        raise InvalidPlan(f"{label}: {fault}") from None


def privacy_from_json(value: Any, label: str = "privacy") -> PrivacySettings | None:
    """Parse a table whose ``mechanism`` says which settings its other keys are; None, or ``none``, has no others.

    Raises
    ------
    InvalidPlan
        An unknown mechanism or key, or a value that is not allowed.
    """
    return _tagged(PrivacySettings, value, label)


def clustering_from_json(value: Any, label: str = "clustering") -> ClusteringSettings | None:
    """Parse a table whose ``method`` says which settings its other keys are, as ``privacy_from_json``."""
    return _tagged(ClusteringSettings, value, label)


def attack_from_json(value: Any, label: str = "attack") -> AttackSettings | None:
    """Parse a table of ``AttackSettings``; None is no attack.

    Raises
    ------
    InvalidPlan
        An unknown key, or a value that is not allowed.
    """
    return None if value is None else _build(AttackSettings, value, label)


# Settings of several kinds: the key that tells them apart, and the kinds.
_TAGGED: dict[Any, tuple[str, Mapping[str, type]]] = {
    PrivacySettings: ("mechanism", MECHANISMS),
    ClusteringSettings: ("method", METHODS),
}


def _tagged(kind: Any, value: Any, label: str) -> Any:
    tag, kinds = _TAGGED[kind]
    table = {tag: "none"} if value is None else value
    chosen = table.get(tag) if isinstance(table, dict) else None
    known = ("none", *kinds)
    if chosen not in known:
        raise InvalidPlan(f"{tag} in {label} must be one of {', '.join(known)}, not {chosen!r}")
    values = {name: entry for name, entry in table.items() if name != tag}
    if chosen == "none" and values:
        raise InvalidPlan(f"{label} has {', '.join(values)}, but no {tag}")
    return None if chosen == "none" else _build(kinds[chosen], values, label)


def _converted(kind: Any, value: Any, label: str) -> Any:
    if typing.get_origin(kind) is types.UnionType:
        (wanted,) = (known for known in (*_TAGGED, AttackSettings) if kind == known | None)
        return attack_from_json(value, label) if wanted is AttackSettings else _tagged(wanted, value, label)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidPlan(f"{label} must be a list, not {value!r}")
        return tuple(_converted(typing.get_args(kind)[0], entry, f"each of {label}") for entry in value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _build(kind, value, label)
    if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    if kind in (bool, int, float, str) and type(value) is not kind:
        raise InvalidPlan(f"{label} must be of type {kind.__name__}, not {value!r}")
    return value  # of a Literal or mapping: the dataclass checks it


def _check_clustering(plan: Plan) -> None:
    if plan.attack is not None and plan.clustering is None:
        raise InvalidPlan("an attack is simulated with clustering only: set its method to procfl, ifca or global")
    if plan.clustering is None:
        return
    if plan.privacy is not None:
        raise InvalidPlan("privacy mechanisms and clustering are not simulated together: leave out one of them")
    if plan.probe_every:
        raise InvalidPlan("probe_every must be 0 with clustering, which measures personalised accuracy instead")
    if plan.attack is not None and plan.partition.copies > 1:
        raise InvalidPlan("copies must be 1 with an attack: samples of several owners cannot be poisoned for one")


def _check(fine: bool, name: str, allowed: str, value: object) -> None:
    if not fine:
        raise InvalidPlan(f"{name} must be {allowed}, not {value!r}")
