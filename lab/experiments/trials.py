"""Trials that choose each method's settings, as many for each, and the comparisons of methods at their best.

``sweep`` judges them by rounds to the target on the test samples, ``comparison_trials`` on validation samples
(docs/results/PROTOCOL.md).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep, ServerSettings
from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RunRecord
from fedgrove_lab.experiments import curves
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.measures import TARGET, WINDOW, curve, diverged, end_accuracy, rounds_to
from fedgrove_lab.experiments.paired import Runs, accuracies, first, table
from fedgrove_lab.experiments.regimes import CIFAR10, NAMES, PAPER_LIKE, TUNED_ROUNDS, plan_of
from fedgrove_lab.experiments.report import SUMMARY
from fedgrove_lab.tables import ABSENT, markdown

EVERY = 5
LAST = 4  # evaluations, of the last 20 rounds


@dataclass(frozen=True)
class Variant:
    """A value of a strategy's own option, and the server's step."""

    options: Mapping[str, float] = field(default_factory=dict)
    server: ServerSettings | None = None


@dataclass(frozen=True)
class Method:
    """One row of the comparison: a strategy, and two variants of it by what sets them apart, or one without a name."""

    strategy: str
    variants: Mapping[str, Variant] = field(default_factory=lambda: {"": Variant()})


def _tuned(strategy: str, option: str, values: tuple[float, float], **fixed: float) -> Method:
    return Method(strategy, {f"{option}{value:g}": Variant({**fixed, option: value}) for value in values})


def _stepping(servers: Mapping[str, ServerSettings], strategy: str = "fedavg", **options: float) -> Method:
    return Method(strategy, {name: Variant(options, server) for name, server in servers.items()})


_FEDACG = {f"momentum{value:g}": MomentumStep(momentum=value, lookahead=True) for value in (0.5, 0.85)}
_FEDADAM = {f"rate{value:g}": AdamStep(rate=value) for value in (0.003, 0.01)}
_FEDAVGM = {f"momentum{value:g}": MomentumStep(momentum=value) for value in (0.5, 0.9)}

METHODS = {
    "fedacg": _stepping(_FEDACG, "fedprox", mu=0.001),
    "fedadam": _stepping(_FEDADAM),
    "fedaom": _tuned("fedaom", "shared_batch", (10, 30)),
    "fedaom_eq7": _tuned("fedaom", "shared_batch", (10, 30), refresh=1),
    "fedaomsam": _tuned("fedaomsam", "rho", (0.05, 0.1)),
    "fedavg": Method("fedavg"),
    "fedavgm": _stepping(_FEDAVGM),
    "fedcurv": _tuned("fedcurv", "weight", (1, 100)),
    "feddyn": _tuned("feddyn", "alpha", (0.01, 0.1)),
    "fedlc": _tuned("fedlc", "tau", (0.5, 1)),
    "fedntd": _tuned("fedntd", "beta", (0.3, 1)),
    "fedprox": _tuned("fedprox", "mu", (0.01, 0.1)),
    "fedsam": _tuned("fedsam", "rho", (0.05, 0.1)),
    "moon": _tuned("moon", "mu", (0.1, 1)),
    "scaffold": Method("scaffold"),
    "share": Method("share"),
}


@dataclass(frozen=True)
class Judgement:
    """What is said of a trial: its rank, largest for the best and None where it diverged; for machines; cells."""

    rank: tuple[float, ...] | None
    measured: Any
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Trials:
    """The trials of methods on one data set.

    Attributes
    ----------
    name, title : str
        Of the experiment.
    training : TrainingSettings
        What all have in common.
    rates : tuple of float
        Learning rates that a method with an option of its own tries with each of its two values.
    more_rates : tuple of float
        Those of a method without one: twice as many.
    judge : callable
        The records of a trial to a judgement.
    head : tuple of str
        Of a judgement's cells.
    momenta : tuple of float
        Each is tried with each rate; empty keeps that of the training settings.
    changes : mapping
        Of the plans, as ``Scenario.changed`` takes them.
    """

    name: str
    title: str
    dataset: str
    training: TrainingSettings
    rates: tuple[float, ...]
    more_rates: tuple[float, ...]
    judge: Callable[[Sequence[RunRecord]], Judgement]
    head: tuple[str, ...]
    legend: str
    momenta: tuple[float, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = tuple(METHODS)

    def of_method(self, name: str) -> dict[str, Scenario]:
        """A method's trials: as many for every method; the label says what is tried, such as moon-lr0.1-mu1."""
        method, found = METHODS[name], {}
        for rate in self.rates if len(method.variants) == 2 else self.more_rates:
            for momentum in self.momenta or (self.training.momentum,):
                training = replace(self.training, learning_rate=rate, momentum=momentum)
                label = f"{name}-lr{rate:g}" + (f"-momentum{momentum:g}" if self.momenta else "")
                for tried, variant in method.variants.items():
                    found[f"{label}-{tried}" if tried else label] = plan_of(
                        method.strategy,
                        dataset=self.dataset,
                        options=variant.options,
                        server=variant.server,
                        training=training,
                        rounds=TUNED_ROUNDS,
                    ).changed(**self.changes)
        return found

    def arms(self, results: Path) -> dict[str, Scenario]:
        """All trials."""
        return {label: plan for name in self.methods for label, plan in self.of_method(name).items()}

    def best_plans(self, results: Path) -> dict[str, Scenario]:
        """Each method's plan with the settings that its trials chose, tested on the test samples.

        Raises
        ------
        InvalidInput
            There are no trials, or what is stored is none.
        """
        path, tried = results / self.name / SUMMARY, self.arms(results)
        try:
            best: Mapping[str, Any] = json.loads(path.read_bytes())["results"]["best"]
            return {name: tried[label].changed(cast={"validation": 0.0}) for name, label in best.items()}
        except OSError:
            raise InvalidInput(f"there are no trials in {path}: run `fedgrove experiment {self.name}` first") from None
        except (ValueError, KeyError, TypeError, AttributeError, InvalidContent, InvalidInput):
            raise InvalidInput(f"{path} has no best settings: run `{self.name}` again") from None

    def report(self, findings: Findings) -> Report:
        """All trials, and each method's best."""
        best, rows, trials = {}, [], {}
        for name in self.methods:
            judged = {
                label: self.judge(group) for label, group in findings.records.items() if label.partition("-")[0] == name
            }
            ranks = {label: each.rank for label, each in judged.items() if each.rank is not None}
            if ranks:
                best[name] = max(ranks, key=lambda label: ranks[label])
            for label, each in judged.items():
                text = label.removeprefix(f"{name}-")
                rows.append([NAMES[name], f"**{text}**" if label == best.get(name) else text, *each.cells])
                trials[label] = each.measured
        text = markdown(["method", "trial", *self.head], rows) + "\n" + self.legend
        return Report({"best": best, "trials": trials}, text)

    @property
    def experiment(self) -> Experiment:
        """To be registered."""
        return Experiment(
            name=self.name,
            title=self.title,
            paper="It does not say how its settings were chosen, and the settings (tables 2 and 3) are lost.",
            arms=self.arms,
            report=self.report,
            seeds=(100,),
        )


