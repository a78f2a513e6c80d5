"""The loop over the rounds of a clustered training: train, watch, choose, evaluate, keep.

A round is whole when its checkpoint is written: the models, their references, the record. All else follows from these.
"""

import hashlib
import json
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
from fedgrove.node.base.files import write_atomically
from fedgrove.node.base.tensors import Layout, Tensors, dump, unflatten
from fedgrove.node.lab.simulation.checkpoint import InvalidCheckpoint, RunDirectory
from fedgrove.node.lab.simulation.clustered import robust
from fedgrove.node.lab.simulation.clustered.attackers import attackers_of
from fedgrove.node.lab.simulation.clustered.crew import Crew
from fedgrove.node.lab.simulation.clustered.detection import ClusterWatch, Trained
from fedgrove.node.lab.simulation.clustered.methods import Ifca, OneModel, ProCflScheme, SharingScheme
from fedgrove.node.lab.simulation.clustered.settings import GlobalSettings, IfcaSettings
from fedgrove.node.lab.simulation.clustered.similarity import (
    CLUSTERS,
    InitialClusters,
    Progress,
    compare_all,
    find_clusters,
)
from fedgrove.node.lab.simulation.data import Dealt, deal_data
from fedgrove.node.lab.simulation.plan import InvalidPlan, Plan
from fedgrove.node.lab.simulation.record import ClusterResult, CommitteeVerdict, RoundResult, RunRecord
from fedgrove.node.lab.simulation.run import own_directory, round_result
from fedgrove.node.lab.simulation.work import ClientResult, ModelReference, RunTerms
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.methods.procfl.sets import MAX_ELEMENTS, label_counts
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.training import Cluster

# The matrix of overlaps, and robust means, hold something of all clients at once.
MAX_CLIENTS = 5_000
MAX_MODEL_BYTES = 4 << 30


