"""A testnet's directory belongs to one command at a time; the next one waits. A failed attempt leaves nothing in it."""

import os
import subprocess
import sys
import threading

import pytest

from fedgrove.common.errors import RunFailed
from fedgrove.node.devnet.testnet import control, setup
from fedgrove.node.devnet.testnet.control import delete, up
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, write_record
from fedgrove.node.devnet.testnet.lock import Busy, claim
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.scenario.reading import scenario

PLAN = scenario(clients=3, rounds=1, store="disk")
FAULT = RunFailed("no room")


def test_a_directory_is_removed_when_whoever_works_on_it_is_done(tmp_path):
    layout = TestnetPaths(tmp_path / "testnet")
    lock = claim(layout)
    threading.Timer(0.3, os.close, [lock]).start()
    delete(layout)
    assert not layout.root.exists()


def failing(layout, monkeypatch, fault=FAULT, meanwhile=lambda: None):
    """Have the last step but one of an attempt fail, after everybody's keys and data were written."""

    def fail(*_):
        assert layout.participant("client-03").data.exists()
        (layout.participant("client-03").root / "read-only").mkdir(mode=0o555)
        meanwhile()
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(setup, "_found", fail)
        with pytest.raises(type(fault)):
            up(layout, PLAN, lambda sentence: None)


@pytest.mark.parametrize("fault", [FAULT, KeyboardInterrupt()], ids=["fault", "interrupt"])
def test_an_attempt_that_fails_leaves_nothing(tmp_path, monkeypatch, fault):
    failing(TestnetPaths(tmp_path / "new" / "testnet"), monkeypatch, fault)
    assert list(tmp_path.iterdir()) == []


def test_data_that_cannot_be_loaded_leave_nothing(tmp_path):
    plan = PLAN.changed(cast={"dataset": str(tmp_path / "missing.npz")})
    with pytest.raises(DatasetError, match=r"missing\.npz"):
        up(TestnetPaths(tmp_path / "testnet"), plan, lambda sentence: None)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_there_stays_when_an_attempt_fails(tmp_path, monkeypatch):
    failing(TestnetPaths(tmp_path), monkeypatch)
    assert list(tmp_path.iterdir()) == []


def test_an_attempt_that_fails_leaves_what_others_put_there_meanwhile(tmp_path, monkeypatch):
    layout = TestnetPaths(tmp_path / "new" / "testnet")

    def write():
        (layout.root / "thesis").mkdir()
        (layout.root / "thesis" / "chapter.txt").write_text("years of work")

    failing(layout, monkeypatch, meanwhile=write)
    assert [path.name for path in layout.root.iterdir()] == ["thesis"]
    assert (layout.root / "thesis" / "chapter.txt").read_text() == "years of work"


def test_what_a_killed_attempt_left_is_cleared_but_never_with_other_peoples_files(tmp_path):
    layout = TestnetPaths(tmp_path)
    layout.unfinished.touch()
    layout.logs.mkdir()
    os.close(claim(layout))
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFailed, match="something other than a testnet"):
        claim(layout)


def test_a_directory_that_was_removed_by_the_command_before_is_made_anew(tmp_path, monkeypatch):
    layout = TestnetPaths(tmp_path / "testnet")
    first, opened = claim(layout), os.open

    def removed_once_opened(*arguments):
        descriptor = opened(*arguments)
        monkeypatch.undo()
        layout.root.rmdir()
        os.close(first)
        return descriptor

    monkeypatch.setattr(os, "open", removed_once_opened)
    with pytest.raises(Busy):
        claim(layout)
    os.close(claim(layout))
    assert layout.root.exists()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A testnet that exists, whose supervisor is another program; brings it up, and returns what it says."""
    layout = TestnetPaths(tmp_path / "testnet")
    layout.logs.mkdir(parents=True)
    write_record(layout, Testnet(PLAN.to_tables(), 1, "0x" + 40 * "1", "0x" + 40 * "2", 0, {}))

    def brought_up(program: str) -> list[str]:
        def supervise(*_: object) -> subprocess.Popen:
            with layout.log("supervisor").open("wb") as log:
                return subprocess.Popen([sys.executable, "-c", program, str(layout.root)], stderr=log)

        said: list[str] = []
        monkeypatch.setattr(control, "_supervise", supervise)
        with pytest.raises(RunFailed) as fault:
            up(layout, PLAN, said.append)
        return [*said, str(fault.value)]

    return brought_up


def test_a_supervisor_that_dies_is_not_waited_for_and_its_last_words_are_told(made):
    (sentence,) = made("raise OSError('AF_UNIX path too long')")
    assert "supervisor ended while starting (OSError: AF_UNIX path too long)" in sentence


SUPERVISOR = """
import json, os, sys, time
from pathlib import Path
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.layout import TestnetPaths

me, layout = Identity.of(os.getpid()), TestnetPaths(Path(sys.argv[1]))
for state in ("paused", "gave up"):
    kept = [{"name": "client-01", "kind": "client", "state": state, "trouble": "client-01 ended with code 2"}]
    layout.processes.write_text(json.dumps({"phase": "starting the clients", "processes": kept}))
    layout.supervisor.write_text(json.dumps({"pid": me.pid, "started": me.started, "since": 0.0}))
    time.sleep(2)
"""


def test_what_does_not_start_is_told_at_once_and_not_waited_for_once_it_is_given_up(made):
    said = made(SUPERVISOR)
    assert "client-01 ended with code 2, and is tried again" in said
    assert "client-01 ended with code 2, and was given up: see" in said[-1] and "client-01.log" in said[-1]
