"""A client's part of a federation with clusters: it compares, chooses a cluster, trains, and shows or judges models.

What follows from its data leaves it blinded, sealed or under masks only. The secret of a comparison, without which
nobody can tell what was blinded, is in the journal until all have answered, and destroyed then; the secret that opens
what it sent, until nobody can be suspected for it any more (``node.shown_uploads``).
"""

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

import numpy as np

from chain.keys import Keys
from ipfs.store import ContentStore
from node.clustering.comparing import Comparing, Party, Received, comparing, part_of, upload
from node.clustering.course import Course
from node.clustering.mailbox import NotForReader, seal, unseal
from node.clustering.sets import MAX_ELEMENTS, label_counts
from node.clustering.state import Case, ClusterState
from node.clustering.training import choose_cluster
from node.config import FederationConfig
from node.content import Update, fetch_available, fetch_model
from node.journal import Journal
from node.judging import Judging, judge_all
from node.learning.samples import Samples
from node.learning.strategies import make_strategy
from node.learning.training import evaluate
from node.local_training import LocalTraining
from node.local_work import CannotTakePart
from node.masking.keys import SECRET_BYTES
from node.rounds import RoundRecords, Rounds
from node.shown_uploads import ShownUploads
from node.tensors import Tensors, flatten
from node.uploads.cluster_rounds import (
    counts_sent_before,
    course_of,
    first_message,
    session_of,
    shown_bytes,
    shown_to,
    state_before,
    sums_before,
)
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
        self._shown = ShownUploads(store, config, journal, place)
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
                counts = label_counts(self._samples.y, self._course.labels)
                # Counts never change: a second sum without somebody would show that client's. So they are summed once.
                return np.zeros_like(counts) if counts_sent_before(round) else counts
            case "show":
                return self._show(round, state, entry, client)
            case "vote":
                return self._votes(round, state, client)
        position = entry.order.index(client)
        if not any(position in group for group in round.graph.groups):
            return b""
        if self._course.terms.seats and self._opens_uploads:
            self._shown.keep(entry.number)
        return self._training.result(entry, client)

    def settle(self, client: int) -> None:
        """Destroy the secret that opens an upload, if nobody can be suspected for that any more."""
        self._shown.settle(self._rounds(), client)

    def leave(self) -> None:
        """Destroy what strategies keep, and the secrets of a comparison and of an upload."""
        self._training.leave()
        self._journal.keep(_SECRET, b"")
        self._shown.destroy()

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
        first = first_message(round, partner)
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

    @property
    def _opens_uploads(self) -> bool:
        return self._course.terms.shown == "upload"

    def _show(self, round: UploadRound, state: ClusterState, entry: RoundRecords, client: int) -> bytes | None:
        """What a suspected member shows, sealed to each judge; None while it trains for that."""
        case = next((case for case in state.cases if client in case.members), None)
        if case is None:
            return b""
        plain = self._shown.plain(round) if self._opens_uploads else self._noised(round, case, entry, client)
        if plain is None:
            return None
        judges = {judge: self._rounds().members[judge].mailbox_key for judge in case.committee}
        return b"".join(seal(key, plain, shown_to(round, client, judge), os.urandom) for judge, key in judges.items())

    def _noised(self, round: UploadRound, case: Case, entry: RoundRecords, client: int) -> bytes | None:
        """A model with noise, as in the paper: trained anew, as nothing ties it to what was sent anyhow."""
        trained = self._training.result(entry, client)
        if trained is None:
            return None
        start, model = flatten(self._training.began(round).model_of(case.cluster)), flatten(trained)
        deviation = self._course.terms.shown_noise * float(np.linalg.norm(model - start)) / np.sqrt(len(model))
        rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
        return (model + deviation * rng.standard_normal(len(model))).astype("<f4").tobytes()

    def _votes(self, round: UploadRound, state: ClusterState, client: int) -> bytes | None:
        """This judge's ballots on each suspected cluster that it is to judge; None while it trains for them."""
        stored = self._journal.read(round.entry.number, "update")
        if stored is not None:
            return stored
        cases = [case for case in state.cases if client in case.committee]
        found = self._computed(round, lambda: (judge_all, [self._task(round, state, case, client) for case in cases]))
        if found is None:
            return None
        # Evidence first: ballots that are in the journal have theirs there, whenever the process is killed.
        for each in found:
            self._journal.keep(f"evidence-{round.entry.number}-{each.cluster}", each.evidence)
        ballots = b"".join(each.ballot for each in found)
        self._journal.write(round.entry.number, "update", ballots)
        return ballots

    def _task(self, round: UploadRound, state: ClusterState, case: Case, client: int) -> Judging:
        models = self._models(round, case, self._told(round, state, case, client))
        size = state.sizes
        config = self._config
        return Judging(
            cluster=case.cluster,
            judge=client,
            model=config.model,
            training=config.training,
            strategy=make_strategy(config.strategy.name, config.strategy.options),
            start=self._training.began(round).model_of(case.cluster),
            reference=state.reference_of(case.cluster),
            shown=tuple(models.get(member) for member in case.members),
            steps=tuple(size[member] / size[client] for member in case.members),
            labels=state.labels_of(case.cluster),
            samples=self._samples,
            rule=self._course.terms.rule,
            shared=self._training.shared(),
            place=self._training.again(state),
        )

    def _told(self, round: UploadRound, state: ClusterState, case: Case, judge: int) -> dict[int, bytes]:
        """What members of a suspected cluster showed to this judge; who sealed nothing to it is left out."""
        length = shown_bytes(self._config, state.layout)
        base = round.rounds.base_of(round.entry.number)
        digests = {member: base.commits[member].digest for member in case.members if member in base.commits}
        blobs = fetch_available(self._store, digests, length * len(case.committee))
        place, told = length * case.committee.index(judge), {}
        mailboxes = (self._keys.mailbox, *self._keys.past_mailboxes)
        for member, blob in blobs.items():
            with suppress(NotForReader):
                told[member] = unseal(mailboxes, blob[place : place + length], shown_to(round, member, judge))
        return told

    def _models(self, round: UploadRound, case: Case, told: dict[int, bytes]) -> dict[int, np.ndarray]:
        """The models that are judged: float32 (d,) by member; who showed nothing that can be judged has none."""
        if self._opens_uploads:
            return self._shown.models(round, case, told)
        length = 4 * round.previous.layout.length
        vectors = {member: np.frombuffer(data, "<f4") for member, data in told.items() if len(data) == length}
        return {member: vector for member, vector in vectors.items() if np.isfinite(vector).all()}


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
        """Place of a training that repeats the latest round with other batches: a judge's, or for a noised model."""
        seed = (self._config.federation.seed + 1) % (1 << 63)
        return {"round": state.trained, "rounds": self._course.training_rounds, "seed": seed}

    def _begin(self, entry: RoundRecords, client: int) -> tuple[Tensors, dict[str, int]]:
        round = self._place(entry)
        state: ClusterState = round.previous
        if state.stage == "train":
            place = {"round": state.trained + 1, "rounds": self._course.training_rounds}
            model = state.model_of(max(0, entry.draws[client].samples - 1))
            # Held again, it takes other batches: no update is to be in two sums. Odd steps are of ``again``.
            seed = self._config.federation.seed + 2 * sums_before(round, self._place)
            return model, {**place, "seed": seed % (1 << 63)}
        own = next(case.cluster for case in state.cases if client in case.members)
        return self.began(round).model_of(own), self.again(state)


def _first(psi: str, party: Party) -> bytes:
    return comparing(psi).first(party)
