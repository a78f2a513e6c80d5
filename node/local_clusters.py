"""A client's part of a federation with clusters: it compares, chooses a cluster, trains, and shows or judges models.

What follows from its data leaves it blinded, sealed or under masks only. The secret of a comparison, without which
nobody can tell what was blinded, is in the journal until all have answered, and destroyed then.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from chain.keys import Keys
from ipfs.store import ContentStore
from ipfs.unixfs import cid_of
from node.clustering.committee import Ballot
from node.clustering.comparing import Comparing, Party, Received, comparing, part_of, upload
from node.clustering.course import Course
from node.clustering.evidence import SALT_BYTES, Direction, Evidence, Rule, direction, resampled
from node.clustering.mailbox import OVERHEAD, NotForReader, seal, unseal
from node.clustering.sets import MAX_ELEMENTS, label_counts
from node.clustering.state import Case, ClusterState
from node.clustering.stated import Counts
from node.clustering.training import choose_cluster
from node.config import FederationConfig
from node.content import Update, fetch_available, fetch_model
from node.journal import Journal
from node.learning.samples import Samples
from node.learning.settings import ModelSpec, TrainingSettings
from node.learning.strategies import make_strategy
from node.learning.strategies.base import Strategy
from node.learning.training import DivergedTraining, evaluate, train
from node.local_training import LocalTraining
from node.local_work import CannotTakePart, Diverged
from node.masking.keys import SECRET_BYTES
from node.rounds import RoundRecords, Rounds
from node.tensors import Layout, Tensors, flatten, unflatten
from node.uploads.clusters import course_of, session_of, shown_to, state_before
from node.uploads.kind import UploadRound

_SECRET = "comparison"

Work = tuple[Any, ...]
"""A function and its arguments, which go to a worker."""


class LocalClusters:
    """Does what the stage of each round asks of this client.

    Parameters
    ----------
    store, config, samples, journal, executor
        As ``LocalTraining`` takes them.
    rounds : callable
        The ledger as the client sees it now.
    place : callable
        The public inputs of a sealed round.
    keys : Keys
        Its mailbox opens models that are shown to it.
    """

    def __init__(
        self,
        store: ContentStore,
        config: FederationConfig,
        samples: Samples,
        journal: Journal,
        executor: Executor | None,
        rounds: Callable[[], Rounds],
        place: Callable[[RoundRecords], UploadRound],
        keys: Keys,
    ) -> None:
        self._store, self._config, self._samples, self._journal = store, config, samples, journal
        self._rounds, self._place, self._keys = rounds, place, keys
        self._executor = executor
        self._course: Course = course_of(config)
        self._training = _ClusterTraining(store, config, samples, journal, executor, place, self._course)
        self._running: tuple[int, Future] | None = None

    def samples(self, entry: RoundRecords, client: int) -> int:
        """What the client states when it draws: the size of its set, or in the second stage its cluster's number.

        Raises
        ------
        CannotTakePart
            It has more samples than are compared.
        """
        state = state_before(self._rounds(), entry, self._config, self._store)
        if state.stage == "blind":
            if len(self._samples) > MAX_ELEMENTS:
                raise CannotTakePart(f"it has {len(self._samples)} samples, of which {MAX_ELEMENTS} can be compared")
            return len(self._samples)
        if state.stage != "train" or self._course.is_global(state):
            return 1
        return 1 + self._choice(state, client)

    def result(self, entry: RoundRecords, client: int) -> Update | None:
        """What it uploads in a round; None while it computes.

        Raises
        ------
        CannotTakePart, Diverged, StateLost, InvalidModel, InvalidBlob
        """
        round = self._place(entry)
        state: ClusterState = round.previous
        match state.stage:
            case "blind":
                return self._first(round, client)
            case "ask" | "answer" | "report":
                return self._answers(round, state, client)
        if self._journal.kept(_SECRET):
            self._journal.keep(_SECRET, b"")
        match state.stage:
            case "labels":
                return label_counts(self._samples.y, self._course.labels)
            case "show":
                return self._shown(round, state, entry, client)
            case "vote":
                return self._votes(round, state, client)
        position = entry.order.index(client)
        if not any(position in group for group in round.graph.groups):
            return b""
        return self._training.result(entry, client)

    def leave(self) -> None:
        """Destroy what strategies keep, and the secret of a comparison."""
        self._training.leave()
        self._journal.keep(_SECRET, b"")

    # --- comparisons ------------------------------------------------------------------------------------------------

    def _first(self, round: UploadRound, client: int) -> bytes | None:
        """The first message of a comparison; its secret is in the journal before."""
        session = session_of(round)
        secret = self._secret(session)
        if secret is None:
            secret = os.urandom(SECRET_BYTES)
            self._journal.keep(_SECRET, session + secret)
        return self._computed(round, lambda: (_first, self._course.terms.psi, self._party(session, client, secret)))

    def _answers(self, round: UploadRound, state: ClusterState, client: int) -> bytes | None:
        """What follows from others' messages, sealed to the counter if it is for nobody else."""
        if client not in state.sets:
            return b""
        session, psi = bytes.fromhex(state.session), self._course.terms.psi
        secret = self._secret(session)
        if secret is None:
            raise CannotTakePart("its journal has lost the secret of its comparisons")
        protocol = comparing(psi)

        def work() -> Work:
            partners = protocol.lengths(state.stage, state.sizes, client)
            received = {partner: self._received(round, state, protocol, client, partner) for partner in partners}
            return upload, psi, self._party(session, client, secret), state.stage, state.sizes, received

        plain = self._computed(round, work)
        if plain is None or not protocol.sealed:
            return plain
        return seal(self._course.terms.counter_key, plain, session, os.urandom)

    def _received(
        self, round: UploadRound, state: ClusterState, protocol: Comparing, client: int, partner: int
    ) -> Received:
        digest, size = state.sets[partner]
        first = self._store.fetch(bytes.fromhex(digest), protocol.first_bytes(size))
        before = protocol.stages[protocol.stages.index(state.stage) - 1]
        base = round.rounds.base_of(round.entry.number)
        if before == "blind" or partner not in base.commits:
            return Received(first)
        lengths = protocol.lengths(before, state.sizes, partner)
        found = fetch_available(self._store, {partner: base.commits[partner].digest}, sum(lengths.values()))
        return Received(first, part_of(lengths, client, found.get(partner, b"")))

    def _party(self, session: bytes, client: int, secret: bytes) -> Party:
        counts = label_counts(self._samples.y, self._course.labels)
        return Party(session, client, tuple(counts.tolist()), secret)

    def _secret(self, session: bytes) -> bytes | None:
        """The secret of a comparison; None if this client has none."""
        kept = self._journal.kept(_SECRET) or b""
        return kept[len(session) :] if kept.startswith(session) else None

    def _computed(self, round: UploadRound, work: Callable[[], Work]) -> Any:
        """What the work of a round comes to; None while it is under way. ``work`` is asked for once."""
        number = round.entry.number
        if self._running is None or self._running[0] != number:
            function, *arguments = work()
            if self._executor is not None:
                future = self._executor.submit(function, *arguments)
            else:
                future = Future()
                future.set_result(function(*arguments))
            self._running = (number, future)
        future = self._running[1]
        return future.result() if future.done() else None

    # --- training ---------------------------------------------------------------------------------------------------

    def _choice(self, state: ClusterState, client: int) -> int:
        """The cluster whose model has the least loss on the client's own samples (algorithm 1, line 12)."""
        options = self._course.options(state, client)
        if len(options) < 2 or len(state.models) == 1:
            return options[0] if options else 0
        losses = {
            rank: evaluate(self._config.model, state.model_of(number), self._samples).loss
            for rank, number in enumerate(options)
        }
        return options[choose_cluster(losses)]

    # --- judging ----------------------------------------------------------------------------------------------------

    def _shown(self, round: UploadRound, state: ClusterState, entry: RoundRecords, client: int) -> bytes | None:
        """A suspected member's model with noise, sealed to each judge."""
        case = next((case for case in state.cases if client in case.members), None)
        if case is None:
            return b""
        trained = self._training.result(entry, client)
        if trained is None:
            return None
        start, model = flatten(self._training.began(round).model_of(case.cluster)), flatten(trained)
        deviation = self._course.terms.shown_noise * float(np.linalg.norm(model - start)) / np.sqrt(len(model))
        rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
        noisy = (model + deviation * rng.standard_normal(len(model))).astype("<f4").tobytes()
        judges = {judge: self._rounds().members[judge].mailbox_key for judge in case.committee}
        return b"".join(seal(key, noisy, shown_to(round, client, judge), os.urandom) for judge, key in judges.items())

    def _votes(self, round: UploadRound, state: ClusterState, client: int) -> bytes | None:
        """This judge's ballots on each suspected cluster that it is to judge; None while it trains for them."""
        cases = [case for case in state.cases if client in case.committee]
        found = self._computed(round, lambda: (_judge_all, [self._task(round, state, case, client) for case in cases]))
        if found is None:
            return None
        for each in found:
            self._journal.keep(f"evidence-{round.entry.number}-{each.cluster}", each.evidence)
        return b"".join(each.ballot for each in found)

    def _task(self, round: UploadRound, state: ClusterState, case: Case, client: int) -> "_Judging":
        length = 4 * state.layout.length + OVERHEAD
        base = round.rounds.base_of(round.entry.number)
        digests = {member: base.commits[member].digest for member in case.members if member in base.commits}
        blobs = fetch_available(self._store, digests, length * len(case.committee))
        place = length * case.committee.index(client)
        shown = {m: self._open(round, m, client, blob[place : place + length]) for m, blob in blobs.items()}
        size = state.sizes
        config = self._config
        return _Judging(
            cluster=case.cluster,
            judge=client,
            model=config.model,
            training=config.training,
            strategy=make_strategy(config.strategy.name, config.strategy.options),
            start=self._training.began(round).model_of(case.cluster),
            reference=state.reference_of(case.cluster),
            shown=tuple(shown.get(member) for member in case.members),
            steps=tuple(size[member] / size[client] for member in case.members),
            labels=state.labels_of(case.cluster),
            samples=self._samples,
            rule=self._course.terms.rule,
            shared=self._training.shared(),
            place=self._training.again(state),
        )

    def _open(self, round: UploadRound, member: int, judge: int, sealed: bytes) -> np.ndarray | None:
        """A model that was shown to this judge: float32 (d,); None if it is none."""
        mailboxes = (self._keys.mailbox, *self._keys.past_mailboxes)
        try:
            vector = np.frombuffer(unseal(mailboxes, sealed, shown_to(round, member, judge)), "<f4")
        except (NotForReader, ValueError):
            return None
        return vector if len(vector) == round.previous.layout.length and np.isfinite(vector).all() else None


