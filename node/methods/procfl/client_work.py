"""A client's part of a federation with clusters: it compares, chooses a cluster, trains, and shows or judges models.

Anything that follows from its data leaves it blinded, sealed or under masks only. The secret of a comparison, without
which nobody learns what was blinded, is in the journal until all have answered, and destroyed then; the secret that
opens what it sent, until nobody can be suspected for it any more (``node.methods.procfl.shown_uploads``).
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from fedgrove.node.masking.keys import SECRET_BYTES
from fedgrove.node.methods.procfl.codec import ClusterUpdate
from fedgrove.node.methods.procfl.committee_work import CommitteeWork
from fedgrove.node.methods.procfl.comparing import Party, answer_lengths, answers, blinded_set
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.labels import label_shares
from fedgrove.node.methods.procfl.local_training import ClusterTraining
from fedgrove.node.methods.procfl.mailbox import seal
from fedgrove.node.methods.procfl.round_inputs import (
    counts_sent_before,
    course_of,
    first_message,
    session_of,
    state_before,
)
from fedgrove.node.methods.procfl.sets import MAX_ELEMENTS
from fedgrove.node.methods.procfl.shown_uploads import ShownUploads
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.training import choose_cluster
from fedgrove.node.methods.training.learner import LearnedData, learning_of
from fedgrove.node.methods.training.network_trainer import NetworkTrainer
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.method import Workplace
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import FederationConfig

_SECRET = "comparison"

Work = tuple[Any, ...]
"""A function and its arguments, which go to a worker."""


class LocalClusters:
    """Does what the stage of each round asks of this client."""

    def __init__(self, config: FederationConfig, workplace: Workplace[ClusterState, LearnedData]) -> None:
        store, journal, inputs = workplace.store, workplace.journal, workplace.inputs
        self._store, self._config, self._journal = store, config, journal
        self._rounds, self._inputs = workplace.rounds, inputs
        self._executor = workplace.executor
        self._course: Course = course_of(config)
        self._data = learning_of(config).trainer(workplace)
        self._weight = workplace.weight
        self._training = ClusterTraining(store, config, self._data, journal, inputs, self._weight, self._course)
        self._shown = ShownUploads(store, config, journal, inputs)
        self._committee: CommitteeWork | None = None  # the terms allow none where a task is trained
        if isinstance(self._data, NetworkTrainer):
            own = (store, config, self._data, journal, self._course)
            self._committee = CommitteeWork(*own, self._training, self._shown, self._rounds, workplace.keys)
        self._running: tuple[int, Future] | None = None

    def samples(self, current: RoundRecords, client: int) -> int:
        """The client's statement when it draws: the size of its set, or the number of ``Course.number_of``.

        Raises CannotTakePart: its weight is more than can be compared.
        """
        state = state_before(self._rounds(), current, self._config, self._store)
        if state.stage == "blind":
            weight = self._weight(current)
            if weight > MAX_ELEMENTS:
                raise CannotTakePart(f"its weight is {weight}, but only {MAX_ELEMENTS} samples can be compared")
            return weight
        if state.stage != "train":
            return 1
        return self._course.number_of(state, client, self._choice(state, client), self._label_shares())

    def result(self, current: RoundRecords, client: int, last: bool = False) -> ClusterUpdate | None:
        """The client's upload in a round; None while it computes.

        Raises CannotTakePart, StateLost, InvalidContent.
        """
        inputs = self._inputs(current)
        state = inputs.previous
        if not inputs.only_evaluates:
            match state.stage:
                case "blind":
                    return self._first(inputs, client)
                case "answer":
                    return self._answers(inputs, state, client)
        if self._journal.kept(_SECRET):
            self._journal.keep(_SECRET, b"")
        match state.stage:
            case "labels":
                # They never change: a second sum without somebody would show that client's. So they are summed once.
                shares = np.array(self._label_shares())
                return np.zeros_like(shares) if counts_sent_before(inputs) else shares
            case "show" if self._committee is not None:
                return self._committee.show(inputs, state, current, client)
            case "vote" if self._committee is not None:
                return self._committee.votes(inputs, state, client, self._computed)
        position = current.order.index(client)
        if not any(position in group.positions for group in inputs.graph.groups):
            return b""
        answers_for_it = self._course.terms.seats and not inputs.only_evaluates
        if self._committee is not None and answers_for_it and self._committee.opens_uploads:
            self._shown.keep(current.number)
        return self._training.result(current, client, last)

    def settle(self, client: int) -> None:
        """Destroy the secret that opens an upload, if nobody can be suspected for that any more."""
        self._shown.settle(self._rounds(), client)

    def leave(self) -> None:
        """Destroy what strategies keep, and the secrets of a comparison and of an upload."""
        self._training.leave()
        self._journal.keep(_SECRET, b"")
        self._shown.destroy()

    # --- comparisons ------------------------------------------------------------------------------------------------

    def _first(self, inputs: RoundInputs[ClusterState], client: int) -> bytes | None:
        """The first message of a comparison; its secret is in the journal before."""
        session = session_of(inputs)
        secret = self._secret(session)
        if secret is None:
            secret = os.urandom(SECRET_BYTES)
            self._journal.keep(_SECRET, session + secret)
        size = inputs.current.draws[client].samples
        return self._computed(inputs, lambda: (blinded_set, self._party(session, client, secret, size)))

    def _answers(self, inputs: RoundInputs[ClusterState], state: ClusterState, client: int) -> bytes | None:
        """Answers to the others' blinded sets, sealed to the counter."""
        if client not in state.sets:
            return b""
        session = bytes.fromhex(state.session)
        secret = self._secret(session)
        if secret is None:
            raise CannotTakePart("its journal has lost the secret of its comparisons")

        def work() -> Work:
            blinded = {partner: first_message(inputs, partner) for partner in answer_lengths(state.sizes, client)}
            return answers, self._party(session, client, secret, state.sizes[client]), state.sizes, blinded

        plain = self._computed(inputs, work)
        if plain is None:
            return None
        return seal(self._course.terms.counter_key, plain, session, os.urandom)

    def _party(self, session: bytes, client: int, secret: bytes, size: int) -> Party:
        """Its side of a comparison: a set of the size that it stated, so that the messages' sizes say nothing more."""
        return Party(session, client, tuple(label_shares(self._label_counts(), size).tolist()), secret)

    def _secret(self, session: bytes) -> bytes | None:
        """The secret of a comparison; None if this client has none."""
        kept = self._journal.kept(_SECRET) or b""
        return kept[len(session) :] if kept.startswith(session) else None

    def _computed(self, inputs: RoundInputs[ClusterState], work: Callable[[], Work]) -> Any:
        """Result of a round's work; None while it runs. ``work`` is called once."""
        number = inputs.current.number
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

    def _label_counts(self) -> np.ndarray:
        """Samples of each label; as many of each where they cannot be counted, as nobody is to learn of that."""
        try:
            return self._data.label_counts(self._course.labels)
        except CannotTakePart:
            return np.ones(self._course.labels, np.int64)

    def _label_shares(self) -> tuple[int, ...]:
        return tuple(label_shares(self._label_counts()).tolist())

    def _choice(self, state: ClusterState, client: int) -> int:
        """The cluster whose model has the least loss on the client's own samples (algorithm 1, line 12)."""
        options = self._course.options(state, client)
        if len(options) < 2 or len(state.models) == 1 or self._course.is_global(state):
            return options[0] if options else 0
        try:
            losses = {rank: self._data.training_loss(state.model_of(number)) for rank, number in enumerate(options)}
        except CannotTakePart:
            return options[0]
        return options[choose_cluster(losses)]
