"""Which methods of a task's class are used, and which misspelt ones are not."""

import inspect

import pytest

from fedgrove.node.learning.tasks.task import Task
from fedgrove.node.tasks.reading_notes import reading_notes
from fedgrove.node.tasks.task_methods import METHODS, task_classes
from tests.node.tasks.folders import bundle


def test_the_methods_are_those_of_the_class():
    assert tuple(sorted(name for name, _ in inspect.getmembers(Task, inspect.isfunction) if name[0] != "_")) == METHODS


def classes(text: str, **others: str):
    files = {f"{name}.py": each.encode() for name, each in {"task": text, **others}.items()}
    return [(each.name, each.own, each.ignored) for each in task_classes(files)]


TEXT = """
import fedgrove as fg
class Net: pass
class Mine(fg.Task):
    def model(self): pass
    def data(self, source): pass
    def {name}(self, *_): pass
"""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("optimiser", "optimizer"),
        ("optimizers", "optimizer"),
        ("Loss", "loss"),
        ("metric", "metrics"),
        ("layer", "layers"),
        ("batches", "batch"),
        ("prediction", "predictions"),
    ],
)
def test_a_method_that_is_never_called_is_compared_with_those_that_are(name, meant):
    text = TEXT.format(name=name)
    assert classes(text) == [("Mine", ("data", "model"), ((name, meant),))]
    (note,) = reading_notes(bundle(task=text.encode()))
    assert note == f"task.py: class Mine has a method {name}, which fedgrove never calls; is {meant} meant?"


@pytest.mark.parametrize("name", ["_optimiser", "read_table", "tokenise", "forward", "split", "__init__"])
def test_helpers_are_nobody_s_misspelling(name):
    assert classes(TEXT.format(name=name)) == [("Mine", ("data", "model"), ())]


def test_a_method_beside_the_one_that_it_looks_like_is_a_helper():
    text = TEXT.format(name="metric") + "    def metrics(self, output, target): return self.metric()\n"
    assert classes(text) == [("Mine", ("data", "metrics", "model"), ())]


def test_classes_that_extend_one_another_count():
    text = "from base import Common  # a Task\nclass Mine(Common):\n    def loss(self): pass\n"
    found = classes(text, base="from fedgrove import Task\nclass Common(Task):\n    def model(self): pass\n")
    assert [each[:2] for each in found] == [("Mine", ("loss",)), ("Common", ("model",))]
    assert "has its own model; fedgrove's are answers, batch, data" in str(
        task_classes({"base.py": b"class Common(fedgrove.Task):\n    def model(self): pass\n"})[0]
    )