class ClusteredSimulation:
    """Clustered federated learning of many clients, without chain and store; used as ``Simulation``.

    Parameters
    ----------
    plan : Plan
        What is simulated; it has ``clustering``.
    dataset, executor, workers, directory, resume
        As ``Simulation`` takes them.
    progress : callable, optional
        Is told how many private comparisons of how many are done.

    Raises
    ------
    InvalidPlan
        Unknown options of the strategy, or data that do not suit the plan.
    """

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        executor: Executor,
        workers: int,
        directory: Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._plan, self._executor, self._workers = plan, executor, workers
        self._directory, self._resume, self._progress = directory, resume, progress
        if plan.clients > MAX_CLIENTS:
            raise InvalidPlan(f"clustering is simulated for at most {MAX_CLIENTS} clients, not {plan.clients}")
        try:
            strategy = make_strategy(plan.strategy, plan.options)
            self._data = deal_data(plan, dataset, strategy.needs_shared)
            spec = self._data.spec
            self._models: list[Tensors] = []
            for seed in _model_seeds(plan):
                weights = initial_tensors(spec.name, spec.input_shape, spec.classes, seed)
                self._models.append({**weights, **strategy.initial_extras(weights)})
        except ValueError as fault:
            raise InvalidPlan(str(fault)) from None
        self._layout = Layout.of(self._models[0])
        self._counts = np.array([label_counts(self._data.training.y[own], spec.classes) for own in self._data.parts])
        self._test, self._public = self._split_test()
        self._attackers = attackers_of(plan, self._counts)
        self._check_sizes()
        self._terms = RunTerms(self._data.digest(), spec, strategy, plan.training, plan.rounds, plan.seed, plan.device)
        self._rounds: list[RoundResult] = []
        self._clusters: InitialClusters | None = None
        # The models that clients choose for a round, if that is known before it.
        self._chosen: tuple[int, dict[int, int]] = (0, {})

    @property
    def data(self) -> Dealt:
        """The data as they are dealt, not poisoned."""
        return self._data

    @property
    def clusters(self) -> InitialClusters | None:
        """ProCFL's similarity and clusters, once ``run`` has begun."""
        return self._clusters

    @property
    def attackers(self) -> tuple[int, ...]:
        """Who attacks, ascending."""
        return tuple(sorted(self._attackers.clients)) if self._attackers else ()

    @property
    def record(self) -> RunRecord:
        """The rounds so far."""
        return RunRecord(self._plan, tuple(self._rounds), hashlib.sha256(dump(self.tensors)).hexdigest())

    @property
    def tensors(self) -> Tensors:
        """The models after the last round: one as it is, several with ``NUMBER/`` before each name."""
        return dict(self._models[0]) if len(self._models) == 1 else _stacked(self._models)

    def run(self) -> Generator[RoundResult, None, None]:
        """Run to the end; give each round's result when its checkpoint is on disk.

        Raises
        ------
        As ``Simulation.run``.
        """
        with own_directory(self._directory) as (directory, scratch):
            files = RunDirectory(directory, self._plan, self._terms.data)
            kept = files.load(self._resume, None)
            method = self._method(directory)
            crew = Crew(
                self._plan,
                self._terms,
                replace(self._data, test=self._test),
                self._layout,
                self._public,
                self._attackers,
                self._executor,
                self._workers,
                files,
                scratch,
            )
            watch = self._watch(method)
            if kept is not None:
                self._rounds = list(kept.record.rounds)
                self._models, references = _unstacked(kept.tensors, self._layout, directory)
                if watch is not None:
                    watch.references = references
                    watch.resume(self._rounds)
            yield from self._loop(files, crew, method, watch)

    def _loop(
        self, files: RunDirectory, crew: Crew, method: SharingScheme, watch: ClusterWatch | None
    ) -> Iterator[RoundResult]:
        while len(self._rounds) < self._plan.rounds:
            number = len(self._rounds) + 1
            self._models = self._models * (method.models(number) // len(self._models))
            start = crew.publish(self._models)
            if watch is not None:
                watch.enter(crew, number, self._models)
            drawn = [client for client in self._plan.draw(number) if watch is None or client not in watch.expelled]
            groups = self._groups(crew, method, number, start, drawn)
            means, results = self._trained(crew, method, number, start, groups)
            models = [means.get(k, model) for k, model in enumerate(self._models)]
            scores: tuple[float, ...] = ()
            judgements: tuple[CommitteeVerdict, ...] = ()
            if watch is not None:
                finding = watch.look(crew, Trained(number, groups, start, models))
                models, scores, judgements = list(finding.models), finding.scores, finding.judgements
            self._models = models
            trained = tuple(groups.get(k, ()) for k in range(len(models)))
            clustering = ClusterResult(trained, None, scores, judgements, self._attacking(number))
            result = replace(round_result(number, results), clustering=clustering)
            self._rounds.append(self._evaluated(crew, method, result))
            references = [] if watch is None else watch.references
            files.save(self.record, _stacked(self._models, references))
            crew.retire()
            yield self._rounds[-1]
        files.finish(self.record)

    def _attacking(self, number: int) -> tuple[int, ...]:
        return tuple(sorted(self._attackers.at(number))) if self._attackers else ()

    def _groups(
        self, crew: Crew, method: SharingScheme, number: int, start: Sequence[ModelReference], drawn: Sequence[int]
    ) -> dict[int, Cluster]:
        """Who trains which model."""
        known, choices = self._chosen
        if known != number:
            choices = crew.choose(number, start, {client: method.options(client, number) for client in drawn})
        members: dict[int, list[int]] = {}
        for client in drawn:
            members.setdefault(choices[client], []).append(client)
        return {k: tuple(group) for k, group in sorted(members.items()) if method.may_train(group, number)}

    def _trained(
        self,
        crew: Crew,
        method: SharingScheme,
        number: int,
        start: Sequence[ModelReference],
        groups: Mapping[int, Cluster],
    ) -> tuple[dict[int, Tensors], list[ClientResult]]:
        """The new models of the groups."""
        settings, models = self._plan.clustering, dict(enumerate(start))
        if isinstance(settings, GlobalSettings) and settings.mean != "mean":
            vectors, results = crew.shown(number, models, groups)
            together = np.stack([vectors[client] for client in sorted(vectors)])
            attackers = 0 if self._attackers is None else len(self._attackers.at(number) & vectors.keys())
            mean = _robust_mean(settings.mean, together, attackers)
            return {0: unflatten(mean, self._layout)}, crew.keep_states(number, results)
        weights: dict[int, Fraction] = {}
        for group in groups.values():
            weights.update(method.weights(group, number))
        return crew.train(number, models, groups, weights)

    def _evaluated(self, crew: Crew, method: SharingScheme, result: RoundResult) -> RoundResult:
        """The result with what the honest clients' models achieve, where the plan evaluates."""
        if not self._plan.evaluates(result.round):
            return result
        round_number = result.round
        models = crew.publish(self._models)
        everybody = range(1, self._plan.clients + 1)
        # Clients choose for the next round, and use what they choose; where a stage ends, what they had.
        chosen = crew.choose(
            round_number + 1, models, {client: method.options(client, round_number) for client in everybody}
        )
        if round_number < self._plan.rounds and method.models(round_number + 1) == len(models) == method.models(
            round_number
        ):
            self._chosen = round_number + 1, chosen
        used = {number: models[number] for number in sorted({chosen[client] for client in self._honest})}
        scores, aims = crew.test(round_number, used), crew.aim(round_number, used)
        found = [scores[chosen[client]] for client in self._honest]
        reached = None if aims is None else [aims[chosen[client]].accuracy for client in self._honest]
        own = [score.accuracy_for(self._counts[client - 1]) for client, score in zip(self._honest, found, strict=True)]
        return replace(
            result,
            accuracy=math.fsum(score.accuracy for score in found) / len(found),
            loss=math.fsum(score.loss for score in found) / len(found),
            clustering=replace(
                result.clusters,
                personal_accuracy=_mean(own),
                backdoor=None if reached is None else _mean(reached),
            ),
        )

    @cached_property
    def _honest(self) -> tuple[int, ...]:
        attackers = self._attackers.clients if self._attackers else ()
        return tuple(client for client in range(1, self._plan.clients + 1) if client not in attackers)

    def _method(self, directory: Path) -> SharingScheme:
        """The plan's method; ProCFL's clusters are found, and written down, first."""
        settings = self._plan.clustering
        samples = {client: len(own) for client, own in enumerate(self._data.parts, 1)}
        if isinstance(settings, IfcaSettings):
            return Ifca(samples, settings.models)
        if not isinstance(settings, ProCflSettings):
            return OneModel(samples)
        compared = compare_all(self._counts, settings, self._executor, self._workers, directory, self._progress)
        self._clusters = find_clusters(compared, settings.alpha, self.attackers)
        write_atomically(directory / CLUSTERS, (json.dumps(self._clusters.to_json()) + "\n").encode())
        return ProCflScheme(self._clusters, settings, self._plan.rounds)

    def _watch(self, method: SharingScheme) -> ClusterWatch | None:
        settings = self._plan.clustering
        if self._public is None or self._clusters is None or not isinstance(method, ProCflScheme):
            return None
        if not isinstance(settings, ProCflSettings):
            return None
        similarity = self._clusters.similarity
        return ClusterWatch(settings, method, similarity, self._counts, self._attackers, self._layout, self._plan.seed)

    def _split_test(self) -> tuple[Samples, Samples | None]:
        """Test samples for evaluation, and those of the public set, which evaluation leaves out."""
        settings, test = self._plan.clustering, self._data.test
        if not isinstance(settings, ProCflSettings) or not settings.seats:
            return test, None
        order = np.random.default_rng([self._plan.seed, 3]).permutation(len(test))
        cut = min(settings.public_samples, len(test) // 2)
        return test.take(np.sort(order[cut:])), test.take(np.sort(order[:cut]))

    def _check_sizes(self) -> None:
        """Refuse what private comparisons, or means of single models, cannot hold."""
        settings = self._plan.clustering
        largest = int(self._counts.sum(axis=1).max())
        if getattr(settings, "psi", "clear") != "clear" and largest > MAX_ELEMENTS:
            raise InvalidPlan(f"{largest} samples of a client are too many to compare: {MAX_ELEMENTS} at most")
        size = 4 * self._layout.length * self._plan.drawn
        mean = getattr(settings, "mean", "mean")
        if mean != "mean" and size > MAX_MODEL_BYTES:
            raise InvalidPlan(f"{mean} needs a round's models at once, {size >> 30} GiB: draw fewer clients")


def _mean(shares: Sequence[float]) -> float:
    return min(1.0, math.fsum(shares) / len(shares))


def _model_seeds(plan: Plan) -> list[int]:
    """Seeds of the initial weights: the plan's for one model; IFCA's models differ from the start."""
    count = plan.clustering.models if isinstance(plan.clustering, IfcaSettings) else 1
    texts = [f"fedgrove model {plan.seed} {number}" for number in range(1, count)]
    return [plan.seed, *(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]) for text in texts)]


