"""A worker over its life: jobs with torch, a warm process that dies, what is refused before it starts."""

import os
import resource
import select
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from fedgrove.node.base.tensors import Layout
from fedgrove.node.tasks.sandbox import limits, modes
from fedgrove.node.tasks.sandbox.faults import JobFailed, JobRaised, SandboxUnavailable
from fedgrove.node.tasks.sandbox.launch import launch, python
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.settings import Mode, Visible, WarmSettings
from fedgrove.node.tasks.sandbox.worker import Worker
from tests.node.tasks.sandbox.escape import LAYOUT, MODEL, SCRIPT, TIGHT, require

TASK = """
import json
import os
from pathlib import Path

import torch


def train(header, tensors, data):
    values = torch.tensor(json.loads(Path(data).read_text()))
    weight = torch.tensor(tensors["w"], requires_grad=True)
    (values @ weight).square().sum().backward()
    step = weight - header["rate"] * weight.grad
    return {"threads": torch.get_num_threads(), "account": os.getuid()}, {"w": step.detach().numpy()}


def broken(header, tensors, data):
    return torch.zeros(2) @ torch.zeros(3)


def numbers(header, tensors, data):
    return {}, {}


def types(header, tensors, data):
    import mimetypes

    return {"type": mimetypes.MimeTypes().guess_type("a.csv")[0], "files": mimetypes.knownfiles}, {}


def odd(header, tensors, data):
    return header, {"w": object()}


def echo(header, tensors, data):
    return header, tensors
"""


@pytest.fixture
def visible(tmp_path):
    (tmp_path / "data.json").write_text("[[1.0, 2.0], [3.0, 4.0]]")
    (tmp_path / "task.py").write_text(TASK)
    return Visible(tmp_path / "task.py", tmp_path / "data.json")


def header(function: str, **more) -> dict:
    return {"file": "task.py", "function": function, **more}


@pytest.mark.parametrize("mode", Mode)
def test_a_job_trains_with_torch(mode, visible):
    require(mode)
    model = {"w": np.array([1.0, -1.0], np.float32)}
    with Worker(mode, visible, JobLimits(seconds=300), preload=("torch",)) as worker:
        for _ in range(2):
            reply = worker.run(SCRIPT, header("train", rate=0.5), model, Layout.of(model))
            assert np.array_equal(reply.tensors["w"], np.array([5.0, 5.0], np.float32))
            assert reply.header["threads"] >= 1 and reply.header["account"] != 0
            assert reply.peak > 2**20 and reply.seconds > 0
        with pytest.raises(JobRaised, match=r"RuntimeError: .*\(task.py, line 18\)$"):
            worker.run(SCRIPT, header("broken"))


def test_a_library_that_asks_for_the_types_of_files_finds_none_that_it_may_not_open(visible):
    require(Mode.CONTAINED)
    visible.task.write_text(TASK.replace("import torch\n", ""))
    with Worker(Mode.CONTAINED, visible, JobLimits(seconds=60)) as worker:
        assert worker.run(SCRIPT, header("types")).header == {"type": "text/csv", "files": []}


@pytest.mark.parametrize("mode", Mode)
def test_large_tensors_go_both_ways(mode, visible):
    require(mode)
    model = {"w": np.arange(3_000_000, dtype=np.float32)}
    visible.task.write_text(TASK.replace("import torch\n", ""))
    with Worker(mode, visible) as worker:
        reply = worker.run(SCRIPT, header("echo"), model, Layout.of(model))
    assert np.array_equal(reply.tensors["w"], model["w"])


def test_a_request_that_is_too_large_is_not_sent(visible):
    with Worker(Mode.OFF, visible, JobLimits(request=10)) as worker, pytest.raises(JobFailed, match="10 bytes at most"):
        worker.run(SCRIPT, header("echo"), MODEL, LAYOUT)


def test_a_reply_that_would_be_larger_than_allowed_is_not_waited_for(visible):
    with (
        Worker(Mode.OFF, visible, JobLimits(reply=10)) as worker,
        pytest.raises(JobFailed, match="may return 10 bytes at most"),
    ):
        worker.run(SCRIPT, header("echo"), MODEL, LAYOUT)


