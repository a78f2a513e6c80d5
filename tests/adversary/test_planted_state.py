"""A folder that waits beside the directory of a demonstration, made by somebody else.

Who attacks: another account of the machine, where people run demonstrations in a folder that all may write to, such as
/tmp. The state of a run has a name that follows from the directory's, so it can be there first: with options that name
a task of the attacker's and no sandbox, with keys that it knows, or with a lock that is a link to one of the user's
files.

What stops it: the state is used only in a folder that this account owns and nobody else can write to.
"""

import os

import pytest

from fedgrove.common.errors import RunFailed
from fedgrove.node.devnet.demonstration import Spectators, begun_with, demonstrate
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.scenario.reading import scenario
from tests.node.devnet.test_resume import Quiet


@pytest.fixture
def theirs(tmp_path):
    """The options of a run that would execute the attacker's code."""
    state = RunState.next_to(tmp_path / "run")
    theirs = scenario(clients=3, rounds=1, task=str(tmp_path), data=str(tmp_path), sandbox="off")
    state.keep_scenario(theirs)
    (tmp_path / "run").mkdir()
    return state


def test_a_folder_that_others_may_write_to_is_not_resumed_from(theirs, tmp_path):
    theirs.root.chmod(0o777)
    with pytest.raises(RunFailed, match="another account"):
        begun_with(tmp_path / "run")


def test_a_folder_of_another_account_is_not_resumed_from(theirs, tmp_path, monkeypatch):
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(RunFailed, match="another account"):
        begun_with(tmp_path / "run")


def test_a_link_to_a_folder_is_not_resumed_from(theirs, tmp_path):
    theirs.root.rename(tmp_path / "elsewhere")
    theirs.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFailed, match="another account"):
        begun_with(tmp_path / "run")


def test_no_file_of_the_user_is_emptied_by_a_link_in_place_of_the_lock(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("the user's")
    root = RunState.next_to(tmp_path / "run").root
    root.mkdir()
    root.chmod(0o777)
    (root / "lock").symlink_to(own)
    with pytest.raises(RunFailed, match="another account"):
        demonstrate(scenario(clients=3, rounds=1, strategy="fedavg"), tmp_path / "run", Spectators(Quiet()))
    assert own.read_text() == "the user's"
