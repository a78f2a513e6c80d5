"""The place of a fault: a line of the task's own code, else what raised it and which of fedgrove called that."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fedgrove.node.base.fault_places import place_of_fault
from fedgrove.node.learning.tasks.federated import Federated
from fedgrove.node.learning.tasks.loading import imported
from fedgrove.node.learning.tasks.model import TaskModel
from fedgrove.node.learning.tasks.task import InvalidTask, Task


def fault_of(work) -> BaseException:
    with pytest.raises(Exception) as caught:
        work()
    return caught.value


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.parametrize(
    ("work", "place"),
    [
        (
            lambda: Task().loss(torch.zeros(2, 3), torch.tensor([0, 5])),
            "in torch.nn.functional.cross_entropy, called by Task.loss",
        ),
        (
            lambda: TaskModel(Task(), nn.Linear(3, 2))(torch.zeros(1, 4)),
            "in torch.nn.modules.linear.Linear.forward, called by TaskModel.forward",
        ),
        (
            lambda: Task().batch([(torch.zeros(2), 0), (torch.zeros(3), 1)]),
            "in torch.utils.data._utils.collate.collate_tensor_fn, called by Task.batch",
        ),
        (lambda: Federated(nn.ReLU()), ""),  # fedgrove's own sentence
    ],
)
def test_a_fault_inside_of_torch_names_what_was_called(folder, work, place):
    assert place_of_fault(fault_of(work), folder) == place


def test_a_line_of_the_task_comes_first(folder):
    path = folder / "task.py"
    path.write_text("import torch\n\ndef work():\n    torch.nn.Linear(3, 2)(torch.zeros(1, 4))\n")
    assert place_of_fault(fault_of(imported(path).work), folder) == "task.py, line 4"
    path.write_text("x = (\n")
    assert place_of_fault(fault_of(lambda: imported(path)), folder).startswith("task.py, line 1")


def test_a_dictionary_is_passed_as_keywords_and_a_tuple_by_position():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, ids, mask):
            return ids - mask

    model, one, two = TaskModel(Task(), Model()), torch.tensor([3]), torch.tensor([1])
    assert model({"mask": two, "ids": one}).tolist() == model((one, two)).tolist() == [2]
    assert "unexpected keyword argument 'words'" in str(fault_of(lambda: model({"words": one})))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn])
def test_what_is_trained_in_a_type_that_cannot_travel_is_refused_by_name(kind):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    model[1].weight.data = model[1].weight.data.to(kind)
    with pytest.raises(InvalidTask, match=rf"^1\.weight is {str(kind)[6:]}, and what is trained travels as float32"):
        Federated(model)
    with pytest.raises(InvalidTask, match="freeze it"):
        Federated(model, keep=("1.*",))
    model[1].weight.requires_grad_(False)
    assert {"0.weight", "1.bias"} <= Federated(model).read().keys()
