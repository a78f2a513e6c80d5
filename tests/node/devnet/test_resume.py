"""A demonstration that is killed, wherever it is, goes on and comes to the bytes of one that nobody disturbed."""

import errno
import os

import pytest

from fedgrove.chain.embedded.blocks_file import StateFile
from fedgrove.common.errors import RunFailed
from fedgrove.node.audit.archive import audit_directory
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet import demonstration
from fedgrove.node.devnet.demo import DemoFailed
from fedgrove.node.devnet.demonstration import Spectators, begun_with, demonstrate, resume
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.scenario.reading import scenario

SCENARIO = scenario(clients=6, rounds=2, drop=0.2, seed=3, workers=1, strategy="fedavg")


class Killed(BaseException):
    """Nothing of the product catches it, as nothing catches SIGKILL."""


class Quiet:
    """An audience that forgets everything but the rounds that runs went on in."""

    def __init__(self):
        self.rounds = []

    def observe(self, role, step):
        pass

    def say(self, phase):
        pass

    def goes_on(self, number):
        self.rounds.append(number)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    done = demonstrate(SCENARIO, tmp_path_factory.mktemp("undisturbed") / "run", Spectators(Quiet()))
    assert [each["status"] for each in done.report["rounds"]] == ["closed", "closed"]
    assert any(each["dropped"] for each in done.report["rounds"])
    return done


@pytest.fixture
def killed_at(monkeypatch):
    """Have the process killed at its n-th next block: with ``written``, when it is in the chain's file already."""
    honest = StateFile.commit

    def arm(count: int, written: bool) -> None:
        left = [count]

        def commit(state):
            left[0] -= 1
            if left[0] == 0 and not written:
                raise Killed
            honest(state)
            if left[0] == 0:
                raise Killed

        monkeypatch.setattr(StateFile, "commit", commit)

    return arm


def closed(report):
    return [(each["round"], each["status"], each["model_cid"], each["committed"]) for each in report["rounds"]]


def test_a_run_that_is_killed_again_and_again_comes_to_the_same_models(undisturbed, tmp_path, killed_at):
    directory, audience, kills, done = tmp_path / "run", Quiet(), 0, None
    killed_at(20, written=True)  # the contracts are there, members register
    with pytest.raises(Killed):
        demonstrate(SCENARIO, directory, Spectators(audience))
    while done is None:
        kills += 1
        killed_at(11 + kills % 3, written=kills % 2 == 0)
        try:
            done = resume(directory, Spectators(audience))
        except Killed:
            assert kills < 60
    assert kills >= 6 and {1, 2} <= set(audience.rounds)
    assert done.verdict.verdict == "verified" and audit_directory(directory).verdict == "verified"
    assert closed(done.report) == closed(undisturbed.report)
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "the keys and journals are gone"


def test_a_run_that_is_killed_before_its_contracts_are_there_leaves_nothing(tmp_path, killed_at):
    killed_at(3, written=True)
    with pytest.raises(Killed):
        demonstrate(SCENARIO, tmp_path / "run", Spectators(Quiet()))
    assert not any((tmp_path / "run").iterdir()) and not RunState.next_to(tmp_path / "run").root.exists()


def test_an_interrupted_run_can_be_audited_and_gone_on_with(undisturbed, tmp_path, monkeypatch):
    class Interrupting(Quiet):
        def observe(self, role, step):
            if step.acted.startswith("closed"):
                raise KeyboardInterrupt

    directory = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        demonstrate(SCENARIO, directory, Spectators(Interrupting()))
    assert audit_directory(directory).rounds == 1
    with pytest.raises(InvalidConfig, match="was interrupted: add --resume"):
        demonstrate(SCENARIO, directory, Spectators(Quiet()))
    state = RunState.next_to(directory)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (state.root, state.chain, *(state.root / "keys").iterdir()))
    with state.claimed(), pytest.raises(RunFailed, match="another process"):
        resume(directory, Spectators(Quiet()))
    with monkeypatch.context() as changed, pytest.raises(DemoFailed, match="put them back"):
        changed.setattr(demonstration, "begun_with", lambda place: scenario(clients=6, rounds=3, strategy="fedavg"))
        resume(directory, Spectators(Quiet()))
    done = resume(directory, Spectators(Quiet()))
    assert closed(done.report) == closed(undisturbed.report) and audit_directory(directory).verdict == "verified"
    assert not state.root.exists()
    with pytest.raises(InvalidConfig, match="its run has ended"):
        resume(directory, Spectators(Quiet()))


def test_a_full_disk_ends_a_run_that_goes_on_where_it_was(undisturbed, tmp_path, monkeypatch):
    honest, left = StateFile.commit, [30]

    def commit(state):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        honest(state)

    with monkeypatch.context() as full, pytest.raises(OSError, match="No space"):
        full.setattr(StateFile, "commit", commit)
        demonstrate(SCENARIO, tmp_path / "run", Spectators(Quiet()))
    assert closed(resume(tmp_path / "run", Spectators(Quiet())).report) == closed(undisturbed.report)


def test_nothing_is_resumed_from_another_folder_or_damaged_state(tmp_path):
    with pytest.raises(InvalidConfig, match="finds nothing to go on with"):
        begun_with(tmp_path / "nowhere")
    (tmp_path / "run").mkdir()
    state = RunState.next_to(tmp_path / "run")
    state.keep_scenario(SCENARIO)
    for damage in (b"{", b"[]", b"\xff", b'{"plan": 3}'):
        (state.root / "options.json").write_bytes(damage)
        with pytest.raises(RunFailed, match=r"cannot be read: remove .*, and begin a new run"):
            begun_with(tmp_path / "run")
    for name, read in (("deployment.json", state.deployment), ("seconds.json", state.seconds)):
        (state.root / name).write_text('{"1": []}')
        with pytest.raises(RunFailed, match="begin a new run"):
            read()
