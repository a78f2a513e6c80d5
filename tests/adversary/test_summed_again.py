"""A member that wants the first round's means and deviations summed again and again.

Who attacks: one member of a federation that standardises its data (`tables`, `scale = "federated"`). The model says by
a tensor whether it holds the statistics; honest members send a one. The attacker sends what brings the mean of these
below a half, or to zero. Everybody would then sum again, in every round: nothing is ever trained, and as these sums
follow from the data alone, two of them between which a member left give that member's own means and deviations, to
whoever reads the store.

What stops it: only the first model, which is all zeros there, holds no statistics; to bring the others' means to zero
as well, the attacker would have to know them before the sum.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.training import first_tensors
from tests.node.learning.tasks.test_standardise import BOUND, KNOWN, MEAN, MOMENT, Lines, points, summed, trained

MEMBERS = 4


@pytest.mark.parametrize("sent", [-BOUND, 1.0 - MEMBERS], ids=["as low as may be", "to zero"])
def test_one_member_cannot_have_the_statistics_summed_again(sent):
    first = first_tensors(Lines(), make_strategy("fedavg", {}), 1)
    honest = [trained(points(seed, 20), first) for seed in range(1, MEMBERS)]
    own = trained(points(9, 20), first)
    lie = replace(own, tensors={**own.tensors, KNOWN: np.full(1, sent, np.float32)})
    model = summed([*honest, lie])
    assert model[KNOWN] <= 0.5, "this is the attack"
    after = trained(points(1, 20), model, number=2).tensors
    assert not np.array_equal(after["1.weight"], first["1.weight"]), "it trains"
    for name in (MEAN, MOMENT):
        np.testing.assert_allclose(after[name], model[name], rtol=0, atol=2.0**-22)
