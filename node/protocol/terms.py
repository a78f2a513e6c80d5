"""Terms of a federation as checked dataclasses: its whole TOML file except for ``[network]``.

The canonical JSON form goes to the store and its digest on the ledger with every round, so nobody trains under terms
that others do not see. ``node.methods.terms`` reads both forms.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from eth_utils import is_checksum_address
from msgspec import Meta

from fedgrove.chain.records.deployment import LedgerSettings, Membership
from fedgrove.common.settings import Rate, Settings, Share
from fedgrove.common.wire import Digest, OptionalDigest, canonical_json
from fedgrove.node.base.strict_tables import InvalidConfig, check_value
from fedgrove.node.learning.server_steps import ServerSettings
from fedgrove.node.learning.settings import (
    CONFUSION,
    MAX_CONFUSED,
    RIGHT,
    SENDING,
    SHARING,
    STEPPING,
    STRATEGIES,
    EvaluationSettings,
    ModelSpec,
    TrainingSettings,
    bf16_fault,
    plain_training,
)
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.masking.parameters import Assumed, sharing
from fedgrove.node.privacy.settings import LEAST_RATED, ClientLevelSettings, PrivacySettings, SignDsSettings
from fedgrove.node.protocol.bounds_settings import WINDOWS, BoundsSettings, largest_norm
from fedgrove.node.protocol.metric_words import MOST_CLIENTS

PPM = 1_000_000
LIMITS = frozenset({"quorum", "releases", "judges"})
"""Of the ledger: what suits how many members the terms name."""
_PRIVATE_SLOTS = 4


@dataclass(frozen=True)
class FederationSettings(Settings):
    """Name, rounds and sampling of the training.

    Attributes
    ----------
    name : str
        Shown to people; at most 80 printable characters.
    rounds : int
        Communication rounds T that close, without the one after them in which members only evaluate.
    repeats : int
        How many sealed rounds may fail; one more ends the federation. Skipped and voided rounds are not counted.
    sampling_rate : float
        r in (0, 1]: a client is drawn when its VRF output is below r·2²⁵⁶.
    seed : int
        Root of all training randomness; masks and keys never depend on it.
    max_blob_mib : int
        No blob above this many MiB is fetched.
    checkers : float
        How many members recompute a closed round before they train on it, on average; a lot that nobody else knows
        decides who. Each that judges it wrong, and was never wrong itself, doubles how many do.
    commit_slots : int or None
        The commit window has this many slots, and a member commits only when one ends, so that the block of its
        commitment says no more of its data than in which slot it was ready; 0: as soon as it is ready. None: 4 with
        ``[privacy]``, else 0.
    practice : bool
        Nobody relies on this federation: anybody may take part (``membership.mode = "open"``), and an audit says so.
    patience : int
        The training ends when the members' loss has not fallen by more than its standard error for this many rounds;
        0: only ``rounds`` ends it. It needs ``[evaluation]``.
    """

    name: str = "fedgrove"
    rounds: Annotated[int, Meta(ge=1, le=100_000)] = 3
    repeats: Annotated[int, Meta(ge=0, le=100_000)] = 100
    sampling_rate: Rate = 1.0
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="a whole number from 0 to 2^63 - 1")] = 0
    max_blob_mib: Annotated[int, Meta(ge=1, le=4096)] = 256
    checkers: Annotated[float, Meta(ge=0, le=65_535)] = 5.0
    commit_slots: Annotated[int, Meta(ge=0, le=64)] | None = None
    practice: bool = False
    patience: Annotated[int, Meta(ge=0, le=100_000)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 < len(self.name) <= 80 and self.name.isprintable(), "name", "1 to 80 printable characters")


@dataclass(frozen=True)
class StrategySettings(Settings):
    """The local training strategy (see ``node.learning.strategies``).

    Attributes
    ----------
    name : str
        Local training: fedaom, fedaomsam, fedavg, fedcurv, feddyn, fedlc, fedntd, fedprox, fedsam, fedspeed, moon,
        scaffold or share; by default fedaom, and fedavg for a task without a shared set.
    options : dict of str to float
        Options of the strategy, by name.
    """

    name: str = "fedaom"
    options: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.name in STRATEGIES, "name", f"one of {', '.join(STRATEGIES)}")


@dataclass(frozen=True)
class MaskingSettings(Settings):
    """How updates are hidden.

    Attributes
    ----------
    mode : str
        ``bbtsa``: partners from the cooperation tree; ``pairwise``: everyone is a partner of everyone.
    masked : str
        ``weights`` or ``delta`` (the update against the round's global model, for a tighter bound).
    bound : float
        Bound on the absolute value of a parameter, or of an update's: a client uploads larger values at the bound, and
        its log says so. A first model beyond it is an error that names the tensor.
    kappa : float
        Fraction of tensors that each pair masks; 1 masks everything.
    colluders, dropouts : float
        Shares of a round's clients that may collude with the coordinator, and that may drop out. How many partners and
        share-holders a client has follows from them (``node.masking.parameters``).
    threshold : float
        ⌊threshold·k⌋ + 1 of k holders recover a secret; 0 takes what follows from ``colluders`` and ``dropouts``. Below
        (1 + colluders)/2, colluders who show the holders different lists of survivors can open an update.
    partitions : int
        How often the members may be cut into cells, in the federation's life, because somebody spoils their sums
        (``node.protocol.openings``); 0 takes one for every eight members.
    """

    mode: Literal["bbtsa", "pairwise"] = "bbtsa"
    masked: Literal["weights", "delta"] = "weights"
    bound: Annotated[float, Meta(ge=1e-3, le=1e6)] = 8.0
    kappa: Rate = 1.0
    colluders: Annotated[float, Meta(ge=0, le=0.5)] = 0.33
    dropouts: Annotated[float, Meta(ge=0, le=0.5)] = 0.2
    threshold: float = 0.0
    partitions: Annotated[int, Meta(ge=0, le=1000)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = self.threshold == 0 or 0.5 <= self.threshold < 1
        self.require(fine, "threshold", "0 (derived from the other keys) or from 0.5 to below 1")

    @property
    def assumed(self) -> Assumed:
        """Shares of colluders and dropouts, to compute with."""
        return Assumed.of(self.colluders, self.dropouts)


@dataclass(frozen=True)
class SharedSettings(Settings):
    """The shared set d_share: hex sha2-256 digest of its blob in the store; empty when the strategy needs none."""

    digest: OptionalDigest = ""


@dataclass(frozen=True)
class Continues(Settings):
    """The round of an earlier federation that another one goes on from.

    Attributes
    ----------
    chain_id : int
    ledger : str
        Checksummed address of its TrainingLedger contract.
    round : int
        The round that closed with the model.
    head_block, head_hash : int, str
        The block that holds this result, or a later one, and its hash (64 hexadecimal characters): they tell the
        history that is meant from any other that somebody made up for this ledger.
    """

    chain_id: Annotated[int, Meta(ge=1, le=(1 << 63) - 1, description="a chain's id")]
    ledger: str
    round: Annotated[int, Meta(ge=1, lt=1 << 40, description="the number of a round")]
    head_block: Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="the number of a block")]
    head_hash: Digest

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(is_checksum_address(self.ledger), "ledger", "a checksummed address")

    def __str__(self) -> str:
        return f"round {self.round} of ledger {self.ledger} on chain {self.chain_id}"


@dataclass(frozen=True)
class StartSettings(Settings):
    """Start of the training.

    Attributes
    ----------
    model : str
        Hex sha2-256 digest of the first model, which follows from the other terms unless the federation continues
        another. Whoever cannot compute it, as an auditor without torch, knows it by this digest.
    continues : Continues or None
        The round of an earlier federation that closed with this model.
    """

    model: OptionalDigest = ""
    continues: Continues | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.model or self.continues is None, "model", "the digest of the model that it continues from")


@dataclass(frozen=True)
class MembershipSettings(Settings):
    """Rules of membership.

    Attributes
    ----------
    mode : str
        ``named``: the ``members`` and nobody else; ``approved``: these, and whom the federation's admin approves;
        ``open``: anybody, where ``federation.practice`` says that nobody relies on it.
    activation_delay : int
        Blocks from a registration or approval to the first round that may draw the client.
    least : float
        A client takes part only in rounds in which at least this share of the members that it counts on has drawn
        (``node.protocol.policy``).
    members : tuple of str
        Accounts (checksummed addresses) that may take part from the start.
    """

    mode: Membership = "named"
    activation_delay: Annotated[int, Meta(ge=1, le=100_000, description="1 to 100000 blocks")] = 1
    least: Share = 0.5
    members: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = all(isinstance(each, str) and is_checksum_address(each) for each in self.members)
        self.require(fine and len(set(self.members)) == len(self.members), "members", "checksummed addresses")
        fine = not self.members or self.mode != "open"
        self.require(fine, "members", "left out if membership.mode is open: anybody could spoil the rounds")


@dataclass(frozen=True)
class MethodWords:
    """A method in words, for pages and commands.

    Attributes
    ----------
    models : str
        What the model is that a round leaves, in one sentence or two.
    learned : str
        What is learned, as a noun phrase that begins a sentence; empty where a network or a task is trained.
    manner : str
        How, in a few words; where something is trained, words behind the strategy's name.
    members : str
        What else members can do, in one sentence; empty for nothing.
    """

    models: str
    learned: str = ""
    manner: str = ""
    members: str = ""


class MethodTerms(ABC):
    """Terms of a method: the table that each method defines.

    Attributes
    ----------
    name : str
        Of the method, and of its table.
    silent : tuple of str
        Tables that terms with this method leave out.
    evaluates : bool
        Members can evaluate the model that a round begins with.
    staged : bool
        Rounds have different purposes, which their models tell.
    on_gpu : bool
        Members may compute on a GPU.
    bound_to_ledger : str
        Why another federation cannot continue from a model, in one clause; empty where it can.
    words : MethodWords
    """

    name: ClassVar[str]
    silent: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[bool] = False
    staged: ClassVar[bool] = False
    on_gpu: ClassVar[bool] = False
    bound_to_ledger: ClassVar[str] = ""

    @property
    def first_rounds(self) -> int:
        """Rounds before the first that gives a model."""
        return 0

    @abstractmethod
    def check(self, config: "FederationConfig") -> None:
        """Raise InvalidConfig unless the other terms are such as the method needs."""

    @abstractmethod
    def to_table(self) -> dict[str, Any] | None:
        """The table, JSON-ready, without entries that have no effect; None for a method without a table."""

    @property
    @abstractmethod
    def words(self) -> MethodWords:
        """The method with these terms, in words."""


@dataclass(frozen=True)
class FederationConfig:
    """All that the members agree on; the digest of its canonical bytes is on the ledger.

    ``method`` says what rounds compute, and ``task`` what is trained; terms of methods that train nothing say nothing
    of training, strategy, shared set and privacy either.
    """

    method: MethodTerms
    task: TaskSettings | None = None
    federation: FederationSettings = field(default_factory=FederationSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    strategy: StrategySettings = field(default_factory=StrategySettings)
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    shared: SharedSettings = field(default_factory=SharedSettings)
    membership: MembershipSettings = field(default_factory=MembershipSettings)
    start: StartSettings = field(default_factory=StartSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    privacy: PrivacySettings | None = None
    evaluation: EvaluationSettings | None = None
    server: ServerSettings | None = None
    bounds: BoundsSettings | None = None

    def __post_init__(self) -> None:
        # With two survivors each would learn the other's update from the sum.
        check_value(self.ledger.quorum >= 3, "ledger.quorum", "at least 3")
        fine = self.membership.mode != "open" or self.federation.practice
        practice = "named or approved unless federation.practice is true: strangers could spoil every round"
        check_value(fine, "membership.mode", practice)
        slots, window = self.commit_slots, self.ledger.commit_window
        check_value(slots < window, "federation.commit_slots", f"less than ledger.commit_window, {window}")
        _check_silent(self)
        self.method.check(self)
        bound = self.method.bound_to_ledger if self.start.continues is not None else ""
        check_value(not bound, "start.continues", f"left out with a [{self.method.name}] table: {bound}")
        if "task" not in self.method.silent:
            _check_task(self, self.learned)
        fault = bf16_fault(self.training, self.strategy.name, self.contained is not None)
        check_value(not fault, "training.precision", fault)
        _check_privacy(self.privacy, self.masking, self.strategy)
        _check_evaluation(self)
        _check_bounds(self)
        fine = self.server is None or self.method.name == "training"
        check_value(fine, "server", f"left out with a [{self.method.name}] table: its step is on one model")
        fine = self.server is None or self.strategy.name not in STEPPING
        check_value(
            fine, "server", f"left out where strategy.name is {self.strategy.name}, which has a step of its own"
        )

    def with_members(self, accounts: Sequence[str]) -> "FederationConfig":
        """The same terms for these members and nobody else, with limits that suit how many they are."""
        membership = replace(self.membership, mode="named", members=tuple(accounts))
        return replace(self, membership=membership).with_limits(LIMITS)

    def with_limits(self, names: Collection[str]) -> "FederationConfig":
        """The same terms; these limits of the ledger follow from the members that they name, if they name any."""
        n, assumed = len(self.membership.members), self.masking.assumed
        if not (names and n and self.membership.mode == "named"):
            return self
        quorum = self.ledger.quorum
        if self.rate_ppm(1) == PPM:
            quorum = max(quorum, n // 2 + 1, 2 * assumed.colluders_of(n) + 1)
        quorum = quorum if "quorum" in names else self.ledger.quorum
        needed = {
            "quorum": quorum,
            "releases": min(quorum, sharing(quorum, assumed).threshold),
            "judges": min(quorum, assumed.colluders_of(n) + 1),
        }
        ledger = {name: value for name, value in needed.items() if name in names}
        return replace(self, ledger=replace(self.ledger, **ledger))

    def rate_ppm(self, number: int) -> int:
        """The sampling rate of a round in parts per million, as the ledger records it."""
        rate = self.federation.sampling_rate
        if isinstance(self.privacy, ClientLevelSettings):
            rate = self.privacy.sampling_rate_of(number, rate)
        return max(1, round(rate * PPM))

    @property
    def rounds_to_close(self) -> int:
        """Rounds that close: those that train, and behind them one in which members evaluate the last model."""
        return self.federation.rounds + (self.evaluation is not None)

    @property
    def rate_changes(self) -> tuple[int, ...]:
        """Rounds after the first from which on the sampling rate may be another."""
        if isinstance(self.privacy, ClientLevelSettings) and self.privacy.sampling_rates:
            return self.privacy.phases
        return ()

    @property
    def learned(self) -> TaskSettings:
        """The task, of terms whose method learns one; raises InvalidConfig: they name none."""
        if self.task is None:
            raise InvalidConfig("model is missing: add a [model] or [task] table, or [kmeans] for K-means")
        return self.task

    @property
    def network(self) -> ModelSpec:
        """The shipped network that members train; raises InvalidConfig: they train another task."""
        if self.learned.network is None:
            raise InvalidConfig("task must be a shipped network, which [model] names")
        return self.learned.network

    @property
    def contained(self) -> TaskSettings | None:
        """The task whose code reads the members' data in a sandbox; None where there is no such code."""
        return None if self.task is None or self.task.network is not None else self.task

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of a shipped task; empty where there are none, or only the task's code knows."""
        return self.task.shipped.class_names if self.task is not None and self.task.shipped is not None else ()

    @property
    def first_digest(self) -> bytes | None:
        """Digest of the first model, where the terms state it."""
        return bytes.fromhex(self.start.model) or None

    @property
    def mechanism(self) -> str:
        """Name of the privacy mechanism, ``none`` without one."""
        return self.privacy.mechanism if self.privacy is not None else "none"

    @property
    def commit_slots(self) -> int:
        """How many slots the commit window has; 0: none."""
        stated = self.federation.commit_slots
        if stated is None:
            return _PRIVATE_SLOTS if self.privacy is not None else 0
        return stated

    @property
    def max_blob_bytes(self) -> int:
        """The largest blob that a member fetches."""
        return self.federation.max_blob_mib << 20

    def to_tables(self) -> dict[str, Any]:
        """The tables of the TOML file, except for ``[network]`` and tables without effect."""
        tables = {
            item.name: dataclasses.asdict(value)
            for item in dataclasses.fields(self)
            if item.name not in ("method", *self.method.silent) and (value := getattr(self, item.name)) is not None
        }
        own = self.method.to_table()
        if own is not None:
            tables[self.method.name] = own
        if not self.federation.patience:
            del tables["federation"]["patience"]
        if self.start.continues is None:
            del tables["start"]["continues"]
        if self.federation.commit_slots is None:
            del tables["federation"]["commit_slots"]
        if "training" in tables:
            tables["training"] = plain_training(self.training)
        if self.privacy is not None:
            tables["privacy"]["mechanism"] = self.privacy.mechanism
        if self.server is not None:
            tables["server"]["step"] = self.server.step
        return tables

    def to_bytes(self) -> bytes:
        """Canonical JSON: sorted keys, no spaces; equal terms give equal bytes."""
        return self._canonical

    @cached_property
    def _canonical(self) -> bytes:
        return canonical_json(self.to_tables())


def _check_silent(config: FederationConfig) -> None:
    """The tables that terms with this method leave out say nothing."""
    for item in dataclasses.fields(config):
        if item.name in config.method.silent:
            plain = item.default_factory() if callable(item.default_factory) else item.default
            said = f"left out with a [{config.method.name}] table: it is for training models"
            key = "model or task" if item.name == "task" else item.name
            check_value(getattr(config, item.name) == plain, key, said)


def _check_task(config: FederationConfig, task: TaskSettings) -> None:
    """What cannot be agreed on where a task is trained."""
    check_value(bool(task.bundle) != bool(task.name), "task", "given a bundle, or the name of a shipped task")
    if task.network is not None:
        return
    fine = not config.shared.digest
    check_value(fine, "shared.digest", "left out where [task] is given: name a file of the bundle as task.shared")
    needs = config.strategy.name in SHARING and not task.shared
    check_value(not needs, "task.shared", f"a file of the bundle where strategy.name is {config.strategy.name}")
    if task.table is not None and task.table.scale == "federated":
        _check_sums(config)
    for name in config.training.augmentations:
        check_value(False, f"training.{name}", "left out where [task] is given: the task's data() augments")


def _check_sums(config: FederationConfig) -> None:
    """What terms must say where a first round sums means and second moments of columns, all within ±1."""
    fine = config.method.name == "training"
    check_value(fine, "task.options.scale", f"ranges or none with [{config.method.name}]: members train several models")
    fine = config.privacy is None
    check_value(fine, "task.options.scale", "ranges or none with [privacy]: sums of columns would have no noise")
    check_value(config.masking.bound >= 1, "masking.bound", 'at least 1 where task.options.scale is "federated"')


def _check_privacy(privacy: PrivacySettings | None, masking: MaskingSettings, strategy: StrategySettings) -> None:
    """Check a mechanism's requirements on masks and strategy."""
    if isinstance(privacy, SignDsSettings):
        check_value(masking.kappa == 1, "masking.kappa", "1 if privacy.mechanism is signds: there are no masks to thin")
        fine, others = strategy.name not in SENDING, f"{', '.join(SENDING[:-1])} and {SENDING[-1]}"
        check_value(
            fine,
            "strategy.name",
            f"other than {others} if privacy.mechanism is signds: votes move weights only",
        )
    if not isinstance(privacy, ClientLevelSettings):
        return
    fine = privacy.clipping != "median"
    check_value(fine, "privacy.clipping", "fixed or quantile: nobody knows the median of the norms here")
    check_value(
        masking.masked == "delta", "masking.masked", "delta if privacy.mechanism is client: updates are clipped"
    )
    # With less, groups of survivors can be summed tensor by tensor, with the noise of the group only.
    check_value(
        masking.kappa == 1, "masking.kappa", "1 if privacy.mechanism is client: only the whole sum has enough noise"
    )


def _check_evaluation(config: FederationConfig) -> None:
    """What members can sum under masks of a model that they evaluate."""
    settings = config.evaluation
    if settings is None:
        fine = not config.federation.patience
        check_value(fine, "federation.patience", "0 without [evaluation]: it waits for the members' loss to fall")
        return
    fine = config.method.evaluates
    check_value(fine, "evaluation", f"left out with a [{config.method.name}] table: there is no one model to evaluate")
    if isinstance(config.privacy, ClientLevelSettings):
        _check_rates(config, settings)
    elif config.privacy is not None:
        name = config.privacy.mechanism
        check_value(False, "evaluation", f"left out where privacy.mechanism is {name}: its sums would have no noise")
    fine = config.ledger.max_clients <= MOST_CLIENTS
    check_value(fine, "ledger.max_clients", f"at most {MOST_CLIENTS} with [evaluation]: words must not overflow")
    if config.contained is None:
        known = f"{RIGHT} and {CONFUSION}"
        check_value(
            settings.of_networks, "evaluation", f"a held_out above 0, and metrics {known} only, where [model] is given"
        )
    if CONFUSION in settings.metrics and config.learned.name:
        fine = 2 <= len(config.classes) <= MAX_CONFUSED and config.privacy is None
        said = f"without {CONFUSION}, which is for 2 to {MAX_CONFUSED} classes and no [privacy]"
        check_value(fine, "evaluation.metrics", said)


def _check_rates(config: FederationConfig, settings: EvaluationSettings) -> None:
    """What members can tell under the noise of client-level privacy: rates, where enough of them are drawn."""
    fine = config.ledger.quorum >= LEAST_RATED
    said = f"at least {LEAST_RATED} with [evaluation] and privacy.mechanism client: noise drowns the rates of fewer"
    check_value(fine, "ledger.quorum", said)
    said = "one metric at least where privacy.mechanism is client: rates in [0, 1] are told, and no loss"
    check_value(bool(settings.metrics), "evaluation.metrics", said)
    fine = not config.federation.patience
    check_value(fine, "federation.patience", "0 where privacy.mechanism is client: members tell rates, and no loss")


def _check_bounds(config: FederationConfig) -> None:
    """What terms must say where only updates are summed whose norm is within a bound."""
    bounds, masking = config.bounds, config.masking
    windows = {name: getattr(config.ledger, name) for name in WINDOWS}
    if bounds is None:
        for name, blocks in windows.items():
            check_value(not blocks, f"ledger.{name}", "0 without a [bounds] table: nobody vouches for an update")
        return
    check_bounds(bounds, config.method.name, config.privacy, masking)
    for name, blocks in windows.items():
        check_value(blocks, f"ledger.{name}", "1 or more with [bounds]")


def check_bounds(
    bounds: BoundsSettings, method: str, privacy: PrivacySettings | None, masking: MaskingSettings
) -> None:
    """Raise InvalidConfig unless updates can have bounds where a method of this name computes the rounds."""
    fine, why = method == "training", "its sums are not of updates of one model"
    check_value(fine, "bounds", f"left out with a [{method}] table: {why}")
    mechanism = privacy.mechanism if privacy is not None else "none"
    fine = privacy is None
    check_value(fine, "bounds", f"left out where privacy.mechanism is {mechanism}: noise has a norm of its own")
    check_value(masking.masked == "delta", "masking.masked", "delta with [bounds]: it is updates that have a norm")
    check_value(masking.kappa == 1, "masking.kappa", "1 with [bounds]: every mask covers the whole update")
    most = largest_norm(masking.bound)
    fine = bounds.norm <= most
    check_value(
        fine, "bounds.norm", f"at most {most:.3g} where masking.bound is {masking.bound:g}, or masking.bound larger"
    )
