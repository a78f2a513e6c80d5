"""The device is chosen by name; a GPU, where there is one, trains as the processor does, and repeatably."""

import numpy as np
import pytest
import torch

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.devices import choose
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.networks import evaluate, train
from fedgrove.node.learning.settings import STRATEGIES, ModelSpec, TrainingSettings
from fedgrove.node.learning.shared import draw_shared
from fedgrove.node.learning.strategies import make_strategy

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device and a CUDA build of torch")
SPEC = ModelSpec("small-cnn", (1, 8, 8), 10)
SETTINGS = TrainingSettings(epochs=2, batch_size=16, learning_rate=0.05, momentum=0.5, crop=1, erase=0.2)


@pytest.mark.parametrize("present", [False, True])
def test_auto_is_cuda_where_there_is_any(monkeypatch, present):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
    assert choose("auto") == ("cuda" if present else "cpu")
    assert choose("cpu") == "cpu"


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInput, match="no CUDA device here: choose the device cpu"):
        choose("cuda")
    with pytest.raises(InvalidInput, match="one of cpu, cuda, auto, not 'tpu'"):
        choose("tpu")


def two_rounds(strategy: str, device: str):
    digits = load_dataset("digits")
    samples, shared = digits.train().take(range(80)), draw_shared(digits.train(), 2, np.random.default_rng(0))
    options = {"spec": SPEC, "samples": samples, "shared": shared, "strategy": make_strategy(strategy)}
    place = {"settings": SETTINGS, "rounds": 3, "client": 2, "seed": 5, "device": device}
    weights = initial_tensors("small-cnn", (1, 8, 8), 10, seed=0)
    model = {**weights, **make_strategy(strategy).initial_extras(weights)}
    first = train(tensors=model, number=1, **options, **place)
    second = train(tensors=first.tensors, number=2, state=first.state, **options, **place)
    return second, evaluate(SPEC, second.tensors, digits.test(), device)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_every_strategy_trains_on_a_device_as_on_the_processor(strategy, device):
    (update, score), (again, _) = two_rounds(strategy, device), two_rounds(strategy, device)
    assert dump(update.tensors) == dump(again.tensors)
    wanted, score_there = two_rounds(strategy, "cpu")
    assert abs(score.accuracy - score_there.accuracy) < 0.02
    for name, values in wanted.tensors.items():
        np.testing.assert_allclose(update.tensors[name], values, rtol=1e-2, atol=1e-3, err_msg=name)
