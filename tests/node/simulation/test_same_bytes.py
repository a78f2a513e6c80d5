"""A run has the same bytes wherever it runs, on however many workers, and wherever it was stopped."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.server_steps import AdamStep
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.simulation import workers as workforce
from fedgrove.node.simulation.checkpoint import CHECKPOINT, RECORD
from fedgrove.node.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.simulation.clustered.similarity import CLUSTERS
from fedgrove.node.simulation.executors import InlineExecutor, open_executor
from fedgrove.node.simulation.kinds import simulation_of
from fedgrove.node.simulation.record import RunRecord
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.work import TrainingTask, perform
from tests.node.simulation.clustered import test_members_evaluation as evaluated_clusters
from tests.node.simulation.clustered.conftest import PROCFL, grouped_plan
from tests.node.simulation.clustered.test_run import ATTACKED
from tests.node.simulation.conftest import simulate, small_plan
from tests.node.simulation.test_mechanisms import MECHANISMS, private_plan
from tests.node.simulation.test_members_evaluation import EVALUATED
from tests.node.simulation.test_server_step import PLAN as FEDACG
from tests.node.simulation.test_together import PRIVATE, tiny_plan

# One that measures the shared set, one that keeps state at home, one that sends more than its weights, one that does
# the last two.
STRATEGIES_OF_EACH_KIND = ("fedaom", "moon", "fedcurv", "scaffold")
SCENARIOS = {
    **{strategy: small_plan(strategy=strategy, probe_every=2) for strategy in STRATEGIES},
    **{
        f"privacy {name}": private_plan(settings, rounds=3, strategy="moon" if name == "median" else "fedavg")
        for name, settings in MECHANISMS.items()
    },
    "server fedacg": FEDACG,
    "server adam": replace(FEDACG, server=AdamStep()),
    "together": tiny_plan(rounds=2),
    "together, private": tiny_plan(privacy=PRIVATE, rounds=2),
    "evaluated": EVALUATED,
    "clusters": ATTACKED,
    "clusters, evaluated": evaluated_clusters.ATTACKED,
}
STOPS = [(name, 1) for name in SCENARIOS] + [("clusters", 2), ("clusters", 5)]


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    """What a scenario gives in this process, undisturbed, and its directory; found when first asked for."""
    known = {}

    def of(name):
        if name not in known:
            directory = tmp_path_factory.mktemp("whole")
            known[name] = simulate(SCENARIOS[name], digits, directory=directory).record, directory
        return known[name]

    return of


@pytest.fixture(scope="module")
def processes():
    with open_executor("processes", 2) as pool:
        yield pool


@pytest.mark.parametrize("name", SCENARIOS)
def test_processes_give_the_same_bytes(name, processes, whole, digits):
    expected, _ = whole(name)
    assert simulate(SCENARIOS[name], digits, *processes).record.to_bytes() == expected.to_bytes()
    assert RunRecord.from_json(json.loads(expected.to_bytes())) == expected


@pytest.mark.parametrize(("name", "rounds"), STOPS)
def test_a_stopped_run_goes_on_to_the_same_bytes(name, rounds, whole, digits, tmp_path):
    simulate(SCENARIOS[name], digits, directory=tmp_path, rounds=rounds)
    _resumed(name, whole, digits, tmp_path)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if "evaluated" in name])
def test_a_run_killed_before_its_last_evaluation_goes_on_to_the_same_bytes(name, whole, digits, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        for kind in (Simulation, ClusteredSimulation):
            patched.setattr(kind, "_of_last_model", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            simulate(SCENARIOS[name], digits, directory=tmp_path)
    assert _resumed(name, whole, digits, tmp_path).last_model is not None


def _resumed(name, whole, digits, directory):
    record = simulate(SCENARIOS[name], digits, directory=directory, resume=True).record
    for file in {RECORD, CHECKPOINT, CLUSTERS} & {path.name for path in whole(name)[1].iterdir()}:
        assert (directory / file).read_bytes() == (whole(name)[1] / file).read_bytes()
    return record


@pytest.mark.parametrize("workers", [1, 3])
def test_it_does_not_matter_how_many_workers_there_are(workers, whole, digits):
    with open_executor("processes", workers) as (executor, count):
        assert count == workers
        for name in STRATEGIES_OF_EACH_KIND:
            assert simulate(SCENARIOS[name], digits, executor, workers).record == whole(name)[0]


def test_threads_give_the_same_bytes(whole, digits):
    with ThreadPoolExecutor(3) as executor:
        for name in ("fedaom", "clusters"):
            assert simulate(SCENARIOS[name], digits, executor, 3).record == whole(name)[0]


def test_a_dask_cluster_gives_the_same_bytes(whole, digits):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**options) as cluster,
        open_executor(f"dask={cluster.scheduler_address}") as (executor, workers),
    ):
        assert workers == 2
        for name in STRATEGIES_OF_EACH_KIND:
            assert simulate(SCENARIOS[name], digits, executor, workers).record == whole(name)[0]


def test_sizes_of_tasks_do_not_change_the_bytes(whole, digits, monkeypatch):
    for task_bytes, tasks_a_worker in ((1, 16), (1 << 40, 1)):
        monkeypatch.setattr("fedgrove.node.simulation.tasks.TASK_BYTES", task_bytes)
        monkeypatch.setattr("fedgrove.node.simulation.tasks.TASKS_A_WORKER", tasks_a_worker)
        assert simulate(SCENARIOS["fedavg"], digits).record == whole("fedavg")[0]


@pytest.mark.parametrize("plan", [small_plan(), grouped_plan(method=PROCFL)], ids=["one model", "clusters"])
def test_a_run_that_diverges_leaves_the_same_record_however_many_workers_there_are(plan, digits, monkeypatch):
    def diverging(task):
        if isinstance(task, TrainingTask) and task.round == 2:
            raise DivergedTraining("client 1 diverged in round 2")
        return perform(task)

    monkeypatch.setattr(workforce, "perform", diverging)
    records = []
    for workers in (1, 2):
        simulation = simulation_of(plan, digits, InlineExecutor(), workers)
        with pytest.raises(DivergedTraining):
            list(simulation.run())
        records.append(simulation.record)
    assert records[0] == records[1] and records[0].rounds[-1].accuracy is not None