@pytest.mark.parametrize("mode", Mode)
def test_a_node_with_a_thousand_open_files_runs_jobs(mode, visible):
    require(mode)
    visible.task.write_text(TASK.replace("import torch\n", ""))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        for _ in range(1100):
            stack.enter_context(open(os.devnull))
        with Worker(mode, visible, TIGHT) as worker:
            assert worker.run(SCRIPT, header("echo"), MODEL, LAYOUT).tensors["b"][0] == 1
            assert worker._attached is not None  # the warm process is there for the next one


@pytest.mark.parametrize("mode", Mode)
def test_a_warm_process_that_dies_is_replaced(mode, visible):
    require(mode)
    visible.task.write_text(TASK.replace("import torch\n", ""))
    with Worker(mode, visible, TIGHT) as worker:
        worker.start()
        assert worker._attached is not None
        signal.pidfd_send_signal(worker._attached.launched.first, signal.SIGKILL)
        worker._attached.launched.process.wait()
        assert worker.run(SCRIPT, header("echo"), MODEL, LAYOUT).tensors["b"][0] == 1


def test_answers_that_cannot_be_sent_are_faults_of_the_task(visible):
    visible.task.write_text(TASK.replace("import torch\n", ""))
    with Worker(Mode.OFF, visible, TIGHT) as worker, pytest.raises(JobRaised):
        worker.run(SCRIPT, header("odd"))


def test_it_ends_with_the_thread_that_did_not_start_it(visible):
    """bubblewrap could be told to die with its parent: that is the thread, which may end long before the node."""
    require(Mode.STRICT)
    visible.task.write_text(TASK.replace("import torch\n", ""))
    with Worker(Mode.STRICT, visible, TIGHT) as worker:
        thread = threading.Thread(target=worker.start)
        thread.start()
        thread.join()
        assert worker.run(SCRIPT, header("numbers")).header == {}


@pytest.mark.parametrize("mode", Mode)
def test_nothing_outlives_a_worker(mode, visible):
    require(mode)
    worker = Worker(mode, visible, TIGHT)
    worker.start()
    assert worker._attached is not None
    first = os.dup(worker._attached.launched.first)
    worker.close()
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(first, 0)
    os.close(first)


def test_a_closed_worker_begins_no_further_job(visible):
    """Else a job that another thread's ``close`` overtakes would start a process that nobody ends."""
    worker = Worker(Mode.OFF, visible, TIGHT)
    worker.start()
    worker.close()
    with pytest.raises(OSError, match="closed"):
        worker.run("fedgrove.node.tasks.sandbox.script:run", {"file": "task.py", "function": "train"})
    assert worker._attached is None
    worker.close()  # twice does no harm


ABANDONED = """
import sys
from pathlib import Path
from fedgrove.node.tasks.sandbox.settings import Mode, Visible
from fedgrove.node.tasks.sandbox.worker import Worker

worker = Worker(Mode(sys.argv[1]), Visible(Path(sys.argv[2])))
worker.start()
first = Path(f"/proc/self/fdinfo/{worker._attached.launched.first}").read_text().split("Pid:")[1].split()[0]
print(worker._attached.launched.process.pid, first, flush=True)
worker.run("fedgrove.node.tasks.sandbox.script:run", {"file": "task.py", "function": "hang"})
"""


