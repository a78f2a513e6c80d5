"""The arms of Geyer's experiment are what the budget affords, and the report reads off records what it says it does."""

from pathlib import Path

import pytest

from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.draws import last_round
from fedgrove.node.simulation.record import RoundResult, RunRecord
from fedgrove_lab.experiments import geyer
from fedgrove_lab.experiments.base import Findings
from tests.lab.experiments.test_reports import Bench

PLANS = geyer.arms(Path("results"))


def record_of(plan: Scenario, accuracies: list[float], epsilon: float = 7.9) -> RunRecord:
    scales = {"between_clients_variance": 3e-6, "update_scale": 1e-7}
    privacy = {"epsilon": epsilon, "median_norm": 2.0, "effective_multiplier": 1.0, **scales}
    rounds = [
        RoundResult(number, accuracy, 1.0, 1.0, (1, 2, 3), 900, None, privacy if plan.privacy else None)
        for number, accuracy in enumerate(accuracies, 1)
    ]
    return RunRecord(plan, tuple(rounds), "00" * 32)


def report_of(**records: list[RunRecord]):
    return geyer.report(Findings(records, {}, Bench()))


@pytest.mark.parametrize("label", geyer.ROWS)
def test_each_row_has_the_papers_rounds_and_they_are_all_that_eight_affords(label):
    plan, row = PLANS[label], geyer.ROWS[label]
    assert (plan.clients, plan.federation.sampling_rate, plan.rounds) == (row.clients, row.rate, row.rounds)
    assert plan.privacy.epsilon == 8 and plan.privacy.participation == "secret"
    assert last_round(plan.changed(federation={"rounds": 2 * row.rounds})) == row.rounds


def test_each_client_has_two_shards_of_250_however_many_there_are():
    for plan in PLANS.values():
        owners = plan.partition.copies
        assert plan.cast.train_samples * owners == 500 * plan.clients and plan.partition.per_client == 2


def test_the_table_has_the_last_rounds_accuracy_beside_the_papers():
    k100 = [record_of(PLANS["K100"].with_seed(seed), [*[0.3] * 10, last]) for seed, last in ((0, 0.7), (1, 0.74))]
    k1000 = [record_of(PLANS["K1000"], [0.5] * 53 + [0.91])]
    found = report_of(K100=k100, K1000=k1000, **{"K100-open": [record_of(PLANS["K100-open"], [0.9] * 30)]})
    arms = found.results["arms"]
    assert arms["K100"]["accuracy"]["mean"] == pytest.approx(0.72) and arms["K100"]["paper"] == 0.78
    assert arms["K1000"]["uploads"]["mean"] == 54 * 3 and arms["K1000"]["epsilon"] == 7.9
    assert arms["K100-open"]["epsilon"] is arms["K100-open"]["ledger_epsilon"] is None
    # Clients 1, 2 and 3 took part in all rounds, which readers of a ledger would know.
    assert arms["K100"]["ledger_epsilon"] == epsilon_of([GaussianRelease(1.0, count=11)], 1e-3)
    assert found.results["grows_with_clients"] is True
    assert "| K100 | 2 | 11 | 0.720 ± 0.028 | 0.78 |" in found.text


def test_a_row_that_was_cut_short_says_so_and_is_not_compared():
    short = PLANS["K1000"].changed(federation={"rounds": 5})
    found = report_of(K100=[record_of(PLANS["K100"], [0.7] * 11)], K1000=[record_of(short, [0.9] * 5)])
    assert "| 5 of 54 |" in found.text and found.results["grows_with_clients"] is None