def by_rounds(group: Sequence[RunRecord]) -> Judgement:
    """Fewest rounds to the target (mean over the seeds), then the highest last mean of 5."""
    if any(map(diverged, group)):
        return Judgement(None, {"rounds_to_target": None, "last_mean": None}, (ABSENT, "diverged"))
    last_round = group[0].scenario.rounds
    rounds = fmean(rounds_to(record) or last_round + 1 for record in group)
    last = fmean(fmean(value for _, value in curve(record)[-WINDOW:]) for record in group)
    reached = rounds if rounds <= last_round else None
    cells = f"{reached:g}" if reached else ABSENT, f"{100 * last:.2f}"
    return Judgement((-rounds, last), {"rounds_to_target": reached, "last_mean": last}, cells)


def by_validation(group: Sequence[RunRecord]) -> Judgement:
    """The highest accuracy at the end."""
    end = end_accuracy(group[0], LAST)
    return Judgement(None, None, ("diverged",)) if end is None else Judgement((end,), end, (f"{100 * end:.2f}",))


_VALIDATED = {
    "judge": by_validation,
    "head": ("validation accuracy, %",),
    "legend": f"Bold: a method's best. Mean accuracy on the validation samples over the last {LAST * EVERY} rounds, "
    f"tested every {EVERY} rounds; seed 100, which the comparison does not use.\n",
    "changes": {"run": {"evaluate_every": EVERY}, "cast": {"train_samples": 10_000, "validation": 0.1}},
}
SWEEP = Trials(
    name="sweep",
    title="Learning rate, momentum and each method's own option, MNIST, Dirichlet 0.1",
    dataset="mnist",
    training=PAPER_LIKE,
    rates=(0.03, 0.1),
    more_rates=(0.01, 0.03, 0.05, 0.1),
    judge=by_rounds,
    head=(f"rounds to {TARGET:.0%}", f"mean accuracy of the last {WINDOW} rounds, %"),
    legend=f"Bold: a method's best, by fewest rounds to {TARGET:.0%} ({WINDOW}-round mean; {ABSENT}: not reached), "
    "then by the mean accuracy of the last rounds. In a whole sweep every method has the same number of trials. The "
    "seed is none of those that the comparison runs with; the test samples are the same, as none are set aside for "
    "validation.\n",
    momenta=(0.5, 0.9),
    methods=("fedavg", "fedprox", "fedcurv", "moon", "fedaom", "share"),
)
# Two epochs: with one, FedAom's literal equation 7 and its default are the same.
MNIST_TRIALS = Trials(
    name="comparison_trials",
    title="Four trials a method on validation samples, MNIST, Dirichlet 0.1",
    dataset="mnist",
    training=replace(PAPER_LIKE, epochs=2),
    rates=(0.03, 0.1),
    more_rates=(0.01, 0.03, 0.1, 0.3),
    **_VALIDATED,
)
CIFAR10_TRIALS = Trials(
    name="comparison_cifar10_trials",
    title="Four trials a method on validation samples, CIFAR-10, Dirichlet 0.1",
    dataset="cifar10",
    training=CIFAR10,
    rates=(0.01, 0.03),
    more_rates=(0.003, 0.01, 0.03, 0.1),
    **_VALIDATED,
)

