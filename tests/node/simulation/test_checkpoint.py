"""A run that is cut off at any point goes on to the bytes of one that was not; nothing else is taken for its own."""

import shutil

import pytest

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.simulation import checkpoint as files
from fedgrove.node.simulation.checkpoint import CHECKPOINT, RECORD, STATES, RunDirectory, check_directory
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.loop import SCRATCH
from fedgrove.node.simulation.run import Simulation
from tests.node.simulation.conftest import simulate as simulated
from tests.node.simulation.conftest import small_plan

# MOON keeps each client's last model.
PLAN = small_plan(strategy="moon", rounds=4, clients=6, train_samples=120, evaluate_every=2, test_samples=40)


class Cut(BaseException):
    """Stands for the process's end."""


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    """The directory of a run that nothing disturbed."""
    directory = tmp_path_factory.mktemp("whole")
    simulate(digits, directory)
    return directory


def simulate(digits, directory, plan=PLAN, **options):
    return simulated(plan, digits, directory=directory, **options).record


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_a_run_that_stopped_goes_on_to_the_same_bytes(rounds, digits, whole, tmp_path):
    simulate(digits, tmp_path, rounds=rounds)
    simulate(digits, tmp_path, resume=True)
    assert (tmp_path / RECORD).read_bytes() == (whole / RECORD).read_bytes()
    assert (tmp_path / CHECKPOINT).read_bytes() == (whole / CHECKPOINT).read_bytes()


def cut_at(monkeypatch, step: int) -> list[str]:
    """End the process before its ``step``-th change to a file: a state, a checkpoint, a removal of an old state."""
    steps: list[str] = []

    def counted(name, function):
        def change(*arguments, **options):
            steps.append(name)
            if len(steps) == step:
                raise Cut
            return function(*arguments, **options)

        return change

    monkeypatch.setattr(files, "write_atomically", counted("checkpoint", files.write_atomically))
    monkeypatch.setattr(RunDirectory, "keep_state", counted("state", RunDirectory.keep_state))
    monkeypatch.setattr(files.Path, "unlink", counted("removal", files.Path.unlink))
    return steps


def test_the_process_may_end_between_any_two_changes_of_files(digits, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        steps = cut_at(patch, 0)
        simulate(digits, tmp_path / "count")
    assert {"checkpoint", "state", "removal"} == set(steps)
    for step in range(1, len(steps) + 1):
        directory = tmp_path / str(step)
        with monkeypatch.context() as patch, pytest.raises(Cut):
            cut_at(patch, step)
            simulate(digits, directory)
        simulate(digits, directory, resume=True)
        assert (directory / RECORD).read_bytes() == (whole / RECORD).read_bytes(), (
            f"cut before {steps[step - 1]} {step}"
        )
        assert sorted(path.name for path in (directory / STATES).iterdir()) == sorted(
            path.name for path in (whole / STATES).iterdir()
        )


def test_a_state_that_was_half_written_is_written_again(digits, whole, tmp_path):
    simulate(digits, tmp_path, rounds=2)
    drawn = PLAN.draw(3)
    (tmp_path / STATES / f"{drawn[0]}-3").write_bytes(b"half")
    simulate(digits, tmp_path, resume=True)
    assert (tmp_path / RECORD).read_bytes() == (whole / RECORD).read_bytes()


def test_a_finished_run_is_resumed_by_doing_nothing(digits, whole):
    before = (whole / RECORD).read_bytes()
    simulation = Simulation(PLAN, digits, InlineExecutor(), 1, whole, resume=True)
    assert list(simulation.run()) == []
    assert simulation.record.to_bytes() == before == (whole / RECORD).read_bytes()
    assert not (whole / SCRATCH).exists()


def test_a_run_is_not_begun_over_another(digits, whole):
    with pytest.raises(InvalidInput, match="up to round 4: resume it"):
        simulate(digits, whole)
    with pytest.raises(InvalidInput, match="another scenario"):
        simulate(digits, whole, plan=PLAN.with_seed(1), resume=True)
    with pytest.raises(InvalidInput, match="another scenario"):
        check_directory(whole, PLAN.with_seed(1), resume=True)


def test_a_run_is_not_resumed_on_other_data(digits, whole, tmp_path):
    changed = shutil.copytree(whole, tmp_path / "run")
    darker = type(digits)("digits", 10, digits.train(), type(digits.test())(digits.test().x / 2, digits.test().y))
    with pytest.raises(InvalidInput, match="other data"):
        simulate(darker, changed, resume=True)


def test_a_directory_belongs_to_one_process(digits, tmp_path):
    first = Simulation(PLAN, digits, InlineExecutor(), 1, tmp_path).run()
    next(first)
    with pytest.raises(AlreadyInUse):
        simulate(digits, tmp_path, resume=True)
    first.close()
    simulate(digits, tmp_path, resume=True)


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_a_damaged_checkpoint_is_refused_and_not_changed(digits, whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    good = (run / CHECKPOINT).read_bytes()
    places = [*range(0, len(good), len(good) // 60), len(good) - 1]
    for bad in (b"", b"x" * 50, good[:-1], good + b"x", *(flipped(good, place) for place in places)):
        (run / CHECKPOINT).write_bytes(bad)
        with pytest.raises(InvalidContent, match="damaged"):
            simulate(digits, run, resume=True)
        assert (run / CHECKPOINT).read_bytes() == bad


def test_a_damaged_or_missing_state_is_refused(digits, tmp_path):
    simulate(digits, tmp_path / "run", rounds=3)
    states = sorted((tmp_path / "run" / STATES).iterdir())
    drawn_next = next(path for path in states if int(path.name.split("-")[0]) in PLAN.draw(4))
    damaged = shutil.copytree(tmp_path / "run", tmp_path / "damaged")
    place = damaged / STATES / drawn_next.name
    place.write_bytes(flipped(place.read_bytes(), 300))
    with pytest.raises(InvalidContent, match=rf"client {drawn_next.name.split('-')[0]} .* is damaged"):
        simulate(digits, damaged, resume=True)
    states[0].unlink()
    with pytest.raises(InvalidContent, match="states are missing"):
        simulate(digits, tmp_path / "run", resume=True)
