"""The strategies on tasks, those first that look into models and samples: FedAom, FedCurv, shared data."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedgrove.node.learning import networks
from fedgrove.node.learning.attribution import attributions
from fedgrove.node.learning.models import build_model
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.tasks.layers import layer_outputs, path_gradients
from fedgrove.node.learning.tasks.task import Data, InvalidTask, Task, dataset_of
from fedgrove.node.learning.training import build, first_tensors, kept_layout, train
from tests.node.learning.tasks.examples import Classifier, Regression, Statistics

SPEC = ModelSpec("small-cnn", (1, 8, 8), 5)
SETTINGS = TrainingSettings(epochs=2, batch_size=8, learning_rate=0.05, momentum=0.5)
POSITION = {"number": 1, "rounds": 5, "client": 3, "seed": 7}


class Pictures(Task):
    """The shipped network as a task."""

    def model(self):
        return build_model("small-cnn", (1, 8, 8), 5, seed=2)

    def data(self, source):
        return Data(pictures(20, int(source.name)))


def pictures(count, seed):
    rng = np.random.default_rng(seed)
    return rng.random((count, 1, 8, 8), dtype=np.float32), rng.integers(0, 5, count)


def on_the_task(strategy, settings=SETTINGS, task=None, shared=True, **options):
    task, strategy = task or Pictures(), make_strategy(strategy, options)
    data = dataset_of(task.data(Path("1")).train)
    d_share = dataset_of(task.data(Path("9")).train) if shared else None
    start = first_tensors(task, strategy, 0)
    return train(build(task), data, start, strategy, settings, d_share, **POSITION)


def on_the_network(strategy, settings=SETTINGS, **options):
    strategy = make_strategy(strategy, options)
    start = first_tensors(Pictures(), strategy, 0)
    own, shared = Samples(*pictures(20, 1)), Samples(*pictures(20, 9))
    return networks.train(SPEC, start, own, shared, strategy, settings, **POSITION)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fedavg", {}),
        ("fedprox", {"mu": 0.1}),
        ("share", {}),
        ("fedaom", {"shared_batch": 6}),
        ("fedaom", {"shared_batch": 6, "refresh": 1}),
        ("fedaomsam", {"shared_batch": 6}),
        ("fedcurv", {"weight": 1.0}),
        ("feddyn", {"alpha": 0.1}),
        ("fedlc", {}),
        ("fedntd", {}),
        ("fedsam", {}),
        ("fedspeed", {}),
        ("scaffold", {}),
    ],
)
def test_a_shipped_network_as_a_task_trains_to_the_same_weights(name, options):
    own, known = on_the_task(name, **options), on_the_network(name, **options)
    assert own.tensors.keys() == known.tensors.keys()
    for tensor, values in known.tensors.items():
        assert np.allclose(own.tensors[tensor], values, atol=2e-6), tensor


@pytest.mark.parametrize("task", [Classifier(), Statistics()])
def test_fedaom_keeps_the_behaviour_on_the_shared_set_nearer_to_the_global_models(task):
    slow = TrainingSettings(epochs=3, batch_size=8, learning_rate=0.02, momentum=0, weight_decay=0)
    free = on_the_task("fedavg", slow, task, shared=False).tensors
    held = on_the_task("fedaom", slow, task, beta=3.0).tensors
    start = first_tensors(task, make_strategy("fedavg"), 0)
    x, y = (torch.from_numpy(each) for each in task.data(Path("9")).train)

    def behaviour_of(tensors):
        model = build(task)
        model.load(tensors)
        model.module.eval()
        return layer_outputs(task, model, x)

    model = build(task)
    model.load(start)
    model.module.eval()
    path = path_gradients(task, model, x, y, 2)
    weights = attributions(path, 7.0)

    def moved(tensors):
        parts = zip(behaviour_of(tensors), path.outputs, weights, strict=True)
        return sum(float(((own.detach() - other) * weight[..., None]).square().sum()) for own, other, weight in parts)

    assert moved(held) < moved(free)


def test_shared_samples_do_not_change_the_statistics_of_the_clients_own():
    """With a learning rate of next to nothing, the running statistics are those of the client's batches alone."""
    still = TrainingSettings(batch_size=100, learning_rate=1e-12, momentum=0, weight_decay=0)
    plain = on_the_task("fedavg", still, Statistics(), shared=False).tensors
    held = on_the_task("fedaom", still, Statistics()).tensors
    for name in plain:
        if "running" in name:
            assert np.allclose(plain[name], held[name], atol=1e-6), name


@pytest.mark.parametrize("name", ["fedaom", "share"])
def test_a_strategy_that_needs_a_shared_set_says_so(name):
    with pytest.raises(InvalidTask, match=f"{name} needs a shared set"):
        on_the_task(name, shared=False)


@pytest.mark.parametrize("name", ["feddyn", "moon", "scaffold"])
def test_what_a_client_keeps_is_what_is_said_to_be_kept(name):
    task, strategy = Classifier(), make_strategy(name)
    kept = on_the_task(name, task=task, shared=False).state
    assert {each: value.shape for each, value in kept.items()} == kept_layout(build(task), strategy)
    assert kept


@pytest.mark.parametrize("name", ["feddyn", "scaffold"])
def test_a_client_goes_on_from_what_it_kept(name):
    task, strategy = Classifier(), make_strategy(name)
    first = on_the_task(name, task=task, shared=False)
    place = POSITION | {"number": 2}
    data = dataset_of(task.data(Path("1")).train)
    known, new = (
        train(build(task), data, first.tensors, strategy, SETTINGS, **place, state=state).tensors
        for state in (first.state, None)
    )
    assert any(np.abs(known[each] - new[each]).max() > 1e-4 for each in known)


def test_running_statistics_come_from_the_pass_at_the_weights_alone():
    one_step = TrainingSettings(batch_size=100, learning_rate=1e-12, momentum=0, weight_decay=0)
    plain, sharp = (
        on_the_task(name, one_step, Statistics(), shared=False, **options).tensors
        for name, options in (("fedavg", {}), ("fedsam", {"rho": 5.0}))
    )
    assert any("running" in name for name in plain)
    for name in plain:
        assert np.allclose(plain[name], sharp[name], atol=1e-6), name


@pytest.mark.parametrize("name", ["fedlc", "fedntd"])
def test_what_compares_labels_refuses_a_task_without_them(name):
    with pytest.raises(InvalidTask, match=f"{name} needs labels as targets, one whole number a sample"):
        on_the_task(name, task=Regression(), shared=False)


@pytest.mark.parametrize("name", ["fedlc", "fedntd"])
def test_what_compares_labels_refuses_outputs_that_are_not_logits(name):
    with pytest.raises(InvalidTask, match=f"{name} needs an output of one logit for each label"):
        on_the_task(name, task=TwoOfThree(), shared=False)


class TwoOfThree(Classifier):
    """Three labels, two outputs, and a loss that does not mind."""

    def model(self):
        return nn.Linear(4, 2)

    def loss(self, output, target):
        return (output.sum(1) - target).square().mean()
