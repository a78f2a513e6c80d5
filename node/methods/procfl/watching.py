"""Whether a cluster's model fell: what it gets right of the public samples, of the labels that it is for.

A model is scored twice. Its expected accuracy on data like its members' says how useful it is. Its mean accuracy over
all labels that they have, each with the same weight, says that none was given up for another: else a model that always
says the most frequent label would pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedgrove.node.methods.procfl.stated import Counts

_FULL = 2  # a label counts where its share is at least one over this of an equal share


@dataclass(frozen=True)
class Score:
    """How a model does on the labels that it is for.

    Attributes
    ----------
    expected : Fraction
        Accuracy that is to be expected on data with these labels.
    even : Fraction
        Mean accuracy over the labels that have at least half as many samples as an average one.
    """

    expected: Fraction
    even: Fraction

    def fell(self, best: "Score", tolerance: Fraction) -> bool:
        """Whether it is worse than the best before, in one respect or the other, by more than the tolerance."""
        return self.expected < best.expected - tolerance or self.even < best.even - tolerance

    def reaches(self, best: "Score") -> bool:
        """Whether neither score is lower, so that the best values cannot decline in small steps."""
        return self.expected >= best.expected and self.even >= best.even


def score(right: Counts, tested: Counts, labels: Counts) -> Score:
    """Score a model.

    Parameters
    ----------
    right, tested : Counts
        Right answers and public samples of each label.
    labels : Counts
        How much of each label the model is for, in any unit; what was not tested does not count.
    """
    known = [(count, Fraction(n, most)) for n, most, count in zip(right, tested, labels, strict=True) if most]
    total = sum(count for count, _ in known)
    if not total:
        return Score(Fraction(0), Fraction(0))
    expected = sum((count * share for count, share in known), Fraction(0)) / total
    counting = [share for count, share in known if _FULL * len(known) * count >= total]
    return Score(expected, sum(counting, Fraction(0)) / len(counting))


def fallen(found: Sequence[Score], best: Sequence[Score], tolerance: float) -> tuple[int, ...]:
    """Numbers of the models that fell."""
    exact = Fraction(str(tolerance))
    pairs = enumerate(zip(found, best, strict=True))
    return tuple(number for number, (now, before) in pairs if now.fell(before, exact))
