"""A finished run is used again where its plan is the same, and only there."""

import json

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.reading import MANY
from fedgrove_lab.experiments.store import RunStore, read_record
from tests.node.simulation.records import record_of

PLAN = MANY.changed(federation={"rounds": 2})


def test_a_run_is_found_by_its_plan(tmp_path):
    store, record = RunStore(tmp_path / "a"), record_of([0.1, 0.2], PLAN)
    assert store.find("arm", PLAN) is None
    store.put("arm", record)
    assert store.find("arm", PLAN) == record
    assert store.find("arm", PLAN.with_seed(1)) is None
    assert store.find("arm", MANY.changed(federation={"rounds": 3})) is None


def test_a_run_of_another_experiment_is_taken_over(tmp_path):
    record = record_of([0.1, 0.2], PLAN)
    RunStore(tmp_path / "a").put("fedavg", record)
    other = RunStore(tmp_path / "b")
    assert other.find("mnist-fedavg", PLAN) == record
    assert other.gathered(["mnist-fedavg"]) == {"mnist-fedavg": [record]}


def test_results_of_other_forms_beside_it_are_passed_over(tmp_path):
    record = record_of([0.1, 0.2], PLAN, seed=3)
    other = tmp_path / "first" / "runs" / "k-prime-seed3.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"trial": {"dataset": "celltype"}, "losses": [1.0]}')
    RunStore(tmp_path / "second").put("fedavg", record)
    assert RunStore(tmp_path / "third").find("fedavg", record.scenario) == record


def test_a_record_of_before_there_was_a_setting_is_not_used_again(tmp_path):
    """What the setting's default does now was not done then."""
    plan = PLAN.changed(method=SimulatedProCfl(seats=3))
    store = RunStore(tmp_path / "a")
    store.put("guarded", record_of([0.1, 0.2], plan))
    assert store.find("guarded", plan) and RunStore(tmp_path / "b").find("guarded", plan)
    for path in tmp_path.glob("*/runs/*.json"):
        table = json.loads(path.read_bytes())
        del table["scenario"]["procfl"]["least_pool"]
        path.write_text(json.dumps(table))
        assert read_record(path).scenario == plan  # it can be reported
    assert store.find("guarded", plan) is None and RunStore(tmp_path / "c").find("guarded", plan) is None


def test_equal_records_are_equal_files(tmp_path):
    for name in "ab":
        RunStore(tmp_path / name).put("arm", record_of([0.1, 0.2], PLAN))
    files = [tmp_path / name / "runs" / "arm-seed0.json" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_of_200_rounds_is_a_small_file(tmp_path):
    RunStore(tmp_path).put("arm", record_of([0.9123] * 200))
    assert (tmp_path / "runs" / "arm-seed0.json").stat().st_size < 40_000


def test_only_records_of_one_plan_are_reported_together(tmp_path):
    store = RunStore(tmp_path)
    for seed in (10, 2):
        store.put("arm", record_of([0.1, 0.2], PLAN, seed=seed))
    store.put("arm", record_of([0.1, 0.2, 0.3], seed=3))
    store.put("arm-b", record_of([0.1, 0.2], PLAN))
    found = store.gathered(["arm", "absent"])
    assert [record.scenario.seed for record in found.pop("arm")] == [2, 10]
    assert not found


def test_a_damaged_file_is_named(tmp_path):
    store = RunStore(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "arm-seed0.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"arm-seed0\.json cannot be used, remove it"):
        store.find("arm", PLAN)
