"""A first round sums means and second moments: those of the union of the data, whatever the split."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import nn

from fedgrove.node.base.tensors import Layout, flatten, unflatten
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.tasks import InvalidTask, Standardise, Task
from fedgrove.node.learning.tasks.task import dataset_of
from fedgrove.node.learning.training import build, evaluate, first_tensors, train
from fedgrove.node.masking.ring import WORD, decode, encode

MEAN, MOMENT, KNOWN = "0.running_mean", "0.running_second_moment", "0.known"
BOUND = 8.0
# Of float32 values up to 1, and of four words with 27 fractional bits.
ROUNDING = 2.0**-23 + 4 * 2.0**-28
TRAINING = TrainingSettings(learning_rate=0.1, batch_size=4)


class Lines(Task):
    """Points of three numbers; the first two are standardised."""

    def model(self):
        return nn.Sequential(Standardise(2), nn.Linear(3, 2))


def points(seed, count):
    generator = np.random.default_rng(seed)
    inputs = generator.uniform(-1, 1, (count, 3)) * [1, 0.01, 5] + [0, 0.9, 0]
    return inputs.astype(np.float32), (inputs[:, 0] > 0).astype(np.int64)


def trained(data, tensors, number=1, name="fedavg", options=None, keep=()):
    task, strategy = Lines(), make_strategy(name, options or {})
    return train(
        build(task, keep),
        dataset_of(data),
        tensors,
        strategy,
        TRAINING,
        number=number,
        rounds=9,
        client=1,
        seed=3,
    )


def summed(updates):
    """The global model as masks leave it: words of weighted float32 values, summed modulo 2³²."""
    total, layout = sum(each.samples for each in updates), Layout.of(updates[0].tensors)
    words = np.zeros(layout.length, WORD)
    for each in updates:
        words += encode(flatten(each.tensors), layout, each.samples, total, BOUND)
    return unflatten(decode(words, total, total, BOUND), layout)


@settings(max_examples=20, deadline=None)
@given(sizes=some.lists(some.integers(1, 30), min_size=1, max_size=4), seed=some.integers(0, 99))
def test_the_pooled_moments_are_those_of_the_union_whatever_the_split(sizes, seed):
    inputs, targets = points(seed, sum(sizes))
    ends = np.cumsum(sizes)
    parts = [(inputs[end - size : end], targets[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    first = first_tensors(Lines(), make_strategy("fedavg", {}), 1)
    model = summed([trained(part, first) for part in parts])
    union = inputs[:, :2].astype(np.float64)
    assert np.abs(model[MEAN] - union.mean(0)).max() <= ROUNDING
    assert np.abs(model[MOMENT] - np.square(union).mean(0)).max() <= ROUNDING
    assert model[KNOWN] == pytest.approx(1, abs=ROUNDING)


def test_the_first_round_leaves_parameters_as_they_are_and_later_rounds_the_moments():
    data = points(1, 40)
    first = first_tensors(Lines(), make_strategy("fedavg", {}), 1)
    sums = trained(data, first).tensors
    assert np.array_equal(sums["1.weight"], first["1.weight"]) and np.array_equal(sums["1.bias"], first["1.bias"])
    after = trained(data, sums, number=2).tensors
    assert not np.array_equal(after["1.weight"], first["1.weight"])
    for name in (MEAN, MOMENT, KNOWN):
        np.testing.assert_allclose(after[name], sums[name], rtol=0, atol=2.0**-23)


def test_it_is_the_model_and_not_the_rounds_number_that_says_whether_to_sum():
    # A first round that did not close leaves the first model: the next round sums in its place.
    first = first_tensors(Lines(), make_strategy("fedavg", {}), 1)
    assert trained(points(1, 40), first, number=7).tensors[KNOWN] == 1


@pytest.mark.parametrize(("name", "options"), [("moon", {}), ("fedcurv", {}), ("fedprox", {})])
def test_names_and_shapes_are_those_of_any_round_under_every_strategy(name, options):
    task, strategy, data = Lines(), make_strategy(name, options), points(1, 12)
    if name == "moon":
        task.model = lambda: nn.Sequential(Standardise(2), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    first = first_tensors(task, strategy, 1)
    where = {"rounds": 9, "client": 1, "seed": 3}
    one = train(build(task), dataset_of(data), first, strategy, TRAINING, number=1, **where)
    two = train(build(task), dataset_of(data), one.tensors, strategy, TRAINING, number=2, state=one.state, **where)
    assert Layout.of(one.tensors) == Layout.of(first) == Layout.of(two.tensors)
    assert Layout.of(one.state) == Layout.of(two.state)


def test_until_moments_are_known_inputs_pass_as_they_are():
    layer, inputs = Standardise(2), torch.tensor([[1.0, 2.0, 3.0]])
    assert torch.equal(layer(inputs), inputs)


def test_it_gives_columns_of_mean_zero_and_deviation_one_and_leaves_the_others():
    layer, inputs = Standardise(2), torch.from_numpy(points(2, 500)[0])
    layer.gather()
    layer(inputs)
    layer.settle()
    scaled = layer(inputs)
    np.testing.assert_allclose(scaled[:, :2].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled[:, 0].std(0, unbiased=False), 1, atol=1e-4)
    assert torch.equal(scaled[:, 2], inputs[:, 2])


def test_a_column_that_never_changes_is_centred():
    layer, inputs = Standardise(1), torch.full((9, 1), 0.3)
    layer.gather()
    layer(inputs)
    layer.settle()
    assert layer(inputs).abs().max() < 1e-3


def test_statistics_that_stay_at_home_are_filled_in_a_round_that_trains():
    first = first_tensors(Lines(), make_strategy("fedavg", {}), 1, keep=("0.*",))
    update = trained(points(1, 40), first, keep=("0.*",))
    assert MEAN not in update.tensors and update.state["home/0.known"] == 1
    assert not np.array_equal(update.tensors["1.weight"], first["1.weight"])


def test_they_cannot_be_summed_where_updates_are_made_private():
    with pytest.raises(InvalidTask, match=r"\[privacy\] adds no noise: scale by stated ranges"):
        build(Lines(), buffers=False)
    assert build(Lines(), keep=("0.*",), buffers=False).tensors().keys() == {"1.weight", "1.bias"}


def test_a_layer_that_no_input_reaches_is_named():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.net = Standardise(3), nn.Linear(3, 2)

        def forward(self, inputs):
            return self.net(inputs)

    task = Lines()
    task.model = Unused
    first = first_tensors(task, make_strategy("fedavg", {}), 1)
    where = {"number": 1, "rounds": 9, "client": 1, "seed": 3}
    with pytest.raises(InvalidTask, match="no inputs came to a layer Standardise"):
        train(build(task), dataset_of(points(1, 9)), first, make_strategy("fedavg", {}), TRAINING, **where)


def test_a_model_that_knows_no_moments_yet_can_be_evaluated():
    first = first_tensors(Lines(), make_strategy("fedavg", {}), 1)
    assert np.isfinite(evaluate(build(Lines()), dataset_of(points(1, 9)), first).totals["loss"])
