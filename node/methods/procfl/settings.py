"""What a federation agrees on about clusters, as plain checked values (no heavy import here)."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from fedgrove.node.methods.procfl.cover import as_threshold
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.training import global_rounds

PSI = ("clear", "ecdh", "rsa")
SHOWN = ("upload", "noised")
MEANS = ("mean", "krum", "multi-krum", "median", "trimmed-mean")
MAX_SEATS = 1000
MAX_MODELS = 100


@dataclass(frozen=True)
class ProCflSettings:
    """Clusters by private similarity, and committees against poisoning (Xu et al. 2025).

    Attributes
    ----------
    alpha : float
        Clients n and m may share a cluster where ISMₙ[m] is at least this.
    global_share : float
        λ: fraction of the rounds that train one model of all clusters.
    psi : str
        How overlaps are found: ``ecdh`` and ``rsa`` exchange their real messages, ``clear`` uses the formula. All three
        give the same clusters; ``clear`` is for simulations.
    seats : int
        d, the number of seats of a committee; with 0 nobody looks for malicious clusters.
    public_samples : int
        Size of the public set on which models are monitored, at most half of the test samples.
    tolerance : float
        A model whose accuracy there falls by more than this is not used any further, and raises suspicion.
    pause : int
        Rounds before a member that was judged may be judged again.
    least_overlap : float
        A judge has at least this in common with the members: Σ of the overlaps, as a fraction of Σ of the larger sets.
    least_pool : float
        A cluster is judged only where at least this share of all clients that trained may judge it.
    shown_noise : float
        Length of the noise in the models that are shown to a committee, relative to the length of the update.
    rule : Rule
        When a judge calls a model malicious.
    """

    method: ClassVar[str] = "procfl"

    alpha: float = 0.3
    global_share: float = 0.5
    psi: Literal["clear", "ecdh", "rsa"] = "clear"
    seats: int = 0
    public_samples: int = 500
    tolerance: float = 0.1
    pause: int = 3
    least_overlap: float = 0.1
    least_pool: float = 0.5
    shown_noise: float = 1.0
    rule: Rule = field(default_factory=Rule)

    def __post_init__(self) -> None:
        as_threshold(self.alpha)
        global_rounds(1, self.global_share)
        _check(self.psi in PSI, "psi", f"one of {', '.join(PSI)}", self.psi)
        _check(0 <= self.seats <= MAX_SEATS, "seats", f"from 0 (no committees) to {MAX_SEATS}", self.seats)
        _check(1 <= self.public_samples <= 1_000_000, "public_samples", "from 1 to 1000000", self.public_samples)
        _check(0 <= self.tolerance < 1, "tolerance", "from 0 to below 1", self.tolerance)
        _check(1 <= self.pause <= 100_000, "pause", "from 1 to 100000 rounds", self.pause)
        _check(0 < self.least_overlap <= 1, "least_overlap", "above 0 and at most 1", self.least_overlap)
        _check(0 <= self.least_pool < 1, "least_pool", "from 0 to below 1", self.least_pool)
        _check(0 <= self.shown_noise <= 100, "shown_noise", "from 0 to 100", self.shown_noise)


@dataclass(frozen=True)
class IfcaSettings:
    """The rival IFCA (Ghosh et al. 2020).

    Attributes
    ----------
    models : int
        k: number of models trained, each from different initial weights.
    """

    method: ClassVar[str] = "ifca"

    models: int = 5

    def __post_init__(self) -> None:
        _check(1 <= self.models <= MAX_MODELS, "models", f"from 1 to {MAX_MODELS}", self.models)


@dataclass(frozen=True)
class GlobalSettings:
    """One model for all, as a rival whose personalised accuracy and robustness are measured.

    Attributes
    ----------
    mean : str
        How the clients' models become the next model: their mean weighted by samples (FedAvg), or a robust mean that
        looks at each of them. Krum and the trimmed mean are given the number of attackers, the most favourable case.
    """

    method: ClassVar[str] = "global"

    mean: Literal["mean", "krum", "multi-krum", "median", "trimmed-mean"] = "mean"

    def __post_init__(self) -> None:
        _check(self.mean in MEANS, "mean", f"one of {', '.join(MEANS)}", self.mean)


ClusteringSettings = ProCflSettings | IfcaSettings | GlobalSettings

METHODS: dict[str, type[ClusteringSettings]] = {
    kind.method: kind for kind in (ProCflSettings, IfcaSettings, GlobalSettings)
}
"""Settings by their ``method``."""


def _check(fine: bool, name: str, allowed: str, value: object) -> None:
    if not fine:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
