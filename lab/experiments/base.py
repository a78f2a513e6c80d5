"""What an experiment is: named plans, the seeds they run with, and a report of what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Laboratory(Protocol):
    """What a report may ask for in addition to the records."""

    def dataset(self, name: str) -> Dataset:
        """A data set by name."""
        ...

    def model(self, plan: Scenario) -> Tensors:
        """The global model after the plan's last round; simulated when it is not kept."""
        ...


@dataclass(frozen=True)
class Findings:
    """What there is to report.

    Attributes
    ----------
    records : mapping of str to sequence of Record
        By arm, in the order of the experiment's arms, ascending in the seed; arms without a record are left out. The
        records of an arm differ in their seeds only.
    plans : mapping of str to Scenario
        The chosen arms as they are asked for now, with the first seed.
    reported : mapping of str to value, optional
        Results of the last report, where a new one may take them but train nothing; None where it may train.
    """

    records: Mapping[str, Sequence[RunRecord]]
    plans: Mapping[str, Scenario]
    laboratory: Laboratory
    reported: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Report:
    """What an experiment found.

    Attributes
    ----------
    results : dict
        For machines: goes into summary.json.
    text : str
        Markdown with the tables.
    figures : mapping of str to callable
        File name to what draws it.
    """

    results: dict[str, Any]
    text: str
    figures: Mapping[str, Callable[["Figure"], None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One row of the paper's evaluation.

    Attributes
    ----------
    paper : str
        What the paper says: a sentence of Markdown.
    arms : callable
        All arms: label to plan, with seed 0, given the folder in which all experiments keep their results.
    report : callable
        Findings to report.
    usual : tuple of str
        Strategies that run unless others are asked for; empty is all.
    seeds : tuple of int
        Seeds that run unless others are asked for.
    simulates : bool
        Whether the plans are run; the partition's picture only deals data.
    keeps_models : bool
        Whether the report needs the models too.
    unequal : str
        In which ways the methods that it compares were not treated alike: Markdown for the page; empty if in none.
    """

    name: str
    title: str
    paper: str
    arms: Callable[[Path], Mapping[str, Scenario]]
    report: Callable[[Findings], Report]
    usual: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    simulates: bool = True
    keeps_models: bool = False
    unequal: str = ""


@dataclass(frozen=True)
class Overrides:
    """Values that replace those of every plan; 0 and "" leave a plan's own."""

    rounds: int = 0
    clients: int = 0
    sampled: float = 0.0
    epochs: int = 0
    dataset: str = ""
    train_samples: int = 0
    test_samples: int = 0
    probe_every: int = 0

    def apply(self, plan: Scenario) -> Scenario:
        """The plan with the values that are set."""
        cast = {name: getattr(self, name) for name in ("clients", "dataset", "train_samples", "test_samples")}
        federation = {"rounds": self.rounds, "sampling_rate": self.sampled}
        # Only an experiment that probes has something to report of it.
        run = {"probe_every": self.probe_every if plan.run.probe_every else 0}
        given = {"cast": cast, "federation": federation, "run": run, "training": {"epochs": self.epochs}}
        changes: dict[str, Any] = {
            part: {name: value for name, value in values.items() if value} for part, values in given.items()
        }
        if self.rounds and plan.attack is not None:  # it begins at the same share of the rounds
            start = max(1, round(plan.attack.start * self.rounds / plan.rounds))
            changes["attack"] = {"start": start}
        if self.clients:
            changes["partition"] = {"copies": 1}  # the plan's suit its own number of clients
        return plan.changed(**changes)


def choose(
    experiment: Experiment, arms: Mapping[str, Scenario], strategies: Sequence[str] = (), only: Sequence[str] = ()
) -> dict[str, Scenario]:
    """The arms of the named strategies whose label fits a pattern such as ``mnist-*``; InvalidInput if none does."""
    wanted = strategies or (() if only else experiment.usual)
    chosen = {
        label: plan
        for label, plan in arms.items()
        if (not wanted or plan.strategy.name in wanted)
        and (not only or any(fnmatchcase(label, pattern) for pattern in only))
    }
    unknown = set(strategies) - {plan.strategy.name for plan in arms.values()}
    if unknown or not chosen:
        asked = ", ".join([*sorted(unknown or strategies), *only])
        raise InvalidInput(f"{experiment.name} has no arm {asked}: it has {', '.join(arms)}")
    return chosen
