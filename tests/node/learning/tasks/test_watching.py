"""A watched step describes its first batch and names the method that numbers stop being finite in."""

from pathlib import Path

import pytest
import torch

from fedgrove.node.learning.tasks import InvalidTask
from fedgrove.node.learning.tasks.watching import StepWatch, place_of, shape_of
from tests.node.learning.tasks import examples
from tests.node.learning.tasks.examples import Classifier, Named

HERE = Path(examples.__file__).parent


class Endless(Classifier):
    def loss(self, output, target):
        return super().loss(output, target) / 0


def watched(task):
    module = task.model()
    return StepWatch(task, module, HERE), module


def test_the_first_batch_is_described_and_later_ones_are_not():
    task = Classifier()
    watch, module = watched(task)
    for count in (5, 3):
        task.loss(module(torch.zeros(count, 4)), torch.zeros(count, dtype=torch.int64))
    assert watch.seen == {
        "inputs": "float32 5×4",
        "output": "float32 5×3",
        "target": "int64 5",
        "loss": "float32 number",
    }


def test_inputs_by_name_are_described_by_name():
    watch, module = watched(Named())
    module(left=torch.zeros(2, 2), right=torch.zeros(2, 2))
    assert watch.seen["inputs"] == "left float32 2×2, right float32 2×2"
    assert shape_of((torch.zeros(1), object())) == "float32 1, object"


def test_the_method_that_numbers_stop_being_finite_in_is_named_with_its_line():
    task = Endless()
    _, module = watched(task)
    with pytest.raises(InvalidTask, match=r"data\(self, source\) gives inputs .* \(examples.py, line \d+\)"):
        module(torch.full((2, 4), torch.nan))
    with pytest.raises(InvalidTask, match=r"^the loss is not finite \(test_watching.py, line \d+\)$"):
        task.loss(module(torch.zeros(2, 4)), torch.zeros(2, dtype=torch.int64))
    module[2].bias.data[0] = torch.inf
    with pytest.raises(InvalidTask, match=r"^the model's output is not finite \(examples.py, line \d+\)$"):
        module(torch.zeros(2, 4))


def test_a_default_of_the_class_has_no_place_in_the_folder():
    assert place_of(Classifier(), "loss", HERE) == ""
