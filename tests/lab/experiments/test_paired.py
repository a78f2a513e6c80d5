"""Paired differences by hand, and on the stored runs."""

from pathlib import Path

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.scenario.reading import MANY
from fedgrove_lab.experiments.paired import first, paired, read_cell, table
from tests.node.simulation.records import record_of

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def test_the_interval_is_students():
    """Differences 0.01, 0.02, 0.03: deviation 0.01, t with two degrees of freedom 4.3027."""
    found = paired({0: 0.91, 1: 0.82, 2: 0.73}, {0: 0.90, 1: 0.80, 2: 0.70})
    assert found.mean == pytest.approx(0.02) and found.half == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)
    assert not found.above_zero and found.text == "+2.0 [-0.5, +4.5]"
    steadier = paired({0: 0.91, 1: 0.811, 2: 0.709}, {0: 0.90, 1: 0.80, 2: 0.70})
    assert steadier.above_zero


def test_only_seeds_that_both_have_count_and_two_give_no_interval():
    assert paired({0: 0.5}, {1: 0.5}) is None
    found = paired({0: 0.9, 1: 0.9, 5: 0.1}, {0: 0.8, 1: 0.8})
    assert found.seeds == 2 and found.half is None and not found.above_zero
    assert found.text == "+10.0 (too few seeds for an interval)"


def test_first_is_only_who_is_above_every_other():
    low, middle, high = ({seed: value + seed / 1000 for seed in range(5)} for value in (0.5, 0.6, 0.7))
    assert first({"a": low, "b": high, "c": middle}) == "b"
    assert first({"a": high, "b": high}) == first({"a": high}) == first({}) == ""
    assert first({"a": low, "b": {0: 0.9, 1: 0.9}}) == ""


def of(method: str, *ends: float, rounds: int = 20) -> dict:
    plan = MANY.changed(federation={"rounds": rounds}, strategy={"name": method})
    return {seed: record_of([end] * len(range(20)), plan, seed=seed) for seed, end in enumerate(ends)}


def test_the_table_has_methods_by_the_alphabet_and_a_run_that_diverged_at_chance():
    runs = {"moon": of("moon", 0.7, 0.7, 0.7), "fedavg": of("fedavg", 0.5, 0.52, 0.51)}
    lines = table(runs).splitlines()
    assert lines[2].startswith("| FedAvg | 0, 1, 2 | 51.00 ± 1.00 | – |")
    assert lines[3].startswith("| MOON | 0, 1, 2 | 70.00 ± 0.00 | +19.0 [+16.5, +21.5] |")
    assert lines[-1] == "First: MOON."
    wild = {0: record_of([0.7] * 5, MANY.changed(federation={"rounds": 20}, strategy={"name": "moon"}))}
    assert "| MOON | 0 | 10.00 (diverged, counts as 10: seed 0) |" in table({**runs, "moon": wild})
    mixed = table({**runs, "moon": {**of("moon", 0.7, 0.7), 2: wild[0]}})
    assert "| MOON | 0, 1, 2 | 50.00 ± 34.64 (diverged, counts as 10: seed 2) |" in mixed


def test_runs_of_other_circumstances_are_not_compared():
    with pytest.raises(InvalidInput, match="cannot be compared"):
        table({"moon": of("moon", 0.7), "fedavg": of("fedavg", 0.5, rounds=40)})


def test_three_stored_seeds_make_nobody_first():
    """As the page of the tuned comparison says."""
    text = table(read_cell(RESULTS / "rounds_to_90_tuned", ""))
    assert "| FedAom | 0, 1, 2 | 96.73 ± 0.34 | +7.0 [-4.9, +19.0] |" in text
    assert text.endswith("First: nobody, by these seeds.\n")
    assert set(read_cell(RESULTS / "accuracy_table", "cifar10-shards2")) == {
        *("fedaom", "fedavg", "fedcurv", "fedprox", "moon")
    }
