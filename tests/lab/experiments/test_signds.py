"""SignDS and FedAvg differ in the uploads alone, and the report says how much smaller and how much worse."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RoundResult, RunRecord
from fedgrove_lab.experiments import signds
from fedgrove_lab.experiments.base import Findings
from tests.lab.experiments.test_reports import Bench

PLANS = signds.arms(Path("results"))


def record_of(plan: Scenario, accuracy: float) -> RunRecord:
    released = {"upload_bytes": 204, "dense_bytes": 408_000, "epsilon": 100.0, "delta": 0.0}
    privacy = released if plan.privacy else None
    rounds = [RoundResult(n, accuracy, 1.0, 1.0, (1,), 60, None, privacy) for n in range(1, plan.rounds + 1)]
    return RunRecord(plan, tuple(rounds), "00" * 32)


def test_the_arms_differ_in_the_uploads_alone():
    assert replace(PLANS["signds"], privacy=None) == PLANS["fedavg"]
    assert PLANS["signds"].privacy == signds.SETTINGS


def test_the_table_has_the_distance_and_the_bytes():
    records = {"fedavg": [record_of(PLANS["fedavg"], 0.95)], "signds": [record_of(PLANS["signds"], 0.92)]}
    found = signds.report(Findings(records, {}, Bench()))
    assert found.results["arms"]["signds"]["below_fedavg"] == pytest.approx(0.03)
    assert found.results["arms"]["signds"]["upload_fraction"] == pytest.approx(0.0005)
    assert "| FedAvg | 95.00 | 0.00 | dense | – |" in found.text
    assert "| SignDS | 92.00 | 3.00 | 204 (0.05% of dense) | 100 |" in found.text


def test_without_fedavg_there_is_no_distance():
    found = signds.report(Findings({"signds": [record_of(PLANS["signds"], 0.9)]}, {}, Bench()))
    assert found.results["arms"]["signds"]["below_fedavg"] is None and "| SignDS | 90.00 | – |" in found.text
