"""Real processes, kept running."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from fedgrove.node.devnet.testnet import keeper
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.keeper import Command, Job, Keeper

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(keeper, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(keeper, "MOST_FAILURES", 3)


@pytest.fixture
def start(tmp_path):
    """Keeps ``python -c code`` running; everything is stopped in the end."""
    keepers = []

    def begin(code, ends=True):
        command = [sys.executable, "-c", code]
        job = Job("one", "client", lambda: Command(command, tmp_path / "log", dict(os.environ), tmp_path), ends)
        kept = Keeper(job, told.append)
        kept.begin()
        keepers.append(kept)
        return kept

    told = []
    begin.told = told
    begin.log = tmp_path / "log"
    yield begin
    for each in keepers:
        each.stop(5)


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def state(kept, name):
    until(lambda: kept.status.state == name)
    return kept.status


def test_exit_code_0_means_that_the_work_is_done(start):
    kept = start("print('my words')")
    status = state(kept, "finished")
    assert (status.restarts, status.code, status.pid) == (0, 0, 0)
    assert start.log.read_text() == "my words\n"


def test_a_service_that_ended_without_a_result_is_not_started_again(start):
    status = state(start("import sys; sys.exit(1)"), "finished")
    assert (status.restarts, status.code) == (0, 1) and "without a result" in start.told[-1]


def test_what_must_run_for_ever_is_started_again_even_after_code_0(start):
    kept = start("", ends=False)
    assert state(kept, "gave up").code == 0


def test_a_killed_process_is_started_again_as_often_as_it_is_killed(start, monkeypatch):
    monkeypatch.setattr(keeper, "STEADY_SECONDS", 0.0)  # however short it lived, it was no failure in a row
    kept = start("import time; time.sleep(600)")
    victims = []
    for _ in range(6):
        until(lambda: kept.status.pid and kept.status.pid not in victims)
        assert Identity(kept.status.pid, kept.status.started).send(signal.SIGKILL)
        victims.append(kept.status.pid)
    until(lambda: kept.status.pid not in (0, *victims))
    assert kept.status.restarts == 6
    assert any("SIGKILL" in sentence for sentence in start.told)


def test_a_process_that_always_fails_is_given_up_and_its_last_code_is_told(start):
    status = state(start("import sys; sys.exit(3)"), "gave up")
    assert (status.code, status.restarts) == (3, 3)
    assert "is not restarted" in start.told[-1] and "code 3" in start.told[-1] and "code 3" in status.trouble


def test_a_program_that_cannot_be_started_is_given_up(start):
    def fail():
        raise FileNotFoundError("no such program")

    kept = Keeper(Job("two", "store", fail), start.told.append)
    kept.begin()
    assert state(kept, "gave up").restarts == 3
    assert any("no such program" in sentence for sentence in start.told) and "no such program" in kept.status.trouble


def test_a_process_that_ignores_the_order_to_end_is_killed(start):
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    kept = start(code)
    status = state(kept, "running")
    until(lambda: "deaf" in start.log.read_text())
    kept.stop(0.2)
    assert not Identity(status.pid, status.started).alive
    assert kept.status.state == "stopped"


def test_stopping_ends_a_pause_and_nothing_is_started_any_more(start, monkeypatch):
    monkeypatch.setattr(keeper, "FIRST_PAUSE_SECONDS", 600.0)
    monkeypatch.setattr(keeper, "LONGEST_PAUSE_SECONDS", 600.0)
    kept = start("import sys; sys.exit(3)")
    state(kept, "paused")
    kept.stop(10)
    assert kept.status.state == "stopped" and kept.status.restarts == 0


def test_what_is_started_while_it_is_being_stopped_ends_at_once(start, tmp_path):
    starting, go_on = threading.Event(), threading.Event()
    started = []

    def slowly():
        starting.set()
        go_on.wait(PATIENCE)
        running = Command(
            [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log", dict(os.environ), tmp_path
        )
        started.append(Identity.of(running.pid))
        return running

    kept = Keeper(Job("slow", "store", slowly), start.told.append)
    kept.begin()
    assert starting.wait(PATIENCE)
    kept.stop(0.1)
    go_on.set()
    until(lambda: started and not started[0].alive)


def test_a_killed_supervisor_takes_what_it_started_with_it(tmp_path):
    """PR_SET_PDEATHSIG: nothing has to be cleaned up after SIGKILL."""
    code = f"""
import os, sys, time
from pathlib import Path
from fedgrove.node.devnet.testnet.keeper import Command, Job, Keeper
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
place = Path({str(tmp_path)!r})
kept = Keeper(Job("one", "client", lambda: Command(sleep, place / "log", dict(os.environ), place)), print)
kept.begin()
while not kept.status.pid:
    time.sleep(0.01)
print(kept.status.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = Identity.of(int(parent.stdout.readline()))
        assert child.alive
        parent.kill()
        assert child.wait(PATIENCE)
