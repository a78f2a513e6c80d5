"""A testnet's directory belongs to one command at a time; the next one waits. A failed attempt leaves nothing in it."""

import os
import threading

import pytest
from fedgrove.node.devnet.testnet import setup
from fedgrove.node.devnet.testnet.control import delete, up
from fedgrove.node.devnet.testnet.layout import TestnetError, TestnetPaths, TestnetPlan, UnfitDirectory
from fedgrove.node.devnet.testnet.lock import Busy, claim
from fedgrove.node.learning.datasets import load_dataset

PLAN = TestnetPlan(clients=3, rounds=1, store="disk")
FAULT = TestnetError("no room")


def test_a_directory_is_removed_when_whoever_works_on_it_is_done(tmp_path):
    layout = TestnetPaths(tmp_path / "testnet")
    lock = claim(layout)
    threading.Timer(0.3, os.close, [lock]).start()
    delete(layout)
    assert not layout.root.exists()


def failing(layout, monkeypatch, fault=FAULT, dataset=lambda: load_dataset("digits")):
    """Have the last step but one of an attempt fail, after everybody's keys and data were written."""

    def fail(*_):
        assert layout.participant("client-03").data.exists()
        (layout.participant("client-03").root / "read-only").mkdir(mode=0o555)
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(setup, "_found", fail)
        with pytest.raises(type(fault)):
            up(layout, PLAN, dataset, lambda sentence: None)


@pytest.mark.parametrize("fault", [FAULT, KeyboardInterrupt()], ids=["fault", "interrupt"])
def test_an_attempt_that_fails_leaves_nothing(tmp_path, monkeypatch, fault):
    failing(TestnetPaths(tmp_path / "new" / "testnet"), monkeypatch, fault)
    assert list(tmp_path.iterdir()) == []


def test_data_that_cannot_be_loaded_leave_nothing(tmp_path):
    def missing():
        raise FileNotFoundError("digits.npz")

    with pytest.raises(FileNotFoundError):
        up(TestnetPaths(tmp_path / "testnet"), PLAN, missing, lambda sentence: None)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_there_stays_when_an_attempt_fails(tmp_path, monkeypatch):
    failing(TestnetPaths(tmp_path), monkeypatch)
    assert list(tmp_path.iterdir()) == []


def test_an_attempt_that_fails_leaves_what_others_put_there_meanwhile(tmp_path, monkeypatch):
    layout = TestnetPaths(tmp_path / "new" / "testnet")

    def dataset():
        (layout.root / "thesis").mkdir()
        (layout.root / "thesis" / "chapter.txt").write_text("years of work")
        return load_dataset("digits")

    failing(layout, monkeypatch, dataset=dataset)
    assert [path.name for path in layout.root.iterdir()] == ["thesis"]
    assert (layout.root / "thesis" / "chapter.txt").read_text() == "years of work"


def test_what_a_killed_attempt_left_is_cleared_but_never_with_other_peoples_files(tmp_path):
    layout = TestnetPaths(tmp_path)
    layout.unfinished.touch()
    layout.logs.mkdir()
    os.close(claim(layout))
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UnfitDirectory, match="something other than a testnet"):
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
