"""Draws for a device are made on the processor. Without a GPU the mode itself is tried, on the processor's tensors."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.draws import DrawsOnProcessor, on_device, placed

CPU, ELSEWHERE = torch.device("cpu"), torch.device("meta")


def drawn(draw, *, mode=None):
    torch.manual_seed(5)
    if mode is None:
        return draw()
    with mode:
        return draw()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(7),
        lambda: torch.randn(7, device="cpu"),
        lambda: torch.randperm(7),
        lambda: torch.rand_like(torch.ones(3, 2)),
        lambda: torch.empty(9).normal_(1, 2),
        lambda: torch.bernoulli(torch.full((9,), 0.5)),
        lambda: functional.dropout(torch.ones(40), 0.3),
        lambda: nn.init.kaiming_uniform_(torch.empty(4, 4)),
    ],
)
def test_what_is_drawn_is_what_the_processor_draws(draw):
    assert torch.equal(drawn(draw), drawn(draw, mode=DrawsOnProcessor(CPU)))


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_dropout_of_a_gpu_is_that_of_the_processor(rate):
    """On a GPU torch calls another operator, which its processor has as well."""
    values = torch.arange(60, dtype=torch.float32)
    wanted = drawn(lambda: functional.dropout(values, rate))
    found, kept = drawn(lambda: torch.native_dropout(values, rate, True), mode=DrawsOnProcessor(CPU))
    assert torch.equal(found, wanted) and torch.equal(kept[1:], wanted[1:] != 0)


def test_gradients_pass_through_it():
    values = torch.ones(40, requires_grad=True)
    found = drawn(lambda: torch.native_dropout(values, 0.5, True)[0], mode=DrawsOnProcessor(CPU))
    found.sum().backward()
    assert torch.equal(values.grad, found.detach())


def test_a_draw_for_another_device_takes_from_the_processors_generator():
    def draw():
        first = torch.rand(5, device=ELSEWHERE)
        assert first.device == ELSEWHERE
        return torch.rand(5)

    second = drawn(lambda: (torch.rand(5), torch.rand(5)))[1]
    assert torch.equal(drawn(draw, mode=DrawsOnProcessor(ELSEWHERE)), second)


def test_torchs_compiler_which_takes_seconds_to_import_is_left_alone():
    code = f"""
import sys, torch
from {DrawsOnProcessor.__module__} import DrawsOnProcessor
with DrawsOnProcessor(torch.device("cpu")):
    torch.rand(3)
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_on_the_processor_nothing_changes_and_a_gpu_that_is_not_there_is_refused(monkeypatch):
    module = nn.Linear(2, 1)
    with on_device(module, "cpu"):
        assert torch.equal(drawn(lambda: torch.rand(3)), drawn(lambda: torch.rand(3)))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInput, match="no CUDA device here"), on_device(module, "cuda"):
        raise AssertionError("it must not begin")


def test_batches_of_any_form_are_placed_and_stay_as_they_are_on_the_processor():
    batch = {"tokens": torch.ones(2, 3), "more": (torch.zeros(2), ["text", torch.ones(1)])}
    assert placed(batch, CPU) is batch
    moved = placed(batch, ELSEWHERE)
    assert moved["tokens"].device == moved["more"][0].device == moved["more"][1][1].device == ELSEWHERE
    assert moved["more"][1][0] == "text"
