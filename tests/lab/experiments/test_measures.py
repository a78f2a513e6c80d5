"""What is read off a curve, on curves where the answer can be seen."""

import pytest

from fedgrove.node.scenario.reading import MANY
from fedgrove_lab.experiments import measures
from fedgrove_lab.experiments.measures import spread_of
from tests.node.simulation.records import record_of


def test_the_target_counts_when_the_mean_of_five_rounds_reaches_it():
    assert measures.rounds_to(record_of([0.5, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9])) == 6
    assert measures.rounds_to(record_of([1.0, 1.0, 1.0, 1.0])) is None, "four rounds have no mean of five"
    assert measures.rounds_to(record_of([0.1, 1.0, 0.1, 1.0, 0.1, 1.0])) is None, "a peak does not count"
    assert measures.rounds_to(record_of([0.9] * 5)) == 5


def test_rounds_without_an_evaluation_are_passed_over():
    assert measures.rounds_to(record_of([None, 0.9] * 5)) == 10
    assert measures.end_accuracy(record_of([None, 0.4, None, 0.6])) == pytest.approx(0.5)


def test_the_end_is_the_mean_of_the_last_twenty_rounds():
    record = record_of([0.0] * 10 + [0.8, 0.9] * 10)
    assert measures.end_accuracy(record) == pytest.approx(0.85)
    assert measures.end_deviation(record) == pytest.approx(0.0513, abs=1e-4)


def test_steadiness():
    record = record_of([0.2, 0.6, 0.3, 0.5])
    assert measures.mean_change(record) == pytest.approx(0.3)
    assert measures.largest_drop(record) == pytest.approx(0.3)
    assert measures.largest_drop(record_of([0.1, 0.2, 0.3])) == 0
    assert measures.mean_change(record_of([0.1])) == measures.end_deviation(record_of([0.1])) == 0


def test_out_of_distribution_takes_the_probes_of_the_last_rounds():
    assert measures.ood_end(record_of([0.5] * 40, ood={10: 0.1, 30: 0.6, 40: 0.8})) == pytest.approx(0.7)
    assert measures.ood_end(record_of([0.5] * 40, ood={10: 0.1})) == pytest.approx(0.1)
    assert measures.ood_end(record_of([0.5] * 40)) is None


def test_a_run_that_diverged_has_no_end_and_is_not_called_steady():
    record = record_of([0.2, 0.3], MANY.changed(federation={"rounds": 10}))
    assert measures.diverged(record)
    assert measures.end_accuracy(record) is None
    assert measures.end_deviation(record) is measures.mean_change(record) is measures.largest_drop(record) is None


def test_the_deviation_is_that_of_a_sample():
    assert spread_of([1.0, 3.0]) == {"mean": 2.0, "deviation": pytest.approx(2**0.5), "seeds": 2}
    assert spread_of([1.0]) == {"mean": 1.0, "deviation": None, "seeds": 1}
    assert spread_of([1.0, None]) is None and spread_of([]) is None