def _robust_mean(name: str, models: np.ndarray, attackers: int) -> np.ndarray:
    """The next model of a rival that is told how many attackers there are, or as many as it can stand."""
    count = len(models)
    if name == "median":
        return robust.median(models)
    if name == "trimmed-mean":
        return robust.trimmed_mean(models, min(attackers, (count - 1) // 2))
    withstood = min(attackers, (count - 3) // 2)
    if withstood < 0:
        raise InvalidPlan(f"{name} needs at least 3 clients a round, not {count}")
    return robust.krum(models, withstood, 1 if name == "krum" else count - withstood)


def _stacked(models: Sequence[Tensors], references: Sequence[Tensors] = ()) -> Tensors:
    """Several models as one; references beside them."""
    named = (("", models), ("reference/", references))
    return {
        f"{kind}{number}/{name}": tensor
        for kind, several in named
        for number, model in enumerate(several)
        for name, tensor in model.items()
    }


def _unstacked(tensors: Tensors, layout: Layout, directory: Path) -> tuple[list[Tensors], list[Tensors]]:
    """What ``_stacked`` put together."""
    found: dict[str, dict[int, Tensors]] = {"": {}, "reference/": {}}
    for label, tensor in tensors.items():
        kind = "reference/" if label.startswith("reference/") else ""
        number, _, name = label.removeprefix(kind).partition("/")
        found[kind].setdefault(int(number), {})[name] = tensor
    lists = [[several[number] for number in sorted(several)] for several in found.values()]
    if any(Layout.of(model) != layout for model in (*lists[0], *lists[1])):
        raise InvalidCheckpoint(f"the models in {directory} are of another kind: give another directory")
    return lists[0], lists[1]
