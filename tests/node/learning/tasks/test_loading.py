"""Finding the class that a member wrote, and its data."""

import numpy as np
import pytest

from fedgrove.node.learning.tasks.loading import example_data, load_task
from fedgrove.node.learning.tasks.task import Data, InvalidTask, Task, dataset_of

SOURCE = """
from fedgrove.node.learning.tasks import Data, Task
from sizes import WIDTH

class Own(Task):
    def __init__(self, width=WIDTH):
        self.width = width
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "task.py").write_text(SOURCE)
    (tmp_path / "sizes.py").write_text("WIDTH = 12\n")
    return tmp_path


def test_the_one_class_of_the_folder_is_built_with_the_options(folder, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    assert load_task(folder).width == 12
    assert load_task(folder, {"width": 5}).width == 5
    with pytest.raises(InvalidTask, match=r"task\.options do not fit Own: got an unexpected keyword argument 'depth'"):
        load_task(folder, {"depth": 5})


def test_no_file_and_no_class_are_sentences(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    with pytest.raises(InvalidTask, match=r"there is no task.py in .*: put the class"):
        load_task(tmp_path)
    (tmp_path / "task.py").write_text("from fedgrove.node.learning.tasks import Task\n")
    with pytest.raises(InvalidTask, match=r"must define one class that extends fedgrove.Task, not 0"):
        load_task(tmp_path)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((np.zeros((3, 2)), np.zeros(2)), "there are 3 inputs, but 2 targets"),
        ((np.zeros((0, 2)), np.zeros(0)), "there are no samples"),
        ((np.array([["a"]]), np.zeros(1)), "inputs must be numbers"),
        ((1, 2, 3), "not 3 values"),
        (7, "data must be a dataset with a length or a pair of arrays, not int"),
    ],
)
def test_data_that_do_not_fit_are_sentences(given, sentence):
    with pytest.raises(InvalidTask, match=sentence):
        dataset_of(given)


def test_whole_numbers_are_labels_and_others_are_float32():
    data = dataset_of((np.zeros((3, 2), np.float64), np.array([1, 0, 1], np.uint8)))
    inputs, target = data[1]
    assert str(inputs.dtype) == "torch.float32" and str(target.dtype) == "torch.int64"


def test_a_task_without_a_model_or_data_says_so(tmp_path):
    with pytest.raises(NotImplementedError, match="a task needs a method model"):
        Task().model()
    with pytest.raises(NotImplementedError, match="a task needs a method data"):
        Task().data(tmp_path)
    assert Data(1).held_out is None


def test_the_bytes_and_the_ending_of_the_one_file(tmp_path):
    (tmp_path / "example_data.py").write_text("def write(path):\n    path.with_suffix('.csv').write_text('1,2')\n")
    assert example_data(tmp_path) == (".csv", b"1,2")


def test_a_folder_without_example_data_is_one_sentence(tmp_path):
    with pytest.raises(InvalidTask, match=r"there is no example_data.py"):
        example_data(tmp_path)
    (tmp_path / "example_data.py").write_text("def write(path):\n    pass\n")
    with pytest.raises(InvalidTask, match="must write one file, not 0"):
        example_data(tmp_path)
