"""What the members' own evaluation came to under client-level privacy: the mean of each rate, with noise.

There is no count in it and no loss, so it ends no training. Each member's rate weighs the same.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedgrove.node.learning.settings import RIGHT

_MOST = 1e6  # of a figure: no terms lead to so much noise
MOST_REASON = 300
"""Characters of a reason why a statement is void."""


@dataclass(frozen=True)
class MembersRates:
    """The members' rates of the model that a round began with. Fields that only exact metrics have stay empty.

    Attributes
    ----------
    rates : mapping of str to float
        Means with noise, by the name of the metric; ``right`` is the accuracy. Noise may carry them beyond [0, 1].
    noise : float
        Their standard deviation (``ClientLevelRound.rate_deviation``).
    void : str
        Why there are none, in one clause; else empty.
    last : bool
        The round trained nothing: this is how the last model does, and no round follows.
    """

    rates: Mapping[str, float]
    noise: float
    void: str = ""
    last: bool = False

    samples: ClassVar[int] = 0
    loss: ClassVar[float | None] = None
    standard_error: ClassVar[float | None] = None
    course: ClassVar[None] = None
    ending: ClassVar[str] = ""

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

    def to_table(self) -> dict[str, Any]:
        """The statement, JSON-ready."""
        table: dict[str, Any] = {"rates": dict(self.rates), "noise": self.noise}
        if self.void:
            table["void"] = self.void
        if self.last:
            table["last"] = True
        return table

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "MembersRates":
        """Read what ``to_table`` made; ValueError, TypeError or KeyError for anything else."""
        found = cls(table["rates"], table["noise"], table.get("void", ""), table.get("last", False))
        if not isinstance(found.void, str) or len(found.void) > MOST_REASON or type(found.last) is not bool:
            raise ValueError("not a statement of rates")
        named = isinstance(found.rates, dict) and all(name.isascii() and name.isidentifier() for name in found.rates)
        if not named or not all(map(_is_figure, (found.noise, *found.rates.values()))) or found.noise < 0:
            raise ValueError("not rates")
        if bool(found.rates) == bool(found.void):
            raise ValueError("rates and a reason why there are none, or neither")
        return found


def _is_figure(value: Any) -> bool:
    return type(value) is float and math.isfinite(value) and abs(value) <= _MOST