# --- the methods at their best ----------------------------------------------------------------------------------------

CELLS = {
    "dirichlet0.1": ("Dirichlet 0.1", PartitionSettings("dirichlet", alpha=0.1)),
    "shards2": ("Two labels a client", PartitionSettings("shards", per_client=2)),
}


def _compared_arms(trials: Trials, results: Path) -> dict[str, Scenario]:
    """The methods that have trials, on each split; the label is such as shards2-moon."""
    return {
        f"{cell}-{method}": replace(plan, partition=split)
        for cell, (_, split) in CELLS.items()
        for method, plan in trials.best_plans(results).items()
    }


def _comparison_report(trials: Trials, findings: Findings) -> Report:
    """A table of each split with paired differences; *first* as the protocol defines it."""
    results, parts = {}, []
    for cell, (title, _) in CELLS.items():
        groups = {method: findings.records.get(f"{cell}-{method}", ()) for method in METHODS}
        runs: Runs = {m: {record.scenario.seed: record for record in group} for m, group in groups.items() if group}
        if runs:
            ends = accuracies(runs, LAST)
            results[cell] = {"accuracies": ends, "first": first(ends)}
            parts.append(f"### {title}\n{table(runs, LAST)}")
    legend = (
        f"Accuracy on the test samples: the mean over the last {LAST * EVERY} rounds, tested every {EVERY} "
        "rounds; ± is the standard deviation of a sample of seeds. *First* is only a method whose paired "
        "difference to each other method has a 95 % interval above zero. "
        f"[The trials](../{trials.name}/README.md) that chose each method's settings are all published.\n"
    )
    return Report(results, "\n".join([*parts, legend]))


def _comparison(name: str, data: str, trials: Trials) -> Experiment:
    return Experiment(
        name=name,
        title=f"All methods on {data}, 10,000 training samples, each with its best of four trials",
        paper="One run a cell, settings unknown; FedAom is first everywhere.",
        arms=partial(_compared_arms, trials),
        report=partial(_comparison_report, trials),
        seeds=(0, 1, 2, 3, 4),
    )


TUNED = replace(
    curves.ROUNDS_TO_90,
    name="rounds_to_90_tuned",
    title="Rounds to 90 % on MNIST, Dirichlet 0.1, each method tuned",
    paper="Nothing on tuned settings. At its own FedAom needs 0.625 × the rounds of FedAvg.",
    arms=SWEEP.best_plans,
    usual=(),
    unequal=curves.MORE_TRIALS
    + """\
- Paired seed by seed, FedAom's accuracy at the end is 7.0 points above FedAvg's, with a 95 % interval from -4.9 to
  19.0: by [the protocol](../PROTOCOL.md) of the next comparison no method is first
  (`python -m fedgrove_lab.experiments.paired docs/results/rounds_to_90_tuned`).
- The method `share`, the only rival that also trains on the 50 shared labels, is not in the table.
- Three seeds do not show the whole spread: on another seed, in a run that is not stored, FedAom needed 19 rounds, and
  FedAvg did not arrive.
""",
)
EXPERIMENTS = (
    *(SWEEP.experiment, TUNED, MNIST_TRIALS.experiment, CIFAR10_TRIALS.experiment),
    _comparison("comparison", "MNIST", MNIST_TRIALS),
    _comparison("comparison_cifar10", "CIFAR-10", CIFAR10_TRIALS),
)
