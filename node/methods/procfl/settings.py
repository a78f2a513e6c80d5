"""Settings of a federation with clusters, as plain checked values (no heavy import here)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from msgspec import Meta

from fedgrove.common.settings import Rate, Settings, Share
from fedgrove.node.methods.procfl.evidence import Rule

MAX_SEATS = 1000


@dataclass(frozen=True)
class ProCflSettings(Settings):
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

    name: ClassVar[str] = "procfl"

    alpha: Rate = 0.3
    global_share: Share = 0.5
    seats: Annotated[int, Meta(ge=0, le=MAX_SEATS, description=f"from 0 (no committees) to {MAX_SEATS}")] = 0
    public_samples: Annotated[int, Meta(ge=1, le=1_000_000)] = 500
    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    pause: Annotated[int, Meta(ge=1, le=100_000, description="from 1 to 100000 rounds")] = 3
    least_overlap: Rate = 0.1
    least_pool: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    shown_noise: Annotated[float, Meta(ge=0, le=100)] = 1.0
    rule: Rule = field(default_factory=Rule)
