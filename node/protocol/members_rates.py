"""What the members' own evaluation came to under client-level privacy: the mean of each rate, with noise.

There is no count in it and no loss, so it ends no training. Each member's rate weighs the same.
"""

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from fedgrove.common.wire import Table
from fedgrove.node.learning.settings import RIGHT

_MOST = 1e6  # of a figure: no terms lead to so much noise
_Name = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z")]
_Rate = Annotated[float, Meta(ge=-_MOST, le=_MOST)]
Reason = Annotated[str, Meta(max_length=300)]
"""Why a statement is void, in one clause; else empty."""


class MembersRates(Table, frozen=True, tag_field="kind", tag="rates"):
    """The members' rates of the model that a round began with. Fields that only exact metrics have stay empty.

    Attributes
    ----------
    rates : dict of str to float
        Means with noise, by the name of the metric; ``right`` is the accuracy. Noise may carry them beyond [0, 1].
    noise : float
        Their standard deviation (``ClientLevelRound.rate_deviation``).
    void : str
        Why there are none, in one clause; else empty.
    last : bool
        The round trained nothing: this is how the last model does, and no round follows.
    """

    rates: dict[_Name, _Rate]
    noise: Annotated[float, Meta(ge=0, le=_MOST)]
    void: Reason = ""
    last: bool = False

    samples: ClassVar[int] = 0
    loss: ClassVar[float | None] = None
    standard_error: ClassVar[float | None] = None
    course: ClassVar[None] = None
    ending: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if bool(self.rates) == bool(self.void):
            raise ValueError("it has rates and a reason why there are none, or neither")

    @property
    def there(self) -> bool:
        """Whether anything was measured."""
        return bool(self.rates) and not self.void

    @property
    def accuracy(self) -> float | None:
        """The noisy mean of the members' shares of right answers, within [0, 1]; None where they are not counted."""
        return self.to_figures().get("accuracy") if RIGHT in self.rates else None

    def to_figures(self) -> dict[str, Any]:
        """What people are told, JSON-ready: the rates by name, kept within [0, 1], and their noise; or why not."""
        if not self.there:
            return {"void": self.void}
        kept = {name: min(max(rate, 0.0), 1.0) for name, rate in self.rates.items()}
        return {"accuracy" if name == RIGHT else name: rate for name, rate in kept.items()} | {"noise": self.noise}

    def to_report(self) -> dict[str, Any]:
        """The same, and whether the round only evaluated the last model."""
        return self.to_figures() | ({"last": True} if self.last else {})