class _ClusterTraining(LocalTraining):
    """Trains the model of a client's group."""

    def __init__(
        self,
        store: ContentStore,
        config: FederationConfig,
        samples: Samples,
        journal: Journal,
        executor: Executor | None,
        place: Callable[[RoundRecords], UploadRound],
        course: Course,
    ) -> None:
        super().__init__(store, config, samples, journal, executor)
        self._place, self._course = place, course

    def began(self, round: UploadRound) -> ClusterState:
        """What the latest round of training began with."""
        return fetch_model(self._store, bytes.fromhex(round.previous.began), self._config)

    def again(self, state: ClusterState) -> dict[str, int]:
        """Place of a training that repeats the latest round with other batches.

        Two sums over the same models, weighed differently, could show one of them.
        """
        seed = (self._config.federation.seed + 1) % (1 << 63)
        return {"round": state.trained, "rounds": self._course.training_rounds, "seed": seed}

    def _begin(self, entry: RoundRecords, client: int) -> tuple[Tensors, dict[str, int]]:
        round = self._place(entry)
        state: ClusterState = round.previous
        if state.stage == "train":
            place = {"round": state.trained + 1, "rounds": self._course.training_rounds}
            model = state.model_of(max(0, entry.draws[client].samples - 1))
            return model, {**place, "seed": self._config.federation.seed}
        own = next((case.cluster for case in state.cases if client in case.members), 0)
        return self.began(round).model_of(own if state.stage == "show" else 0), self.again(state)


