"""Progress of simulated rounds, as lines where nobody watches a terminal."""

import pytest

from fedgrove.common.text import duration
from fedgrove.node.cli import rounds_progress
from fedgrove.node.cli.rounds_progress import RoundsDisplay
from fedgrove.node.simulation.record import RoundResult


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the test sets."""
    seconds = [100.0]
    monkeypatch.setattr(rounds_progress.time, "monotonic", lambda: seconds[0])
    return seconds


def result(number: int) -> RoundResult:
    return RoundResult(number, 0.5, 1.0, 1.0, (1,), 10)


def test_pace_counts_what_was_done_here_and_what_is_left_of_all_runs(clock):
    with RoundsDisplay(total=30) as display:
        display.begin("one", 10)
        assert display.pace == ""
        for number in range(6, 11):  # resumed after round 5
            clock[0] += 2
            display.advance(result(number))
        assert display.pace == "30 rounds/min, 40 s left"
        display.begin("two", 20)
        assert display.pace == "30 rounds/min, 40 s left", "20 rounds of the second run are left"


def test_lines_come_at_the_start_at_the_end_and_now_and_then(clock, capsys):
    with RoundsDisplay(total=4) as display:
        display.begin("one", 4)
        for number in (1, 2, 3, 4):
            clock[0] += rounds_progress.LINE_SECONDS * 0.6
            display.advance(result(number))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "one: round 0 of 4 (0 of 4 in all)",
        "one: round 2 of 4",
        "one: round 4 of 4",
    ]
    assert "accuracy 0.5000 (2 of 4 in all; 3.33 rounds/min, 36 s left)" in lines[1]


def test_durations_are_for_people():
    assert [duration(s) for s in (-1, 45, 600, 12_000)] == ["–", "45 s", "10 min", "3 h 20 min"]
