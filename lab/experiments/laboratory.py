"""Runs an experiment's plans, each once, and goes on where an earlier call was stopped."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.checkpoint import begin_with, rounds_done
from fedgrove.node.simulation.kinds import simulation_of
from fedgrove.node.simulation.loop import SimulationRun
from fedgrove.node.simulation.record import RunRecord
from fedgrove.node.simulation.session import Watcher
from fedgrove_lab.experiments.base import Experiment, Findings, Laboratory, Overrides, choose
from fedgrove_lab.experiments.report import reported_results
from fedgrove_lab.experiments.store import RunStore

OpenExecutor = Callable[[], AbstractContextManager[tuple[Executor, int]]]


class Workshop:
    """Simulates plans on one executor; data sets, and rounds that runs have in common, are made once.

    Parameters
    ----------
    work : Path
        Where checkpoints stand, a folder a plan.
    data_dir : Path or None
        As ``load_dataset`` takes it.
    executor : callable
        Opens the executor when the first run needs it.
    """

    def __init__(self, work: Path, data_dir: Path | None, executor: OpenExecutor, watcher: Watcher) -> None:
        self._work = work
        self._data_dir = data_dir
        self._open = executor
        self._watcher = watcher
        self._stack = ExitStack()
        self._executor: tuple[Executor, int] | None = None
        self._datasets: dict[str, Dataset] = {}
        self._beginnings: set[Path] = set()

    def __enter__(self) -> "Workshop":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, fault, trace)

    def dataset(self, name: str) -> Dataset:
        """A data set, loaded at most once."""
        if name not in self._datasets:
            self._datasets[name] = load_dataset(name, self._data_dir)
        return self._datasets[name]

    def run(self, label: str, plan: Scenario) -> RunRecord:
        """Simulate a plan to its end, from its last checkpoint if there is one.

        The record of a run whose training diverged ends with the round before: it would diverge there again.
        """
        self._watcher.begin(f"{label}, seed {plan.seed}", plan.rounds)
        self._begin(plan)
        simulation = self._simulation(plan)
        with suppress(DivergedTraining):
            self._advance(simulation)
        return simulation.record

    def model(self, plan: Scenario) -> Tensors:
        """The global model after the plan's last round."""
        simulation = self._simulation(plan)
        self._watcher.begin(f"model, seed {plan.seed}", plan.rounds)
        self._advance(simulation)
        return dict(simulation.tensors)

    def forget(self, plan: Scenario) -> None:
        """Remove the plan's checkpoint."""
        shutil.rmtree(self._directory(plan), ignore_errors=True)

    def forget_beginnings(self) -> None:
        """Remove the rounds that several runs began with."""
        for directory in self._beginnings:
            shutil.rmtree(directory, ignore_errors=True)
        self._beginnings.clear()

    def _begin(self, plan: Scenario) -> None:
        """Take the rounds before an attack from a run that others began with too."""
        peaceful = before_attack(plan)
        if peaceful is None or plan.attack is None or rounds_done(self._directory(plan)):
            return
        last = plan.attack.start - 1
        directory = self._work / f"{peaceful.digest()[:20]}-{last}"
        self._beginnings.add(directory)
        if rounds_done(directory) < last:
            try:
                self._advance(self._simulation(peaceful, directory), last)
            except DivergedTraining:
                return
        begin_with(directory, self._directory(plan), plan)

    def _simulation(self, plan: Scenario, directory: Path | None = None) -> SimulationRun:
        dataset = self.dataset(plan.cast.dataset)
        if self._executor is None:
            self._executor = self._stack.enter_context(self._open())
        return simulation_of(plan, dataset, *self._executor, directory or self._directory(plan), resume=True)

    def _advance(self, simulation: SimulationRun, last: int = 0) -> None:
        """Run to the end, or to the ``last`` round."""
        with closing(simulation.run()) as results:
            for result in results:
                self._watcher.advance(result)
                if result.round == last:
                    return

    def _directory(self, plan: Scenario) -> Path:
        return self._work / plan.digest()[:20]


def before_attack(plan: Scenario) -> Scenario | None:
    """The plan without its attack, whose rounds before the attack are the same; None if there is no such round.

    Evaluations leave attackers out from the first round on, so rounds that are evaluated are not the same.
    """
    attack = plan.attack
    if attack is None or attack.start == 1 or min(plan.run.evaluate_every, plan.rounds) < attack.start:
        return None
    return replace(plan, attack=None)


@dataclass(frozen=True)
class ExperimentRequest:
    """What is asked for.

    Attributes
    ----------
    out : Path
        The experiment's folder; those of the others lie next to it.
    strategies, only : tuple of str
        As ``choose`` takes them.
    report_only : bool
        Run nothing, and train nothing for the report.
    """

    experiment: Experiment
    out: Path
    seeds: tuple[int, ...]
    strategies: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    overrides: Overrides = field(default_factory=Overrides)
    report_only: bool = False

    @cached_property
    def arms(self) -> Mapping[str, Scenario]:
        """All arms of the experiment."""
        return self.experiment.arms(self.out.parent)

    @cached_property
    def plans(self) -> dict[str, Scenario]:
        """The chosen arms with the first seed, as they will be run."""
        chosen = choose(self.experiment, self.arms, self.strategies, self.only)
        return {label: settle(plan, self.overrides).with_seed(self.seeds[0]) for label, plan in chosen.items()}

    def pending(self, store: RunStore) -> list[tuple[str, Scenario]]:
        """The runs, label and plan, that the store lacks: seed by seed, so that those there can be compared."""
        if self.report_only or not self.experiment.simulates:
            return []
        wanted = [(label, plan.with_seed(seed)) for seed in self.seeds for label, plan in self.plans.items()]
        return [(label, plan) for label, plan in wanted if store.find(label, plan) is None]

    def findings(self, store: RunStore, laboratory: Laboratory) -> Findings:
        """All that the store holds for the experiment's arms, whenever it was run."""
        records = store.gathered(self.arms) if self.experiment.simulates else {}
        reported = reported_results(self.out) if self.report_only else None
        return Findings(records, self.plans, laboratory, reported)


def settle(plan: Scenario, overrides: Overrides) -> Scenario:
    """The plan as it will be run: overrides applied, and every option of its strategy spelt out.

    A strategy's defaults may change; a record must say what it was made with.
    """
    plan = overrides.apply(plan)
    options = asdict(make_strategy(plan.strategy.name, plan.strategy.options))
    return plan.changed(strategy={"options": {name: float(value) for name, value in options.items()}})


def conduct(runs: Sequence[tuple[str, Scenario]], store: RunStore, workshop: Workshop, *, keep_models: bool) -> None:
    """Do the runs one after the other; each is in the store as soon as it has ended."""
    for label, plan in runs:
        store.put(label, workshop.run(label, plan))
        if not keep_models:
            workshop.forget(plan)
    workshop.forget_beginnings()
