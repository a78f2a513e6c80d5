"""Training in bfloat16: float32 goes in and comes out, it learns as well, and it is as repeatable."""

import numpy as np
import pytest
import torch

from fedgrove.common.errors import InvalidInput
from fedgrove.common.settings import OutOfRange
from fedgrove.node.base.processor import check_processor
from fedgrove.node.base.tensors import Tensors, dump
from fedgrove.node.learning.datasets import Dataset, load_dataset
from fedgrove.node.learning.local_update import LocalUpdate
from fedgrove.node.learning.models import build_model, initial_tensors
from fedgrove.node.learning.networks import evaluate, train
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings, bf16_fault
from fedgrove.node.learning.strategies import make_strategy

SPEC = ModelSpec("small-cnn", (1, 8, 8), 10)
SETTINGS = {"epochs": 5, "batch_size": 16, "learning_rate": 0.05, "momentum": 0.9}


@pytest.fixture
def bf16() -> None:
    try:
        check_processor(False, "bf16")
    except InvalidInput as fault:
        pytest.skip(str(fault))


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits")


@pytest.fixture
def start() -> Tensors:
    return initial_tensors("small-cnn", (1, 8, 8), 10, seed=0)


def run(digits: Dataset, start: Tensors, precision: str, strategy: str = "fedavg", count: int = 600) -> LocalUpdate:
    settings, method = TrainingSettings(**SETTINGS, precision=precision), make_strategy(strategy)
    place = {"number": 1, "rounds": 3, "client": 2, "seed": 5, "state": initial_tensors("small-cnn", (1, 8, 8), 10, 1)}
    model = start | method.initial_extras(start)
    return train(SPEC, model, digits.train().take(range(count)), None, method, settings, **place)


def test_it_learns_as_well_and_gives_the_same_float32_bytes_again(bf16, digits, start):
    low, again, full = (run(digits, start, name) for name in ("bf16", "bf16", "fp32"))
    assert dump(low.tensors) == dump(again.tensors) and low.loss == again.loss
    assert {value.dtype for value in low.tensors.values()} == {np.dtype(np.float32)}
    assert dump(low.tensors) != dump(full.tensors)
    scores = [evaluate(SPEC, each.tensors, digits.test()).accuracy for each in (low, full)]
    assert scores[0] > 0.7 and abs(scores[0] - scores[1]) < 0.1


def test_weights_are_kept_more_finely_than_bfloat16_would(bf16, digits, start):
    moved = run(digits, start, "bf16", count=16).tensors["conv1.weight"]
    assert (torch.from_numpy(moved).bfloat16().float().numpy() != moved).mean() > 0.9


@pytest.mark.parametrize("strategy", ["fedprox", "moon", "fedcurv"])
def test_strategies_that_do_not_compare_layers_closely_train_in_it(bf16, digits, start, strategy):
    low, full = (run(digits, start, name, strategy) for name in ("bf16", "fp32"))
    assert low.tensors.keys() == full.tensors.keys()
    assert full.loss < 1 and abs(low.loss - full.loss) < 0.3


def test_a_network_without_biases_is_differentiated_in_it_and_not_stepped_in_float32(bf16):
    shape = (1, 28, 28)
    spec, samples = ModelSpec("geyer-mlp", shape, 10), load_dataset("digits").train().take(range(40))
    samples = type(samples)(np.resize(samples.x, (40, *shape)), samples.y)
    plain = {"batch_size": 10, "momentum": 0.0, "weight_decay": 0.0}
    place = {"number": 1, "rounds": 1, "client": 1, "seed": 0}
    updates = []
    for precision in ("fp32", "bf16"):
        settings = TrainingSettings(**plain, precision=precision)
        start = initial_tensors("geyer-mlp", shape, 10, 0)
        updates.append(train(spec, start, samples, None, make_strategy("fedavg"), settings, **place))
    gap = abs(updates[0].tensors["hidden2.weight"] - updates[1].tensors["hidden2.weight"]).max()
    assert 1e-6 < gap < 1e-2


def test_layers_compute_in_it_and_not_only_the_loss(bf16):
    model = build_model("small-cnn", (1, 8, 8), 10, 0)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model.layer_outputs(torch.rand(4, 1, 8, 8))
    assert {output.dtype for output in outputs} == {torch.bfloat16}


def test_fedaom_and_tasks_are_refused_with_the_reason():
    low, full = TrainingSettings(precision="bf16"), TrainingSettings()
    assert "differences smaller than bfloat16's rounding" in bf16_fault(low, "fedaom", task=False)
    assert "its own code" in bf16_fault(low, "fedavg", task=True)
    assert not bf16_fault(low, "fedavg", task=False) and not bf16_fault(full, "fedaom", task=True)


def test_it_is_not_portable():
    with pytest.raises(OutOfRange, match="portable must be false where precision is bf16"):
        TrainingSettings(precision="bf16", portable=True)
    with pytest.raises(OutOfRange, match="precision must be fp32 or bf16"):
        TrainingSettings(precision="fp16")  # pyright: ignore[reportArgumentType]