@pytest.mark.parametrize("mode", Mode)
def test_nothing_outlives_a_node_that_is_killed(mode, tmp_path):
    require(mode)
    mark = tmp_path / "task.py"
    mark.write_text("import time\n\n\ndef hang(*given):\n    time.sleep(600)\n")
    command = [sys.executable, "-c", ABANDONED, mode, str(mark)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        descriptors = [os.pidfd_open(int(pid)) for pid in node.stdout.readline().split()]
        node.kill()
    assert len(descriptors) == 2
    for descriptor in descriptors:
        ended = select.poll()  # a process of many tests may have more files than select() takes
        ended.register(descriptor, select.POLLIN)
        assert ended.poll(60_000)
        os.close(descriptor)


@pytest.mark.parametrize("mode", Mode)
def test_secrets_within_what_a_job_sees_are_refused(mode, tmp_path):
    (tmp_path / "keystore.json").write_text("{}")
    (tmp_path / "task.py").write_text("")
    for visible in (Visible(tmp_path / "task.py", tmp_path), Visible(tmp_path)):
        with pytest.raises(SandboxUnavailable, match=r"keystore.json: move it out of"):
            Worker(mode, visible, private=[tmp_path / "keystore.json"])


def test_a_module_that_is_not_there_is_named(visible):
    worker = Worker(Mode.OFF, visible, TIGHT, preload=("fedgrove.nothing",))
    with pytest.raises(SandboxUnavailable, match=r"No module named 'fedgrove.nothing'"):
        worker.start()


def test_settings_come_back():
    paths = (Path("/a b"), Path("/ü"))
    settings = WarmSettings(Mode.STRICT, Visible(*paths, {"base": paths[0]}), TIGHT, ("torch",), paths, False)
    assert WarmSettings.load(settings.dump()) == settings


@pytest.fixture
def without_caches():
    modes.strict_fault.cache_clear()
    modes.contained_fault.cache_clear()
    yield
    modes.strict_fault.cache_clear()
    modes.contained_fault.cache_clear()


@pytest.mark.usefixtures("without_caches")
def test_the_stronger_mode_is_chosen_and_off_only_by_the_owner(monkeypatch):
    monkeypatch.setattr(modes, "strict_fault", lambda: None)
    assert modes.choose() is Mode.STRICT
    monkeypatch.setattr(modes, "strict_fault", lambda: "bubblewrap is not installed")
    monkeypatch.setattr(modes, "contained_fault", lambda: None)
    assert modes.choose() is Mode.CONTAINED
    with pytest.raises(SandboxUnavailable, match="strict: bubblewrap is not installed"):
        modes.choose("strict")
    monkeypatch.setattr(modes, "contained_fault", lambda: "this kernel has no Landlock")
    with pytest.raises(SandboxUnavailable, match=r'no Landlock.*sandbox = "off"'):
        modes.choose()
    assert modes.choose("off") is Mode.OFF


@pytest.mark.usefixtures("without_caches")
def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(modes.shutil, "which", lambda name: None)
    assert modes.strict_fault() == "bubblewrap is not installed"
    monkeypatch.setattr(modes.landlock, "version", lambda: 0)
    assert modes.contained_fault() == "this kernel has no Landlock"


@pytest.mark.usefixtures("without_caches")
def test_a_bubblewrap_that_does_not_start_is_named(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = "bubblewrap does not start here (bwrap: No permissions to create new namespace)"
    assert modes.strict_fault() == said


def test_neither_node_nor_job_needs_chain_store_or_torch():
    code = "import sys\nfrom fedgrove.node.tasks.sandbox import modes, warm, worker\n"
    code += "sys.exit(' '.join({'fedgrove.chain', 'fedgrove.ipfs', 'torch', 'web3'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.strip() == ""


def test_root_is_asked_to_be_somebody_else(monkeypatch):
    monkeypatch.setattr(modes.os, "getuid", lambda: 0)
    assert "runs as root" in str(modes.advice())
    monkeypatch.setattr(modes.os, "getuid", lambda: 1000)
    assert modes.advice() is None


def test_a_job_gets_what_its_control_group_leaves(monkeypatch):
    assert JobLimits().memory == limits.memory_limit() or limits.memory_limit() < limits.MACHINE
    monkeypatch.setattr(limits, "memory_limit", lambda: 1 << 30)
    assert (JobLimits().memory, JobLimits().scratch) == (3 << 28, 1 << 27)
    monkeypatch.setattr(limits, "memory_limit", lambda: limits.MACHINE)
    assert JobLimits().memory == limits.MACHINE


def test_libraries_may_write_temporary_files_while_they_are_imported(tmp_path):
    """Some builds of torch ask for a folder for them, which jobs get only once they have begun."""
    require(Mode.STRICT)
    (tmp_path / "task").mkdir()
    program = python("-c", "import sys, tempfile; sys.stderr.write(tempfile.TemporaryDirectory().name)")
    launched = launch(Mode.STRICT, Visible(tmp_path / "task", None), program)
    try:
        launched.process.wait(60)
        assert launched.complaint().startswith("/fedgrove/scratch/home/")
    finally:
        launched.close()
