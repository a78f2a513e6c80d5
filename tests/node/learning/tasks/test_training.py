"""Rounds of training on tasks, against loops written out with torch's own classes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.moments import MOMENT
from fedgrove.node.learning.reproducible import generator_of
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.tasks.task import InvalidTask, Task, dataset_of
from fedgrove.node.learning.training import build, evaluate, first_tensors, train
from tests.node.learning.tasks.examples import Classifier, Named, Regression, Statistics, Tied, table

SETTINGS = TrainingSettings(epochs=2, batch_size=16, learning_rate=0.1, momentum=0.5, weight_decay=1e-3)
POSITION = {"number": 2, "rounds": 5, "client": 3, "seed": 7}
FEDAVG = make_strategy("fedavg")


def trained(task, tensors=None, strategy=FEDAVG, data=None, settings=SETTINGS, keep=(), **more):
    data = dataset_of(task.data(Path("1")).train if data is None else data)
    tensors = first_tensors(task, strategy, 0, keep) if tensors is None else tensors
    return train(build(task, keep), data, tensors, strategy, settings, **(POSITION | more))


def same(first, second) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("task", [Classifier(), Regression()])
def test_a_round_is_sgd_over_the_shuffled_data(task):
    start = first_tensors(task, FEDAVG, 0)
    model = task.model()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    x, y = (torch.from_numpy(each) for each in task.data(Path("1")).train)
    settings = {"lr": SETTINGS.rate_of(2), "momentum": 0.5, "weight_decay": 1e-3}
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    generator = generator_of("training", 7, 3, 2)
    for _ in range(2):
        for chosen in torch.randperm(len(x), generator=generator).split(16):
            optimizer.zero_grad()
            output = model(x[chosen])
            if isinstance(task, Regression):
                loss = functional.mse_loss(output[:, 0], y[chosen])
            else:
                loss = functional.cross_entropy(output, y[chosen])
            loss.backward()
            optimizer.step()
    update = trained(task, start)
    for name, value in model.state_dict().items():
        assert np.allclose(update.tensors[name], value.numpy(), atol=1e-6), name
    assert update.samples == 60 and not update.state


@pytest.mark.parametrize("task", [Classifier(), Statistics(), Named()])
def test_the_same_seed_gives_the_same_bytes_and_another_client_others(task):
    assert same(trained(task).tensors, trained(task).tensors)
    assert not same(trained(task).tensors, trained(task, client=4).tensors)


def test_a_tied_tensor_travels_once_and_a_frozen_one_not_at_all():
    assert set(first_tensors(Named(), FEDAVG, 0)) == {"first.weight", "first.bias", "head.weight", "head.bias"}


def test_statistics_of_clients_average_to_those_of_their_pooled_data():
    task = Statistics()
    parts = [table(40, seed) for seed in (1, 2)]
    pooled = tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    one_batch = TrainingSettings(batch_size=100, learning_rate=1e-12, momentum=0, weight_decay=0)

    def statistics(data, size):
        update = trained(task, data=data, settings=one_batch).tensors
        return {name: value for name, value in update.items() if name.startswith("1.running")}

    means = [statistics(part, 40) for part in parts]
    together = statistics(pooled, 80)
    # Each is 0.9 of the start and 0.1 of the batch; torch's variance of a batch has n - 1 below.
    for name, value in together.items():
        mean = (means[0][name] + means[1][name]) / 2
        assert np.allclose(mean, value, rtol=0.02, atol=0.02 if name.endswith(MOMENT) else 1e-6), name


def test_what_is_kept_at_home_comes_back_in_the_next_round():
    task, keep = Statistics(), ("1.*",)
    first = trained(task, keep=keep)
    assert not any(name.startswith("1.") for name in first.tensors)
    assert {"home/1.weight", "home/1.running_var"} <= set(first.state)
    without = trained(task, first.tensors, keep=keep, number=3)
    again = trained(task, first.tensors, keep=keep, number=3, state=first.state)
    assert not same(again.tensors, without.tensors)
    assert same(again.tensors, trained(task, first.tensors, keep=keep, number=3, state=first.state).tensors)


def test_moon_contrasts_with_the_previous_model_from_the_second_round_on():
    moon, task = make_strategy("moon", {"mu": 1.0}), Classifier()
    start = first_tensors(task, FEDAVG, 0)
    first = trained(task, start, moon)
    assert same(first.tensors, trained(task, start).tensors)
    other = trained(task, start, client=9).tensors
    second = trained(task, other, moon, number=3, state=first.state)
    assert not same(second.tensors, trained(task, other, number=3).tensors)
    assert all(np.isfinite(value).all() for value in second.tensors.values())


def test_fedprox_stays_nearer():
    task, start = Classifier(), first_tensors(Classifier(), FEDAVG, 0)
    far, near = (trained(task, start, make_strategy("fedprox", {"mu": mu})).tensors for mu in (0.0, 1.0))
    assert same(far, trained(task, start).tensors)
    assert sum(np.abs(near[n] - start[n]).sum() for n in start) < sum(np.abs(far[n] - start[n]).sum() for n in start)


def test_a_last_batch_of_one_is_left_out():
    x, y = table(33, 1)
    update = trained(Statistics(), data=(x, y))
    assert update.samples == 33


def test_training_lowers_the_loss_and_metrics_are_sums():
    task = Classifier()
    data, start = dataset_of(table(200, 5)), first_tensors(task, FEDAVG, 0)
    update = trained(task, start, data=table(200, 5), settings=TrainingSettings(epochs=20, learning_rate=0.1))
    before, after = (evaluate(build(task), data, tensors) for tensors in (start, update.tensors))
    assert before.samples == after.samples == 200
    assert after.totals["loss"] < 0.6 * before.totals["loss"] and after.totals["right"] > 140
    assert after.totals["right"] == int(after.totals["right"])


def test_an_evaluation_does_not_change_statistics():
    task = Statistics()
    model, data = build(task), dataset_of(table(20, 1))
    start = first_tensors(task, FEDAVG, 0)
    evaluate(model, data, start)
    assert same(model.tensors(), start)


def test_what_diverges_is_said():
    with pytest.raises(DivergedTraining, match="client 3 diverged in round 2: lower learning_rate"):
        trained(Regression(), settings=TrainingSettings(epochs=30, learning_rate=50))


class NoModule(Task):
    def model(self):
        return "a model"


class AllFrozen(Task):
    def model(self):
        return nn.Linear(2, 2).requires_grad_(False)


class Lazy(Task):
    def model(self):
        return nn.Sequential(nn.LazyLinear(2))


class Compiled(Task):
    def model(self):
        module = Tied()
        module._orig_mod = Tied()
        return module


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (NoModule(), "model\\(self\\) must return a torch module, not str"),
        (AllFrozen(), "the model has no parameter that requires a gradient"),
        (Lazy(), "0.weight has no shape yet: give lazy modules their sizes"),
        (Compiled(), "the model is compiled"),
    ],
)
def test_a_model_that_cannot_be_federated_is_a_sentence(task, sentence):
    with pytest.raises(InvalidTask, match=sentence):
        build(task)


def test_a_variance_without_its_mean_cannot_travel():
    with pytest.raises(InvalidTask, match="keep both at home, or neither"):
        build(Statistics(), keep=("*running_mean",))


def test_a_loss_of_many_numbers_is_a_sentence():
    class Vector(Classifier):
        def loss(self, output, target):
            return functional.cross_entropy(output, target, reduction="none")

    with pytest.raises(InvalidTask, match="loss\\(self, output, target\\) must return a tensor of one number"):
        trained(Vector())


class Failing(Classifier):
    """Its own metrics raise."""

    def metrics(self, output, target):
        raise ZeroDivisionError("no positives")


def test_metrics_that_raise_cost_only_themselves():
    task = Failing()
    start, data = first_tensors(task, FEDAVG, 0), dataset_of(table(70, 1))
    sums = evaluate(build(task), data, start, squares=True)
    whole = evaluate(build(Classifier()), data, start, squares=True)
    assert str(sums.fault) == "no positives" and whole.fault is None
    assert sums.totals == {name: whole.totals[name] for name in ("loss", "squared_loss")}


class OwnLoss(Classifier):
    def loss(self, output, target):
        return functional.cross_entropy(output, target)


def test_the_losses_of_rows_are_those_whose_mean_is_the_loss_and_give_the_same_sums():
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(7, 3, generator=generator), torch.arange(7) % 3
    numbers = torch.randn(7, generator=generator)
    for output, target in ((scores, labels), (scores[:, :1], numbers)):
        rows = Task().losses(output, target)
        assert rows.shape == (7,) and torch.allclose(rows.mean(), Task().loss(output, target))
    assert OwnLoss().losses(scores, labels) is None
    assert Task().losses(scores, labels.where(labels > 0, -100)) is None, "labels that do not count"
    start, data = first_tensors(Classifier(), FEDAVG, 0), dataset_of(table(70, 1))
    rows, one_by_one = (evaluate(build(task), data, start, squares=True).totals for task in (Classifier(), OwnLoss()))
    assert rows == pytest.approx(one_by_one, rel=1e-6)


def test_losses_of_another_shape_are_a_sentence():
    class Mean(Classifier):
        def losses(self, output, target):
            return self.loss(output, target)

    start = first_tensors(Mean(), FEDAVG, 0)
    with pytest.raises(InvalidTask, match="losses\\(self, output, target\\) must return a tensor with one number for"):
        evaluate(build(Mean()), dataset_of(table(20, 1)), start)
