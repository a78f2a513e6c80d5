"""Frozen bases in the sandbox: a job reads them, writes nothing to them, and sees nothing beside them."""

import pytest

from fedgrove.node.tasks.sandbox.faults import SandboxUnavailable
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.settings import Mode, Visible
from fedgrove.node.tasks.sandbox.worker import Worker
from tests.node.tasks.sandbox.escape import SCRIPT, require

TASK = """
import os
from pathlib import Path


def read(header, tensors, data):
    folder, file = (Path(header["bases"][name]) for name in ("folder", "file"))
    return {"config": (folder / "config.json").read_text(), "weights": file.read_text()}, {}


def harm(header, tensors, data):
    folder, file = (Path(header["bases"][name]) for name in ("folder", "file"))
    done = []
    for attempt in (
        lambda: file.write_text("x"),
        lambda: (folder / "config.json").write_text("x"),
        lambda: (folder / "config.json").unlink(),
        lambda: (folder / "new").write_text("x"),
        lambda: os.chmod(file, 0o777),
        lambda: os.truncate(file, 0),
        lambda: (folder.parent / "neighbour").read_text(),
        lambda: (file.parent / "neighbour").read_text(),
    ):
        try:
            attempt()
            done.append("done")
        except OSError:
            done.append("refused")
    return {"done": done}, {}
"""


@pytest.fixture
def visible(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "bases/one").mkdir(parents=True)
    (tmp_path / "bases/one/config.json").write_text("{}")
    (tmp_path / "bases/two").write_text("weights")
    (tmp_path / "bases/neighbour").write_text("secret")
    bases = {"folder": tmp_path / "bases/one", "file": tmp_path / "bases/two"}
    return Visible(tmp_path / "task.py", None, bases)


@pytest.mark.parametrize("mode", Mode)
def test_a_job_reads_its_bases(mode, visible):
    require(mode)
    with Worker(mode, visible, JobLimits(seconds=60)) as worker:
        reply = worker.run(SCRIPT, {"file": "task.py", "function": "read"})
    assert reply.header == {"config": "{}", "weights": "weights"}


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.CONTAINED])
def test_a_job_changes_no_base_and_sees_nothing_beside_it(mode, visible):
    require(mode)
    for path in (visible.bases["folder"], visible.bases["file"], visible.bases["folder"] / "config.json"):
        path.chmod(0o777)  # only the sandbox protects it
    with Worker(mode, visible, JobLimits(seconds=60)) as worker:
        reply = worker.run(SCRIPT, {"file": "task.py", "function": "harm"})
    assert reply.header["done"] == ["refused"] * 8
    assert visible.bases["file"].read_text() == "weights"


def test_a_base_that_holds_a_key_is_refused(visible):
    secret = visible.bases["folder"] / "config.json"
    with pytest.raises(SandboxUnavailable, match="a task's code would see"):
        Worker(Mode.OFF, visible, private=[secret])
