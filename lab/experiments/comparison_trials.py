"""Trials of the comparison: four a method, judged on validation samples (docs/results/PROTOCOL.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep, ServerSettings
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.measures import end_accuracy
from fedgrove_lab.experiments.regimes import CIFAR10, PAPER_LIKE, plan_of
from fedgrove_lab.experiments.tables import NAMES, markdown

ROUNDS = 40
EVERY = 5
LAST = 4  # evaluations, of the last 20 rounds


@dataclass(frozen=True)
class Variant:
    """A method with a value of its own option.

    Attributes
    ----------
    options : mapping of str to float
        Of the strategy.
    server : ServerSettings or None
    """

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
class Trials:
    """The trials of all methods on one data set.

    Attributes
    ----------
    name, title : str
        Of the experiment.
    dataset : str
    training : TrainingSettings
        What all have in common. Two epochs: with one, FedAom's literal equation 7 and its default are the same.
    rates : tuple of float
        Learning rates that a method with an option of its own tries with each of its two values.
    more_rates : tuple of float
        Those of a method without one: twice as many.
    """

    name: str
    title: str
    dataset: str
    training: TrainingSettings
    rates: tuple[float, float]
    more_rates: tuple[float, float, float, float]

    def of_method(self, method: Method) -> dict[str, tuple[float, Variant]]:
        """Learning rate and variant of each trial: as many for every method."""
        rates = self.rates if len(method.variants) == 2 else self.more_rates
        return {
            f"lr{rate:g}" + (f"-{name}" if name else ""): (rate, variant)
            for rate in rates
            for name, variant in method.variants.items()
        }

    def plan(self, strategy: str, rate: float, variant: Variant) -> Scenario:
        """A trial's plan: 10,000 training samples and a tenth of them for validation, 100 clients, 5 a round."""
        plan = plan_of(
            strategy,
            dataset=self.dataset,
            options=dict(variant.options),
            server=variant.server,
            training=replace(self.training, learning_rate=rate),
            rounds=ROUNDS,
        )
        return plan.changed(run={"evaluate_every": EVERY}, cast={"train_samples": 10_000, "validation": 0.1})

    def arms(self, results: Path) -> dict[str, Scenario]:
        """The label says what is tried, such as moon-lr0.1-mu1."""
        return {
            f"{name}-{trial}": self.plan(method.strategy, rate, variant)
            for name, method in METHODS.items()
            for trial, (rate, variant) in self.of_method(method).items()
        }

    def best_plans(self, results: Path) -> dict[str, Scenario]:
        """Each method's plan with the settings that its trials chose, tested on the test samples.

        Raises
        ------
        InvalidInput
            There are no trials, or what is stored is none.
        """
        path, tried = results / self.name / "summary.json", self.arms(results)
        try:
            best: Mapping[str, Any] = json.loads(path.read_bytes())["results"]["best"]
            return {name: tried[label].changed(cast={"validation": 0.0}) for name, label in best.items()}
        except OSError:
            raise InvalidInput(f"there are no trials in {path}: run `fedgrove experiment {self.name}` first") from None
        except (ValueError, KeyError, TypeError, AttributeError, InvalidContent, InvalidInput):
            raise InvalidInput(f"{path} has no best settings: run `{self.name}` again") from None

    def experiment(self) -> Experiment:
        """To be registered."""
        return Experiment(
            name=self.name,
            title=self.title,
            paper="It does not say how its settings were chosen, and the settings (tables 2 and 3) are lost.",
            arms=self.arms,
            report=report,
            seeds=(100,),
        )


def report(findings: Findings) -> Report:
    """All trials, and each method's best."""
    best, rows, trials = {}, [], {}
    for name in sorted(METHODS):
        ends = {
            label: end_accuracy(group[0], LAST)
            for label, group in findings.records.items()
            if label.partition("-")[0] == name
        }
        sound = {label: end for label, end in ends.items() if end is not None}
        if sound:
            best[name] = max(sound, key=lambda label: sound[label])
        for label, end in ends.items():
            text = label.removeprefix(f"{name}-")
            shown = f"**{text}**" if label == best.get(name) else text
            rows.append([NAMES[name], shown, "diverged" if end is None else f"{100 * end:.2f}"])
        trials |= ends
    legend = (
        f"Bold: a method's best. Mean accuracy on the validation samples over the last {LAST * EVERY} rounds, tested "
        f"every {EVERY} rounds; seed 100, which the comparison does not use.\n"
    )
    text = markdown(["method", "trial", "validation accuracy, %"], rows) + "\n" + legend
    return Report({"best": best, "trials": trials}, text)


MNIST_TRIALS = Trials(
    name="comparison_trials",
    title="Four trials a method on validation samples, MNIST, Dirichlet 0.1",
    dataset="mnist",
    training=replace(PAPER_LIKE, epochs=2),
    rates=(0.03, 0.1),
    more_rates=(0.01, 0.03, 0.1, 0.3),
)
CIFAR10_TRIALS = Trials(
    name="comparison_cifar10_trials",
    title="Four trials a method on validation samples, CIFAR-10, Dirichlet 0.1",
    dataset="cifar10",
    training=CIFAR10,
    rates=(0.01, 0.03),
    more_rates=(0.003, 0.01, 0.03, 0.1),
)
EXPERIMENTS = (MNIST_TRIALS.experiment(), CIFAR10_TRIALS.experiment())