def _first(psi: str, party: Party) -> bytes:
    return comparing(psi).first(party)


@dataclass(frozen=True)
class _Judging:
    """All that a judge needs to judge one cluster; it goes to a worker as it is."""

    cluster: int
    judge: int
    model: ModelSpec
    training: TrainingSettings
    strategy: Strategy
    start: Tensors = field(repr=False)
    reference: Tensors = field(repr=False)
    shown: tuple[np.ndarray | None, ...] = field(repr=False)
    steps: tuple[float, ...]
    labels: Counts
    samples: Samples = field(repr=False)
    rule: Rule
    shared: Samples | None = field(repr=False)
    place: dict[str, int]


@dataclass(frozen=True)
class _Found:
    cluster: int
    ballot: bytes
    evidence: bytes = field(repr=False)


def _judge_all(tasks: list[_Judging]) -> list[_Found]:
    return [_judge(task) for task in tasks]


def _judge(task: _Judging) -> _Found:
    """Train on samples in the proportions of the cluster's labels, and hold each member's update against that."""
    rng = np.random.default_rng([task.place["seed"], task.place["round"], task.judge, task.cluster])
    alike = resampled(task.samples, np.array(task.labels), rng)
    work = (task.model, task.start, alike, task.shared, task.strategy, task.training)
    try:
        own = flatten(train(*work, **task.place, client=task.judge).tensors)
    except DivergedTraining as fault:
        raise Diverged(str(fault)) from None
    start, layout = flatten(task.start), Layout.of(task.start)
    rows: list[Counts | None] = []
    directions: list[Direction | None] = []
    for vector, steps in zip(task.shown, task.steps, strict=True):
        rows.append(None if vector is None else _right(task, unflatten(vector, layout)))
        directions.append(None if vector is None else direction(vector - start, own - start, steps))
    tested = tuple(np.bincount(task.samples.y, minlength=task.model.classes).tolist())
    evidence = Evidence(tested, _right(task, task.reference), tuple(rows), tuple(directions))
    salt = os.urandom(SALT_BYTES)
    models = [bytes(32) if vector is None else cid_of(vector.tobytes()).digest for vector in task.shown]
    ballot = Ballot(task.judge, evidence.votes(task.rule), evidence.digest(models, salt))
    kept = {"evidence": asdict(evidence), "models": [each.hex() for each in models], "salt": salt.hex()}
    return _Found(task.cluster, ballot.to_bytes(), json.dumps(kept).encode())


def _right(task: _Judging, model: Tensors) -> Counts:
    return evaluate(task.model, model, task.samples).right
