"""What a worker does, how a round is cut into tasks, and what is said when a worker is lost."""

import os
import signal
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.simulation.executors import InlineExecutor, open_executor, reach
from fedgrove.node.simulation.network_work import out_of_distribution_accuracy
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.tasks import TASK_BYTES, chunks
from fedgrove.node.simulation.work import EvaluationTask, ModelReference, SliceScore
from fedgrove.node.simulation.workers import SimulationFailed, windowed
from tests.node.simulation.conftest import QUICK, simulate, small_plan

# --- accuracy out of distribution -----------------------------------------------------------------------------------


def test_accuracy_out_of_distribution_by_hand():
    # Shares (n_c + 1) / (n + C) of 6, 2 and 0 samples: 7/11, 3/11, 1/11; weights 11/7, 11/3, 11.
    expected = (11 / 7 * 0.9 + 11 / 3 * 0.5 + 11 * 0.1) / (11 / 7 + 11 / 3 + 11)
    assert out_of_distribution_accuracy(np.array([6, 2, 0]), np.array([0.9, 0.5, 0.1])) == pytest.approx(expected)


def test_accuracy_out_of_distribution_is_plain_accuracy_where_classes_are_even():
    assert out_of_distribution_accuracy(np.array([5, 5]), np.array([0.25, 0.75])) == pytest.approx(0.5)


def test_what_a_client_lacks_weighs_most():
    counts = np.array([99, 0])
    assert out_of_distribution_accuracy(counts, np.array([1.0, 0.0])) == pytest.approx(1 / 101)
    assert out_of_distribution_accuracy(counts, np.array([0.0, 1.0])) == pytest.approx(100 / 101)


def test_a_class_without_test_samples_is_left_out():
    value = out_of_distribution_accuracy(np.array([3, 3, 0]), np.array([0.2, 0.6, np.nan]))
    assert value == pytest.approx(0.4)


# --- tasks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("seed", range(5))
def test_every_client_is_in_one_task_and_the_largest_come_first(workers, seed):
    rng = np.random.default_rng(seed)
    sizes = {client: int(size) for client, size in enumerate(rng.zipf(1.5, 300).clip(max=5000), 1)}
    groups = chunks(sizes, workers, model_bytes=1000)
    assert sorted(client for group in groups for client in group) == sorted(sizes)
    in_order = [sizes[client] for group in groups for client in group]
    assert in_order == sorted(in_order, reverse=True)
    assert len(groups) <= 2 * 16 * workers + 1


def test_many_small_clients_make_few_tasks_and_large_ones_one_each():
    assert len(chunks(dict.fromkeys(range(1, 1001), 2), 2, 1000)) <= 33
    assert chunks(dict.fromkeys(range(1, 11), 600), 2, 1000) == [(client,) for client in range(1, 11)]


def test_a_task_brings_no_more_models_than_memory_allows():
    groups = chunks(dict.fromkeys(range(1, 1001), 2), 1, model_bytes=TASK_BYTES // 4)
    assert max(map(len, groups)) == 4


# --- the window ------------------------------------------------------------------------------------------------------


class Counting(Executor):
    """Answers each task with a score of its number, and counts them."""

    submitted = 0

    def submit(self, fn, /, *args, **kwargs):
        self.submitted += 1
        return InlineExecutor().submit(lambda task: SliceScore(task.number, (1,), (1,), 0.5), *args)


def test_no_more_tasks_are_made_than_the_window_holds():
    executor, made = Counting(), []

    def tasks():
        for number in range(50):
            made.append(number)
            yield EvaluationTask(None, ModelReference("", {}), 1, number, None)

    for done, _ in enumerate(windowed(executor, tasks(), 4)):
        assert len(made) <= done + 1 + 4
    assert len(made) == 50 == executor.submitted


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_training_that_diverges_names_client_and_round(digits):
    wild = small_plan(
        training=type(QUICK)(epochs=3, batch_size=4, learning_rate=90.0), strategy="fedprox", options={"mu": 10.0}
    )
    with pytest.raises(DivergedTraining, match=r"client \d+ .*in round 1"):
        list(Simulation(wild, digits, InlineExecutor(), 1).run())


def test_a_parameter_over_the_bound_names_client_round_and_tensor(digits):
    with pytest.raises(DivergedTraining, match=r"client \d+ in round 1: tensor .* over the bound 0.01"):
        list(Simulation(small_plan(bound=0.01), digits, InlineExecutor(), 1).run())


def test_a_worker_that_is_killed_ends_the_run_with_a_sentence_and_the_run_goes_on(digits, tmp_path):
    plan = small_plan(rounds=15)
    with open_executor("processes", 2) as (executor, workers):
        results = Simulation(plan, digits, executor, workers, tmp_path / "killed").run()
        next(results)
        os.kill(executor.submit(os.getpid).result(), signal.SIGKILL)
        with pytest.raises(
            SimulationFailed, match=r"a worker was lost in round \d+ while (training client|evaluating)"
        ):
            list(results)
    resumed = simulate(plan, digits, directory=tmp_path / "killed", resume=True)
    assert resumed.record == simulate(plan, digits).record


class Broken(Executor):
    """Lost its workers while it had nothing to do: it says so when it is given something."""

    def submit(self, *_: object, **__: object) -> Future:
        raise BrokenProcessPool("a child process terminated abruptly")


def test_workers_that_are_lost_between_two_tasks_end_the_run_with_a_sentence():
    task = EvaluationTask(None, ModelReference("", {}), 3, 0, None)
    with pytest.raises(SimulationFailed, match="a worker was lost in round 3 while evaluating: a child process"):
        list(windowed(Broken(), [task], 4))


def test_the_executor_decides_how_data_reach_it():
    with open_executor("inline") as (executor, workers):
        assert reach(executor) == "memory" and workers == 1
    with open_executor("processes", 1) as (executor, _):
        assert reach(executor) == "disk"
    assert reach(Counting()) == "message"


def test_an_executor_that_cannot_be_had_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr("fedgrove.node.simulation.executors.CLUSTER_SECONDS", 1)
    for name, word in (("ray", "must be inline"), ("dask=tcp://127.0.0.1:1", "no dask scheduler answers")):
        with pytest.raises(InvalidInput, match=word), open_executor(name):
            pass


def test_a_fault_of_an_inline_task_is_the_futures():
    future: Future = InlineExecutor().submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        future.result()
