"""Settings of a federation with clusters, as plain checked values (no heavy import here)."""

from dataclasses import dataclass, field
from typing import ClassVar

from fedgrove.node.methods.procfl.cover import as_threshold
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.training import global_rounds

SHOWN = ("upload", "noised")
MAX_SEATS = 1000


@dataclass(frozen=True)
class ProCflSettings:
    """Clusters by private similarity, and committees against poisoning (Xu et al. 2025).

    Attributes
    ----------
    alpha : float
        Clients n and m may share a cluster where ISMₙ[m] is at least this.
    global_share : float
        λ: fraction of the rounds that train one model of all clusters.
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
        check_setting(0 <= self.seats <= MAX_SEATS, "seats", f"from 0 (no committees) to {MAX_SEATS}", self.seats)
        check_setting(1 <= self.public_samples <= 1_000_000, "public_samples", "from 1 to 1000000", self.public_samples)
        check_setting(0 <= self.tolerance < 1, "tolerance", "from 0 to below 1", self.tolerance)
        check_setting(1 <= self.pause <= 100_000, "pause", "from 1 to 100000 rounds", self.pause)
        check_setting(0 < self.least_overlap <= 1, "least_overlap", "above 0 and at most 1", self.least_overlap)
        check_setting(0 <= self.least_pool < 1, "least_pool", "from 0 to below 1", self.least_pool)
        check_setting(0 <= self.shown_noise <= 100, "shown_noise", "from 0 to 100", self.shown_noise)


def check_setting(fine: object, name: str, allowed: str, value: object) -> None:
    """Raise ValueError, which says what is allowed, unless a setting is fine."""
    if not fine:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
