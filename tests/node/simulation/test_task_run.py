"""Simulations of a task of one's own: the bytes of a federation, on every executor; faults in one sentence."""

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import tomli_w

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import capture
from fedgrove.chain.records import Closed
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.privacy.settings import ClientLevelSettings, SignDsSettings
from fedgrove.node.scenario.reading import MANY_CLIENTS, read_scenario, scenario
from fedgrove.node.simulation.executors import InlineExecutor, open_executor
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import opened_task
from fedgrove.node.status.report import build_report
from tests.node.simulation.conftest import simulate as simulated
from tests.node.simulation.own_task import FAULTY_LINE, TERMS, table, write_task

SHARED = TERMS.replace("[task]\n", '[task]\nshared = "shared.csv"\n')
PORTABLE = TERMS.replace("[training]\n", "[training]\nportable = true\n")
WHOLE_NORM = TERMS.replace("running_*", "*")


@pytest.fixture
def source(tmp_path):
    """One source for all clients: 120 rows, a sixth of them held out."""
    path = tmp_path / "points.csv"
    path.write_text(table(120, 1))
    return path


@pytest.fixture
def plan(tmp_path, source):
    """A plan on the source, with changes in the form of its file."""

    def of(terms=TERMS, **tables):
        folder = tmp_path / "points"
        if not folder.exists():
            write_task(folder, terms)
        given = {
            "scenario": {"clients": 4, "data": str(source)},
            "federation": {"rounds": 2, "sampling_rate": 1.0, "seed": 5},
            "task": {"folder": str(folder)},
        }
        return read_scenario(
            changes={name: given.get(name, {}) | tables.get(name, {}) for name in given.keys() | tables.keys()},
            preset=MANY_CLIENTS,
        )

    return of


def simulate(plan, *where, **options) -> Simulation:
    with opened_task(plan) as task:
        return simulated(plan, task, *where, **options)


@pytest.mark.parametrize(
    ("strategy", "terms"),
    [("fedavg", WHOLE_NORM), ("moon", PORTABLE), ("fedaom", SHARED)],
    ids=["personal layers", "moon", "fedaom"],
)
def test_a_simulation_of_a_task_has_the_bytes_of_a_federation(strategy, terms, plan, source, tmp_path):
    simulated = plan(terms, strategy={"name": strategy})
    store = DiskStore(tmp_path / "store")
    with ExitStack() as stack:
        task = {"task": str(tmp_path / "points"), "data": str(source)}
        told = scenario(clients=4, rounds=2, strategy=strategy, seed=5, **task)
        network = stack.enter_context(embedded())
        demo = Demo(told, TaskSubject(told, stack), network, store)
        demo.run()
        history = capture(network, demo.deployment)
    report = build_report(history, store, demo.seconds)
    (tmp_path / "federation.toml").write_text(tomli_w.dumps(report["config"]))
    place = {"folder": str(tmp_path / "points")}
    changes = {"scenario": {"clients": 4, "data": str(source)}, "task": place}
    stated = read_scenario(tmp_path / "federation.toml", changes)
    assert stated.changed(task={"bundle": ""}).digest() == simulated.digest()
    run = simulate(stated)
    closed = [record for record in history.records() if isinstance(record, Closed)]
    assert store.fetch(closed[-1].model_digest, 1 << 26) == dump(run.tensors)
    for entry, result in zip(report["rounds"], run.record.rounds, strict=True):
        assert entry["accuracy"] == result.accuracy and entry["loss"] == pytest.approx(result.loss, rel=1e-12)


def test_portable_training_is_pinned_in_the_sandbox_whatever_the_environment_is(plan, monkeypatch):
    monkeypatch.setenv("MKL_ENABLE_INSTRUCTIONS", "SSE4_2")
    first = simulate(plan(PORTABLE)).record.model_digest
    monkeypatch.delenv("MKL_ENABLE_INSTRUCTIONS")
    assert simulate(plan(PORTABLE)).record.model_digest == first


def test_processes_give_the_same_bytes(plan):
    wanted = plan(SHARED, strategy={"name": "fedaom", "options": {"q": 2}})
    expected = simulate(wanted).record.to_bytes()
    with open_executor("processes", 2) as (executor, count):
        assert simulate(wanted, executor, count).record.to_bytes() == expected


def test_a_folder_with_a_source_a_client_is_theirs_in_order_of_the_names(plan, tmp_path):
    (tmp_path / "sites").mkdir()
    for number, name in enumerate("dbca"):
        (tmp_path / "sites" / name).write_text(table(12 * (number + 1), number))
    with opened_task(plan(scenario={"data": str(tmp_path / "sites")})) as task:
        assert [each.inside for each in task.clients] == ["a", "b", "c", "d"]
        assert [each.description.samples for each in task.clients] == [40, 20, 30, 10]
    run = simulate(plan(scenario={"data": str(tmp_path / "sites")}))
    last = run.record.rounds[-1]
    assert last.samples == 100 and (last.accuracy * 20) % 1 == pytest.approx(0, abs=1e-9)
    (tmp_path / "sites" / "test.csv").write_text(table(42, 8))
    with opened_task(plan(scenario={"data": str(tmp_path / "sites")})) as task:
        assert [each.inside for each in task.clients] == ["a", "b", "c", "d"]
        assert [(each.inside, each.description.held_out) for each in task.held_out] == [("test.csv", 7)]
    with pytest.raises(TaskFailed, match=r"raised IsADirectoryError"):  # three clients share the folder as one source
        simulate(plan(scenario={"data": str(tmp_path / "sites"), "clients": 3}))


