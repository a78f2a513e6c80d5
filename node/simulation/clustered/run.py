"""Models of groups of clients: choose, train, watch, and test what clients use.

A checkpoint holds the models, the watch's references and the record. All else follows from these.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from fedgrove.common.settings import InvalidConfig
from fedgrove.node.base.files import write_atomically
from fedgrove.node.base.tensors import Tensors, unflatten
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.procfl.sets import MAX_ELEMENTS, label_counts
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.methods.training.metric_sums import figures_of
from fedgrove.node.scenario.clusters import GlobalSettings, IfcaSettings, SimulatedProCfl
from fedgrove.node.simulation import figures
from fedgrove.node.simulation.clustered import robust
from fedgrove.node.simulation.clustered.attackers import attackers_of
from fedgrove.node.simulation.clustered.crew import Crew, together
from fedgrove.node.simulation.clustered.procfl import SimulatedProCflCourse, TrainedRound
from fedgrove.node.simulation.clustered.similarity import (
    CLUSTERS,
    InitialClusters,
    compare_all,
    find_clusters,
    read_clusters,
)
from fedgrove.node.simulation.data import Dealt
from fedgrove.node.simulation.loop import SimulationRun
from fedgrove.node.simulation.record import ClusterResult, Released, RoundResult, RunRecord, folder_of
from fedgrove.node.simulation.run import round_result
from fedgrove.node.simulation.subjects import NetworkSubject
from fedgrove.node.simulation.tasks import TaskMaker
from fedgrove.node.simulation.work import ModelReference, SliceScore
from fedgrove.node.simulation.workers import PendingTest

# The matrix of overlaps, and robust means, hold something of all clients at once.
MAX_CLIENTS = 5_000
MAX_MODEL_BYTES = 4 << 30


class SharingScheme(Protocol):
    """How a scenario's clients, numbered from 1, share models, numbered from 0."""

    def models(self, number: int) -> int:
        """How many there are in a round."""
        ...

    def options(self, client: int, number: int) -> tuple[int, ...]:
        """The models that a client may train, and use, in a round: the first unless another suits its data better."""
        ...

    def groups(self, choices: Mapping[int, int]) -> dict[int, Cluster]:
        """Who trains each model, by its number, where these clients chose these models; without models of nobody."""
        ...


class OneModel:
    """FedAvg: one model, clients weighed by their samples."""

    def __init__(self, samples: Mapping[int, int]) -> None:
        self._samples = samples

    def models(self, number: int) -> int:
        return 1

    def options(self, client: int, number: int) -> tuple[int, ...]:
        return (0,)

    def groups(self, choices: Mapping[int, int]) -> dict[int, Cluster]:
        chosen = sorted(set(choices.values()))
        return {number: tuple(client for client in choices if choices[client] == number) for number in chosen}

    def weights(self, group: Sequence[int]) -> dict[int, Fraction]:
        """How much each client of a model's group counts in its mean; they sum to 1."""
        total = sum(self._samples[client] for client in group)
        return {client: Fraction(self._samples[client], total) for client in group}


class Ifca(OneModel):
    """IFCA (Ghosh et al. 2020): all clients may train any of k models, weighed by their samples."""

    def __init__(self, samples: Mapping[int, int], models: int) -> None:
        super().__init__(samples)
        self._models = models

    def models(self, number: int) -> int:
        return self._models

    def options(self, client: int, number: int) -> tuple[int, ...]:
        return tuple(range(self._models))


