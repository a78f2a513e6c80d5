"""What a job of a task says its example data are, when its code forged the answer."""

from types import SimpleNamespace

import pytest

from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.methods.training.task_probe import TaskProbe


def answered(monkeypatch, **header):
    monkeypatch.setattr(TaskProbe, "_run", lambda self, job: SimpleNamespace(header=header))
    return TaskProbe.__new__(TaskProbe).example()


def test_the_bytes_and_the_ending(monkeypatch):
    assert answered(monkeypatch, ending=".csv", data="MSwy") == (".csv", b"1,2")
    assert answered(monkeypatch, ending="../x", data="MSwy") == ("", b"1,2")


@pytest.mark.parametrize("data", ["M", "M===", "é", "MSwy\n!", "\ud800"])
def test_what_is_not_base_64_is_one_sentence(monkeypatch, data):
    with pytest.raises(TaskFailed, match="not in base 64"):
        answered(monkeypatch, ending=".csv", data=data)


@pytest.mark.parametrize(
    "header", [{}, {"ending": ".csv"}, {"ending": 1, "data": "MSwy"}, {"ending": ".csv", "data": []}]
)
def test_what_is_no_answer_is_one_sentence(monkeypatch, header):
    with pytest.raises(TaskFailed, match="answer cannot be right"):
        answered(monkeypatch, **header)
