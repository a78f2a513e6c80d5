"""The federation's configuration: one TOML file, parsed into dataclasses, unknown keys refused.

Everything but the ``[network]`` table is what the members agree on. Its canonical JSON form goes to the store and its
digest on the ledger with every round, so nobody trains under terms that others do not see. ``[network]`` says how
*this* member reaches chain and store and is nobody else's business.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eth_utils import is_checksum_address
from fedgrove.chain.deployment import Settings as LedgerSettings
from fedgrove.chain.regular_file import read_regular
from fedgrove.chain.strict_json import parse_json
from fedgrove.node.base.strict_tables import InvalidConfig, build, check_value, join
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.learning.settings import STRATEGIES, ModelSpec, TrainingSettings
from fedgrove.node.masking.parameters import Assumed
from fedgrove.node.methods.kmeans.settings import ClusteringSettings
from fedgrove.node.methods.procfl.settings import ClusterTerms
from fedgrove.node.privacy.settings import MECHANISMS, ClientLevelSettings, PrivacySettings, SignDsSettings
from fedgrove.node.protocol.network_settings import NetworkSettings

MAX_CONFIG_BYTES = 1 << 20
MAX_CLUSTERED = 400
_OF_MODELS = ("model", "training", "strategy", "shared", "privacy")
PPM = 1_000_000


@dataclass(frozen=True)
class FederationSettings:
    """What is trained, and for how long.

    Attributes
    ----------
    name : str
        Shown to people; at most 80 printable characters.
    rounds : int
        Communication rounds T that close.
    repeats : int
        How many rounds more may be opened, in place of rounds that were skipped, failed or voided.
    sampling_rate : float
        r in (0, 1]: a client is drawn when its VRF output is below r·2²⁵⁶ (spec 01).
    seed : int
        Root of all training randomness; masks and keys never depend on it.
    max_blob_mib : int
        No blob above this many MiB is fetched.
    checkers : float
        How many members recompute a closed round before they train on it, on average; a lot that nobody else knows
        decides who. When one of them finds it wrong, all do.
    """

    name: str = "fedgrove"
    rounds: int = 3
    repeats: int = 100
    sampling_rate: float = 1.0
    seed: int = 0
    max_blob_mib: int = 256
    checkers: float = 5.0

    def __post_init__(self) -> None:
        check_value(
            0 < len(self.name) <= 80 and self.name.isprintable(), "federation.name", "1 to 80 printable characters"
        )
        check_value(1 <= self.rounds <= 100_000, "federation.rounds", "a whole number from 1 to 100000")
        check_value(0 <= self.repeats <= 100_000, "federation.repeats", "a whole number from 0 to 100000")
        check_value(0 < self.sampling_rate <= 1, "federation.sampling_rate", "above 0 and at most 1")
        check_value(0 <= self.seed < 1 << 63, "federation.seed", "a whole number from 0 to 2^63 - 1")
        check_value(0 <= self.checkers <= 65_535, "federation.checkers", "from 0 to 65535")
        check_value(1 <= self.max_blob_mib <= 4096, "federation.max_blob_mib", "a whole number from 1 to 4096")


@dataclass(frozen=True)
class StrategySettings:
    """The local training strategy and its options (see ``node.learning.strategies``)."""

    name: str = "fedaom"
    options: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_value(self.name in STRATEGIES, "strategy.name", f"one of {', '.join(STRATEGIES)}")


@dataclass(frozen=True)
class MaskingSettings:
    """How updates are hidden (spec 02).

    Attributes
    ----------
    mode : str
        ``bbtsa``: partners from the cooperation tree; ``pairwise``: everyone is a partner of everyone.
    masked : str
        ``weights`` or ``delta`` (the update against the round's global model, for a tighter bound).
    bound : float
        Bound on the absolute value of any parameter; more is an error, never a clip.
    kappa : float
        Fraction of tensors that each pair masks; 1 masks everything.
    colluders, dropouts : float
        Shares of a round's clients that may collude with the coordinator, and that may drop out. How many partners and
        share-holders a client has follows from them (``node.masking.parameters``).
    threshold : float
        ⌊threshold·k⌋ + 1 of k holders recover a secret; 0 takes what follows from ``colluders`` and ``dropouts``. Below
        (1 + colluders)/2, colluders who show the holders different lists of survivors can open an update.
    """

    mode: Literal["bbtsa", "pairwise"] = "bbtsa"
    masked: Literal["weights", "delta"] = "weights"
    bound: float = 8.0
    kappa: float = 1.0
    colluders: float = 0.33
    dropouts: float = 0.2
    threshold: float = 0.0

    def __post_init__(self) -> None:
        check_value(1e-3 <= self.bound <= 1e6, "masking.bound", "from 0.001 to 1000000")
        check_value(0 < self.kappa <= 1, "masking.kappa", "above 0 and at most 1")
        check_value(0 <= self.colluders <= 0.5, "masking.colluders", "from 0 to 0.5")
        check_value(0 <= self.dropouts <= 0.5, "masking.dropouts", "from 0 to 0.5")
        fine = self.threshold == 0 or 0.5 <= self.threshold < 1
        check_value(fine, "masking.threshold", "0 (what follows from the other keys) or from 0.5 to below 1")

    @property
    def assumed(self) -> Assumed:
        """Shares of colluders and dropouts, to compute with."""
        return Assumed.of(self.colluders, self.dropouts)


@dataclass(frozen=True)
class SharedSettings:
    """The shared set d_share: hex sha2-256 digest of its blob in the store; empty when the strategy needs none."""

    digest: str = ""

    def __post_init__(self) -> None:
        fine = not self.digest or (len(self.digest) == 64 and set(self.digest) <= set("0123456789abcdef"))
        check_value(fine, "shared.digest", "64 lower-case hexadecimal characters")


@dataclass(frozen=True)
class StartSettings:
    """What training starts from: hex sha2-256 digest of the first model, which follows from the other terms.

    Whoever cannot compute the model, as an auditor without torch, knows it by this digest; ``fedgrove deploy`` writes
    it.
    """

    model: str = ""

    def __post_init__(self) -> None:
        fine = not self.model or (len(self.model) == 64 and set(self.model) <= set("0123456789abcdef"))
        check_value(fine, "start.model", "64 lower-case hexadecimal characters")


@dataclass(frozen=True)
class MembershipSettings:
    """Who may take part.

    Attributes
    ----------
    mode : str
        ``open`` to all, or ``approved`` by the federation's admin.
    activation_delay : int
        Blocks from a registration or approval to the first round that may draw the client.
    least : float
        A client takes part only in rounds in which at least this share of the members that it counts on has drawn
        (``node.roles.company``).
    members : tuple of str
        Accounts (checksummed addresses) of all that may ever take part; empty: whoever registers, or is approved. Only
        with ``approved``.
    """

    mode: Literal["open", "approved"] = "open"
    activation_delay: int = 1
    least: float = 0.5
    members: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_value(0 <= self.least <= 1, "membership.least", "from 0 to 1")
        fine = all(isinstance(each, str) and is_checksum_address(each) for each in self.members)
        check_value(fine and len(set(self.members)) == len(self.members), "membership.members", "checksummed addresses")
        fine = not self.members or self.mode == "approved"
        check_value(
            fine, "membership.members", "left out where membership.mode is open: anybody could spoil the rounds"
        )
        check_value(0 <= self.activation_delay <= 100_000, "membership.activation_delay", "0 to 100000 blocks")


@dataclass(frozen=True)
class FederationConfig:
    """All that the members agree on; the digest of its canonical bytes is on the ledger.

    Either they train a ``model``, or one for each of several ``clusters``, or they do K-means (``clustering``); of
    training, strategy, shared set and privacy terms of the latter say nothing.
    """

    model: ModelSpec | None = None
    federation: FederationSettings = field(default_factory=FederationSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    strategy: StrategySettings = field(default_factory=StrategySettings)
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    shared: SharedSettings = field(default_factory=SharedSettings)
    membership: MembershipSettings = field(default_factory=MembershipSettings)
    start: StartSettings = field(default_factory=StartSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    privacy: PrivacySettings | None = None
    clustering: ClusteringSettings | None = None
    clusters: ClusterTerms | None = None

    def __post_init__(self) -> None:
        if self.clustering is not None:
            _check_clustering(self)
        elif self.model is None:
            raise InvalidConfig("model is missing: add the [model] table, or [clustering] for K-means")
        # With two survivors each would learn the other's update from the sum (spec 02, step 3).
        check_value(self.ledger.quorum >= 3, "ledger.quorum", "at least 3")
        if self.clusters is not None:
            _check_clusters(self)
        _check_privacy(self.privacy, self.masking, self.strategy)

    def rate_ppm(self, number: int) -> int:
        """The sampling rate of a round in parts per million, as the ledger records it."""
        rate = self.federation.sampling_rate
        if isinstance(self.privacy, ClientLevelSettings):
            rate = self.privacy.sampling_rate_of(number, rate)
        return max(1, round(rate * PPM))

    @property
    def rate_changes(self) -> tuple[int, ...]:
        """Rounds after the first from which on the sampling rate may be another."""
        given = isinstance(self.privacy, ClientLevelSettings) and self.privacy.sampling_rates
        return self.privacy.phases if given else ()

    @property
    def mechanism(self) -> str:
        """Name of the privacy mechanism, ``none`` without one."""
        return self.privacy.mechanism if self.privacy is not None else "none"

    @property
    def max_blob_bytes(self) -> int:
        """The largest blob that a member fetches."""
        return self.federation.max_blob_mib << 20

    def to_tables(self) -> dict[str, Any]:
        """The tables of the TOML file, ``[network]`` apart, and those that say nothing."""
        tables = dataclasses.asdict(self)
        silent = _OF_MODELS if self.clustering is not None else ("clustering",)
        tables = {name: table for name, table in tables.items() if name not in silent}
        if self.clusters is None:
            del tables["clusters"]
        elif not self.clusters.seats:  # without committees nobody shows anything
            del tables["clusters"]["shown"]
        if self.clusters is not None and not self.clusters.states:  # nor does anybody sign
            del tables["clusters"]["signer"]
        if self.privacy is not None:
            tables["privacy"]["mechanism"] = self.privacy.mechanism
        else:
            tables.pop("privacy", None)
        return tables

    def to_bytes(self) -> bytes:
        """Canonical JSON: sorted keys, no spaces; equal terms give equal bytes."""
        return json.dumps(self.to_tables(), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "FederationConfig":
        """Parse what ``to_bytes`` wrote; anything else, also the same terms written otherwise, is refused."""
        if len(data) > MAX_CONFIG_BYTES:
            raise InvalidConfig(f"the configuration is larger than {MAX_CONFIG_BYTES} bytes")
        try:
            tables = parse_json(data)
        except ValueError:
            raise InvalidConfig("the configuration in the store is not JSON") from None
        config = _parse(tables)
        if config.to_bytes() != data:
            raise InvalidConfig("the configuration in the store is not in canonical form")
        return config


def load_config(path: Path) -> tuple[FederationConfig, NetworkSettings]:
    """Read a federation's TOML file.

    Raises
    ------
    InvalidConfig
        Missing file, bad TOML, an unknown key, a value of the wrong type or out of range.
    """
    try:
        data = read_regular(path, MAX_CONFIG_BYTES)
    except OSError as fault:
        raise InvalidConfig(f"cannot read {path}: {fault.strerror}; give the federation's TOML file") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise InvalidConfig(f"{path} is larger than {MAX_CONFIG_BYTES} bytes: it is no federation configuration")
    try:
        tables = parse_toml(data)
    except ValueError as fault:
        raise InvalidConfig(f"{path} is not valid TOML: {fault}") from None
    network = tables.pop("network", {})
    if isinstance(network, dict) and isinstance(network.get("rpc"), str):
        network["rpc"] = [network["rpc"]] if network["rpc"] else []
    network = build(NetworkSettings, network, "network")
    return _parse(tables), network


def _parse(tables: Any) -> FederationConfig:
    """All tables but ``[network]``; of ``[privacy]`` its ``mechanism`` says what the other keys are."""
    if not isinstance(tables, dict) or "privacy" not in tables:
        return build(FederationConfig, tables, "")
    others = {name: table for name, table in tables.items() if name != "privacy"}
    return build(FederationConfig, others, "", privacy=_build_privacy(tables["privacy"]))


def _check_clustering(config: FederationConfig) -> None:
    """What K-means needs of the other terms."""
    given = {item.name: getattr(config, item.name) for item in dataclasses.fields(config) if item.name in _OF_MODELS}
    silent = {"training": TrainingSettings(), "strategy": StrategySettings(), "shared": SharedSettings()}
    for name, value in given.items():
        fine = value == silent.get(name)
        check_value(fine, name, "left out where there is a [clustering] table: it says how models are trained")
    check_value(
        config.federation.sampling_rate == 1, "federation.sampling_rate", "1 where there is a [clustering] table"
    )
    # Field elements are masked as one vector, by every pair.
    check_value(config.masking.kappa == 1, "masking.kappa", "1 where there is a [clustering] table")
    largest = config.clustering.largest_upload(config.ledger.max_clients)
    fine = largest <= config.max_blob_bytes
    allowed = f"{-(-largest >> 20)} at least: so large are uploads when all of ledger.max_clients are summed"
    check_value(fine, "federation.max_blob_mib", allowed)
    # Else members could claim more points than the server can cluster.
    most = config.clustering.most_points // config.ledger.max_clients
    check_value(
        config.ledger.max_samples <= most, "ledger.max_samples", f"at most {most} for so many clients and this grid"
    )


def _check_clusters(config: FederationConfig) -> None:
    """What clusters need of the other terms."""
    table = "where there is a [clusters] table"
    check_value(
        config.clustering is None, "clusters", "left out where there is a [clustering] table: K-means has no models"
    )
    check_value(config.privacy is None, "privacy.mechanism", f"none {table}")
    check_value(config.federation.sampling_rate == 1, "federation.sampling_rate", f"1 {table}")
    check_value(config.masking.kappa == 1, "masking.kappa", f"1 {table}: only whole sums of a group are safe")
    check_value(config.masking.masked == "weights", "masking.masked", f"weights {table}")
    fine = config.ledger.max_clients <= MAX_CLUSTERED
    check_value(fine, "ledger.max_clients", f"at most {MAX_CLUSTERED} {table}: all overlaps are stated at once")
    # The counter and one member together learn the label counts of all others.
    apart = config.clusters.psi != "ecdh" or config.membership.mode == "approved"
    check_value(apart, "membership.mode", 'approved where clusters.psi is "ecdh": else the counter could be a member')
    least = config.clusters.first_rounds + 1
    check_value(config.federation.rounds >= least, "federation.rounds", f"at least {least} {table}: so many come first")


def _check_privacy(privacy: PrivacySettings | None, masking: MaskingSettings, strategy: StrategySettings) -> None:
    """What a mechanism needs of masks and strategy."""
    if isinstance(privacy, SignDsSettings):
        check_value(
            masking.kappa == 1, "masking.kappa", "1 where privacy.mechanism is signds: there are no masks to thin"
        )
        fine = strategy.name != "fedcurv"
        check_value(
            fine, "strategy.name", "another than fedcurv where privacy.mechanism is signds: votes move weights only"
        )
    if not isinstance(privacy, ClientLevelSettings):
        return
    fine = privacy.clipping != "median"
    check_value(fine, "privacy.clipping", "fixed or quantile: the median of the norms itself is known to nobody here")
    check_value(
        masking.masked == "delta", "masking.masked", "delta where privacy.mechanism is client: updates are clipped"
    )
    # With less, groups of survivors can be summed tensor by tensor, with the noise of the group only.
    check_value(
        masking.kappa == 1, "masking.kappa", "1 where privacy.mechanism is client: only the whole sum has its noise"
    )


def _build_privacy(table: Any) -> PrivacySettings | None:
    """The ``[privacy]`` table."""
    if not isinstance(table, dict):
        raise InvalidConfig("privacy must be a table")
    known = ("none", *MECHANISMS)
    mechanism = table.get("mechanism")
    if not isinstance(mechanism, str) or mechanism not in known:
        raise InvalidConfig(f"privacy.mechanism must be one of {', '.join(known)}")
    values = {key: value for key, value in table.items() if key != "mechanism"}
    if mechanism != "none":
        return build(MECHANISMS[mechanism], values, "privacy")
    if values:
        raise InvalidConfig(f"{join('privacy', min(values))} is set, but privacy.mechanism is none: give a mechanism")
    return None