def test_a_task_without_right_answers_is_told_by_its_loss(plan):
    run = simulate(plan(task={"options": {"floats": True}}))
    first, last = run.record.rounds
    assert first.accuracy is None and last.accuracy is None and 0 < last.loss < first.loss


def test_without_held_out_samples_nothing_is_evaluated(plan):
    last = simulate(plan(task={"options": {"fault": "nothing held out"}})).record.rounds[-1]
    assert last.accuracy is None and last.loss is None and last.train_loss > 0


@pytest.mark.parametrize(
    "settings",
    [
        ClientLevelSettings(epsilon=8.0, delta=1e-3, noise_multipliers=(0.5,), clipping="median"),
        SignDsSettings(),
    ],
    ids=["client", "signds"],
)
def test_privacy_mechanisms_see_the_tensors_of_a_task(settings, plan):
    run = simulate(replace(plan(), privacy=settings))
    assert all(result.privacy["epsilon"] > 0 for result in run.record.rounds)
    assert not any("running" in name for name in run.tensors)
    assert all(np.isfinite(value).all() for value in run.tensors.values())


def test_a_run_goes_on_with_what_clients_keep_and_refuses_other_data(plan, source, tmp_path):
    whole = simulate(plan(WHOLE_NORM, federation={"rounds": 3})).record.to_bytes()
    wanted = plan(federation={"rounds": 3})
    with opened_task(wanted) as task:
        stopped = Simulation(wanted, task, InlineExecutor(), 1, tmp_path / "run").run()
        assert [next(stopped).round for _ in range(2)] == [1, 2]
        stopped.close()
        again = Simulation(wanted, task, InlineExecutor(), 1, tmp_path / "run", resume=True)
        assert [result.round for result in again.run()] == [2, 3] and again.record.to_bytes() == whole
    source.write_text(table(120, 2))
    with pytest.raises(InvalidInput, match="holds a run on other data"):
        simulate(wanted, directory=tmp_path / "run", resume=True)


# --- what cannot be run --------------------------------------------------------------------------------------------


def test_a_task_that_raises_is_named_with_client_round_file_and_line(plan):
    sentence = rf"client [12] in round 1: the task raised RuntimeError: no loss today \(task\.py, line {FAULTY_LINE}\)"
    with pytest.raises(TaskFailed, match=sentence):
        simulate(plan(task={"options": {"fault": "raises"}}))


def test_a_task_that_diverges_ends_the_run_and_under_privacy_counts_as_no_update(plan):
    wanted = plan(task={"options": {"fault": "nan", "floats": True}})
    with pytest.raises(DivergedTraining, match=r"client [12] diverged in round 1"):
        simulate(wanted)
    private = ClientLevelSettings(epsilon=8.0, delta=1e-3, noise_multipliers=(0.5,), clip=1.0)
    last = simulate(replace(wanted, privacy=private)).record.rounds[-1]
    assert last.train_loss is None and last.loss == pytest.approx(1e300)


@pytest.mark.parametrize(
    ("tables", "fault", "sentence"),
    [
        ({"scenario": {"clients": 101}}, InvalidConfig, "there are 100 samples for 101 clients: each needs"),
        ({"scenario": {"data": "gone.csv"}}, InvalidConfig, "scenario.data: there is no gone.csv"),
        ({"scenario": {"data": ""}}, InvalidConfig, "scenario.data is missing: give --data"),
        ({"task": {"folder": ""}}, InvalidConfig, "task.folder is missing: give --task"),
        ({"task": {"bundle": "b" + "a" * 58}}, InvalidConfig, "task.bundle is baa+, and .* packs to bafy"),
        ({"task": {"options": {"depth": 3}}}, TaskFailed, "task.options do not fit Points"),
        ({"task": {"keep": [""]}}, InvalidConfig, "task.keep must be"),
        ({"strategy": {"name": "moon", "options": {"power": 3}}}, TaskFailed, "unknown key strategy.options.power"),
    ],
)
def test_what_does_not_suit_is_said_in_a_sentence(tables, fault, sentence, plan):
    with pytest.raises(fault, match=sentence):
        simulate(plan(**tables))


def test_a_cluster_of_machines_is_refused(plan, monkeypatch):
    monkeypatch.setattr("fedgrove.node.simulation.workers.reach", lambda executor: "message")
    with pytest.raises(InvalidConfig, match="simulated on this machine only"):
        simulate(plan())


def test_a_data_set_is_not_taken_for_a_task(plan, digits):
    with pytest.raises(InvalidConfig, match="simulated on an opened task"):
        Simulation(plan(), digits, InlineExecutor(), 1)
