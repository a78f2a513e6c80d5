"""A folder to begin with runs: its data are read, its model learns, and it packs."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.tasks.beginning import KINDS, begin
from fedgrove.node.tasks.bundle import pack

MODULES = ("task", "example_data", "test_task")


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_folder_passes_its_own_test(tmp_path, monkeypatch, kind):
    begin(tmp_path / "mine", kind)
    monkeypatch.syspath_prepend(tmp_path / "mine")
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    test = importlib.import_module("test_task")
    try:
        assert Path(test.__file__).parent == tmp_path / "mine"
        test.test_the_loss_falls(tmp_path)
    finally:
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_folder_packs_with_all_of_its_files(tmp_path, kind):
    names = begin(tmp_path / "mine", kind)
    bundle = pack(tmp_path / "mine")
    assert {"task.py", "example_data.py", "test_task.py", "README.md"} == set(names)
    assert [*bundle.contents] == sorted([*names, "task.lock"])
    assert set(bundle.lock.packages) == {"fedgrove", "numpy", "torch"}


@pytest.mark.parametrize("kind", KINDS)
def test_its_modules_are_in_the_style_of_the_product(tmp_path, kind):
    """They lie in the package as text, which the linter passes over."""
    begin(tmp_path, kind)
    ruff, settings = Path(sys.executable).parent / "ruff", Path(__file__).parents[3] / "pyproject.toml"
    for command in (["check"], ["format", "--check"]):
        told = subprocess.run([ruff, *command, "--config", settings, tmp_path], capture_output=True, text=True)
        assert told.returncode == 0, told.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_example_data_are_written_from_the_command_line(tmp_path, kind):
    begin(tmp_path / "mine", kind)
    command = [sys.executable, "example_data.py", str(tmp_path / "data.npz")]
    subprocess.run(command, cwd=tmp_path / "mine", check=True, timeout=120)
    assert (tmp_path / "data.npz").stat().st_size > 1000


def test_files_that_are_there_are_kept(tmp_path):
    (tmp_path / "task.py").write_text("mine")
    with pytest.raises(InvalidInput, match="is not empty"):
        begin(tmp_path, "text")
    assert [path.name for path in tmp_path.iterdir()] == ["task.py"]
    with pytest.raises(InvalidInput, match="cannot write"):
        begin(tmp_path / "task.py" / "below", "text")
