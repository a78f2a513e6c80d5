"""Example data are one file that the folder's own code writes."""

import pytest

from fedgrove.node.learning.tasks.loading import example_data
from fedgrove.node.learning.tasks.task import InvalidTask


def test_the_bytes_and_the_ending_of_the_one_file(tmp_path):
    (tmp_path / "example_data.py").write_text("def write(path):\n    path.with_suffix('.csv').write_text('1,2')\n")
    assert example_data(tmp_path) == (".csv", b"1,2")


def test_a_folder_without_example_data_is_one_sentence(tmp_path):
    with pytest.raises(InvalidTask, match=r"there is no example_data.py"):
        example_data(tmp_path)
    (tmp_path / "example_data.py").write_text("def write(path):\n    pass\n")
    with pytest.raises(InvalidTask, match="must write one file, not 0"):
        example_data(tmp_path)
