"""A task's class out of a notebook's cells, as a file that runs on its own."""

import subprocess
import sys

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.tasks.class_source import home_of, written_out
from tests.cells import namespace, run_cell

CELLS = """
import json as words
import os.path
from collections import OrderedDict as Ordered
from dataclasses import dataclass
SIZES, GREETING, unused = (3, 4.5), {"a": [1, None]}, object()
table = object()
---
from __future__ import annotations
def half(value: Missing) -> float:
    table = value / 2  # no global
    return table
---
def both(value):
    return half(value) + sum(half(each) for each in SIZES)
---
@dataclass(frozen=True)
class Settings:
    rate: float = 0.5

    def doubled(self):
        return 2 * self.rate
---
class Base:
    def used(self):
        return both(Settings().doubled())
---
class Mine(Base):
    kinds = Ordered(GREETING)

    def answer(self):
        return words.dumps([os.path.basename("a/b"), self.used(), type(self).kinds, max(SIZES)])
"""


def cells(text: str) -> dict:
    """What cells define."""
    names = namespace()
    for cell in text.split("---\n"):
        run_cell(cell, names)
    return names


def test_a_class_brings_what_it_uses_and_nothing_else(tmp_path):
    kind = cells(CELLS)["Mine"]
    assert home_of(kind) is None
    text = written_out(kind)
    assert "unused" not in text and "table = object" not in text
    (tmp_path / "task.py").write_text(text)
    command = [sys.executable, "-c", "import task; print(task.Mine().answer())"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == kind().answer() == '["b", 4.25, {"a": [1, null]}, 4.5]'


def test_of_a_class_that_was_defined_again_the_last_is_taken():
    first = "class Mine:\n    def answer(self):\n        return 1\n"
    assert "return 2" in written_out(cells(f"{first}---\n{first.replace('1', '2')}")["Mine"])


def test_the_code_of_an_imported_class_is_its_file_or_the_folder_of_its_task_py(tmp_path):
    for name in ("task.py", "other.py"):
        (tmp_path / name).write_text("class Mine:\n    pass\n")
    code = (
        "import task, other; from fedgrove.node.tasks.class_source import home_of; "
        "print(home_of(task.Mine), home_of(other.Mine))"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(tmp_path), str(tmp_path / "other.py")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "rows = object()\n---\nclass Mine:\n    def answer(self):\n        return rows\n",
            "Mine uses rows .object., which others do not have: read it in data",
        ),
        (
            "import threading\nlock = threading.Lock()\ndef locked():\n    return lock\n---\n"
            "class Mine:\n    def answer(self):\n        return locked()\n",
            "locked uses lock",
        ),
        ("def make():\n    class Mine:\n        def answer(self): pass\n    return Mine\nMine = make()\n", "top level"),
        ("class Mine:\n    pass\n", "the source of Mine is not to be had"),
    ],
)
def test_what_cannot_be_written_down_is_named(text, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        written_out(cells(text)["Mine"])