class ClusteredSimulation(SimulationRun):
    """A scenario with ``clustering``: models of groups of clients."""

    def _check_scenario(self) -> None:
        if self._scenario.clients > MAX_CLIENTS:
            raise InvalidConfig(
                f"clustering is simulated for at most {MAX_CLIENTS} clients, not {self._scenario.clients}"
            )

    @classmethod
    def draw(cls, out: Path, records: Sequence[RunRecord]) -> None:
        method = records[0].scenario.method
        curves = partial(figures.draw_curves, groups={method.name: records}, what="personal")
        figures.write_figure(out / "personal.png", curves)
        for record in records if isinstance(method, SimulatedProCfl) else ():
            directory = folder_of(out, record.scenario)
            found = read_clusters(directory)
            clusters = {"ism": found.ism, "clusters": found.members, "attackers": found.attackers}
            figures.write_figure(directory / "clusters.png", partial(figures.draw_clusters, **clusters))

    @classmethod
    def summary(cls, record: RunRecord) -> str:
        last = record.rounds[-1].clusters
        expelled = sum(len(found.expelled) for result in record.rounds for found in result.clusters.judgements)
        return (
            f"Seed {record.scenario.seed}: personalised accuracy {last.personal_accuracy:.4f}, "
            f"{sum(map(bool, last.groups))} models in the last round, {expelled} clients expelled"
        )

    @property
    def data(self) -> Dealt:
        """The data as they are split, not poisoned."""
        return self._data

    def _prepare(self) -> None:
        assert isinstance(self._subject, NetworkSubject)  # a scenario with clusters and a task is refused
        self._data, self._terms = self._subject.data, self._subject.terms
        classes = self._data.spec.classes
        self._counts = np.array([label_counts(self._data.training.y[own], classes) for own in self._data.parts])
        self._held_out, self._public = self._split_test()
        self._attackers = attackers_of(self._scenario, self._counts)
        self._check_sizes()
        self._clusters: InitialClusters | None = None
        # The models that clients choose for a round, if that is known before it.
        self._chosen: tuple[int, dict[int, int]] = (0, {})

    @property
    def clusters(self) -> InitialClusters | None:
        """ProCFL's similarity and clusters, once ``run`` has begun."""
        return self._clusters

    @property
    def attackers(self) -> tuple[int, ...]:
        """Who attacks, ascending."""
        return tuple(sorted(self._attackers.clients)) if self._attackers else ()

    @property
    def tensors(self) -> Tensors:
        """The models after the last round: one as it is, several with ``NUMBER/`` before each name."""
        return dict(self._models[0]) if len(self._models) == 1 else _stacked(self._models)

    @property
    def _kept(self) -> Tensors:
        method = self._method
        return _stacked(self._models, method.state.references if isinstance(method, SimulatedProCflCourse) else ())

    def _begin(self, directory: Path, scratch: Path) -> TaskMaker:
        self._method = self._sharing(directory)
        self._crew = Crew(
            self._scenario,
            self._terms,
            replace(self._data, test=self._held_out),
            self._layout,
            self._public,
            self._attackers,
            self._workforce,
            self._files,
            scratch,
        )
        return self._crew.tasks

    def _restore(self, kept: Tensors) -> None:
        self._models, references = _unstacked(kept)
        if isinstance(self._method, SimulatedProCflCourse):
            self._method.resume(self._models, references, self._rounds)

    def _round(self, number: int, drawn: tuple[int, ...]) -> RoundResult:
        self._models = self._models_for(number)
        choices = self._choices(number, self._crew.publish(self._models), drawn)
        if isinstance(self._method, SimulatedProCflCourse):
            found = self._method.round(self._crew, number, choices)
            self._models = list(self._method.state.models)
        elif isinstance(self._method, OneModel):
            found = self._trained(self._method, number, choices)
        else:
            raise TypeError(f"{type(self._method).__name__} does not train a round")
        trained = tuple(found.groups.get(k, ()) for k in range(len(self._models)))
        clustering = ClusterResult(trained, None, found.scores, found.judgements, self._attacking(number))
        members = self._figures(each.measured for each in found.results if each.measured is not None)
        return replace(round_result(number, found.results), clustering=clustering, members=members)

    def _of_last_model(self, number: int, drawn: tuple[int, ...]) -> Released | None:
        start = self._crew.publish(self._models_for(number))
        groups = self._method.groups(self._choices(number, start, drawn))
        if isinstance(self._method, SimulatedProCflCourse):
            groups = self._method.fresh(groups)
        models = {k: start[k if len(start) > 1 else 0] for k in groups}  # parts of one model have the same
        return self._figures(self._crew.measured(number, models, groups).values())

    def _figures(self, measured: Iterable[HeldOutSums]) -> Released | None:
        """What a round states of its clients' evaluations, over all models; None where the scenario asks for none."""
        return figures_of(measured, self._scenario.evaluation) if self._scenario.evaluation is not None else None

    def _models_for(self, number: int) -> list[Tensors]:
        """The models that a round begins with: the one model is each cluster's first."""
        return self._models * (self._method.models(number) // len(self._models))

    def _attacking(self, number: int) -> tuple[int, ...]:
        return tuple(sorted(self._attackers.at(number))) if self._attackers else ()

    def _choices(self, number: int, start: Sequence[ModelReference], drawn: Sequence[int]) -> dict[int, int]:
        """Which model each client is to train."""
        known, choices = self._chosen
        if known != number:
            options = {client: self._method.options(client, number) for client in drawn}
            choices = self._crew.choose(number, start, options)
        return {client: choices[client] for client in drawn}

    def _trained(self, method: OneModel, number: int, choices: Mapping[int, int]) -> TrainedRound:
        """A round of a rival, whose new models take the place of the old ones."""
        settings, models = self._scenario.method, dict(enumerate(self._crew.publish(self._models)))
        groups = method.groups(choices)
        if isinstance(settings, GlobalSettings) and settings.mean != "mean":
            vectors, results = self._crew.shown(number, models, groups, keep=True)
            shown = np.stack([vectors[client] for client in sorted(vectors)])
            attackers = 0 if self._attackers is None else len(self._attackers.at(number) & vectors.keys())
            self._models = [unflatten(_robust_mean(settings.mean, shown, attackers), self._layout)]
            return TrainedRound(groups, results)
        weights: dict[int, Fraction] = {}
        for group in groups.values():
            weights.update(method.weights(group))
        means, results = self._crew.train(number, models, groups, weights)
        self._models = [means.get(k, model) for k, model in enumerate(self._models)]
        return TrainedRound(groups, results)

    def _test(self, result: RoundResult) -> PendingTest:
        """What the honest clients' models achieve."""
        method, number = self._method, result.round
        models = self._crew.publish(self._models)
        everybody = range(1, self._scenario.clients + 1)
        # Clients choose for the next round, and use what they choose; where a stage ends, what they had.
        chosen = self._crew.choose(number + 1, models, {client: method.options(client, number) for client in everybody})
        if number < self._scenario.rounds and method.models(number + 1) == len(models) == method.models(number):
            self._chosen = number + 1, chosen
        used = {k: models[k] for k in sorted({chosen[client] for client in self._honest})}
        return PendingTest(partial(self._crew.tests, number, used), partial(self._scored, result, chosen))

    def _scored(self, result: RoundResult, chosen: Mapping[int, int], slices: Sequence[SliceScore]) -> RoundResult:
        scores = together(slices)
        found = [scores[chosen[client]] for client in self._honest]
        aims = [scores[-1 - chosen[client]].accuracy for client in self._honest] if min(scores) < 0 else []
        own = [score.accuracy_for(self._counts[client - 1]) for client, score in zip(self._honest, found, strict=True)]
        backdoor = _mean(aims) if aims else None
        return replace(
            result,
            accuracy=math.fsum(score.accuracy for score in found) / len(found),
            loss=math.fsum(score.loss for score in found) / len(found),
            clustering=replace(result.clusters, personal_accuracy=_mean(own), backdoor=backdoor),
        )

    @cached_property
    def _honest(self) -> tuple[int, ...]:
        attackers = self._attackers.clients if self._attackers else ()
        return tuple(client for client in range(1, self._scenario.clients + 1) if client not in attackers)

    def _sharing(self, directory: Path) -> SharingScheme:
        """The scenario's method; ProCFL's clusters are found, and written down, first."""
        settings, scenario = self._scenario.method, self._scenario
        samples = {client: len(own) for client, own in enumerate(self._data.parts, 1)}
        if isinstance(settings, IfcaSettings):
            return Ifca(samples, settings.models)
        if not isinstance(settings, SimulatedProCfl):
            return OneModel(samples)
        work = self._workforce
        compared = compare_all(self._counts, settings, work.executor, work.count, directory, self._progress)
        self._clusters = find_clusters(compared, settings.alpha, self.attackers)
        write_atomically(directory / CLUSTERS, (json.dumps(self._clusters.to_table()) + "\n").encode())
        first = self._models[0], scenario.rounds, scenario.masking.bound
        return SimulatedProCflCourse(settings, compared, self._counts, *first, self._attackers, scenario.seed)

    def _model_seeds(self) -> list[int]:
        """The scenario's seed for one model; IFCA's models differ from the start."""
        settings, seed = self._scenario.method, self._scenario.seed
        count = settings.models if isinstance(settings, IfcaSettings) else 1
        texts = [f"fedgrove model {seed} {number}" for number in range(1, count)]
        return [seed, *(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]) for text in texts)]

    def _split_test(self) -> tuple[Samples, Samples | None]:
        """Test samples for evaluation, and those of the public set, which evaluation leaves out."""
        settings, test = self._scenario.method, self._data.test
        if not isinstance(settings, ProCflSettings) or not settings.seats:
            return test, None
        order = np.random.default_rng([self._scenario.seed, 3]).permutation(len(test))
        cut = min(settings.public_samples, len(test) // 2)
        return test.take(np.sort(order[cut:])), test.take(np.sort(order[:cut]))

    def _check_sizes(self) -> None:
        """Refuse what private comparisons, or means of single models, cannot hold."""
        settings = self._scenario.method
        largest = int(self._counts.sum(axis=1).max())
        if getattr(settings, "psi", "clear") != "clear" and largest > MAX_ELEMENTS:
            raise InvalidConfig(f"{largest} samples of a client are too many to compare: {MAX_ELEMENTS} at most")
        size = 4 * self._layout.length * self._scenario.drawn
        mean = getattr(settings, "mean", "mean")
        if mean != "mean" and size > MAX_MODEL_BYTES:
            raise InvalidConfig(f"{mean} needs a round's models at once, {size >> 30} GiB: draw fewer clients")


def _mean(shares: Sequence[float]) -> float:
    return min(1.0, math.fsum(shares) / len(shares))


def _robust_mean(name: str, models: np.ndarray, attackers: int) -> np.ndarray:
    """The next model of a rival that is told how many attackers there are, or as many as it can stand."""
    count = len(models)
    if name == "median":
        return robust.median(models)
    if name == "trimmed-mean":
        return robust.trimmed_mean(models, min(attackers, (count - 1) // 2))
    withstood = min(attackers, (count - 3) // 2)
    if withstood < 0:
        raise InvalidConfig(f"{name} needs at least 3 clients a round, not {count}")
    return robust.krum(models, withstood, 1 if name == "krum" else count - withstood)


def _stacked(models: Sequence[Tensors], references: Sequence[Tensors] = ()) -> Tensors:
    """Several models as one; references next to them."""
    named = (("", models), ("reference/", references))
    return {
        f"{kind}{number}/{name}": tensor
        for kind, several in named
        for number, model in enumerate(several)
        for name, tensor in model.items()
    }


def _unstacked(tensors: Tensors) -> tuple[list[Tensors], list[Tensors]]:
    """What ``_stacked`` put together."""
    found: dict[str, dict[int, Tensors]] = {"": {}, "reference/": {}}
    for label, tensor in tensors.items():
        kind = "reference/" if label.startswith("reference/") else ""
        number, _, name = label.removeprefix(kind).partition("/")
        found[kind].setdefault(int(number), {})[name] = tensor
    models, references = ([several[number] for number in sorted(several)] for several in found.values())
    return models, references
