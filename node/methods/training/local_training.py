"""A client's local training: started once a round, by a trainer, its result kept in the journal.

So is the strategy's state, whatever becomes of the round. It is there before the update is: a client that is killed in
between trains again, from the state that it had before, to the same result.

Who takes part does not depend on the data. Where the training fails, what it began with goes up in place of an update,
and a word under masks counts it (``node.methods.training.metric_sums``).
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import numpy as np

from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.fault_places import place_in_code
from fedgrove.node.base.tensor_views import parts
from fedgrove.node.base.tensors import Tensors, load
from fedgrove.node.learning.local_update import DivergedTraining, HeldOutSums, LocalUpdate, RoundPosition
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.training.codec import ModelUpdate, server_of
from fedgrove.node.methods.training.learner import Trainer
from fedgrove.node.methods.training.metric_sums import fault_of, metric_names, nothing_measured, sums_of
from fedgrove.node.protocol.journal import STATE, Journal, JournalDamaged
from fedgrove.node.protocol.local_work import BeginsAnew, CannotTakePart, StateLost
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import PPM, FederationConfig

METRICS = "metrics"
"""Name of a member's own metrics in its journal."""

_Found = TypeVar("_Found")


class LocalTraining:
    """Trains the round's global model on private data.

    Parameters
    ----------
    store : ContentReader
        For the global model and the shared set.
    config : FederationConfig
        Model, strategy and training settings.
    trainer : Trainer
        Trains on the private data.
    journal : Journal
        Keeps the result, encrypted, so that a restarted client does not train again.
    inputs : callable
        The public inputs of a sealed round: they say whether it only evaluates the last model.
    weight : callable
        The member's own weight in a round (``node.protocol.weight``).
    """

    def __init__(
        self,
        store: ContentReader,
        config: FederationConfig,
        trainer: Trainer,
        journal: Journal,
        inputs: Callable[[RoundRecords], RoundInputs],
        weight: Callable[[RoundRecords], int],
    ) -> None:
        self._store = store
        self._config = config
        self._trainer = trainer
        self._journal = journal
        self._inputs = inputs
        self._weight = weight
        self._running: tuple[int, Future[LocalUpdate]] | None = None
        self._anew = 0  # the last round in which it turned to the first model
        self._known: tuple[int, bool] | None = None
        self._evaluating: tuple[int, Future[HeldOutSums]] | None = None

    def samples(self, current: RoundRecords, client: int) -> int:
        return self._weight(current)

    def result(self, current: RoundRecords, client: int, last: bool = False) -> ModelUpdate | None:
        """The trained tensors of a round, and how its global model did; None while training is under way.

        In the round that only evaluates the last model: no tensors. Where the training failed: what it began with.

        Raises
        ------
        InvalidContent
            What it starts from is not what the terms say.
        CannotTakePart
            Training failed, perhaps because of the model that it starts from.
        StateLost
            Once; asked again, it trains as in a client's first round.
        BeginsAnew
            Once; asked again, it trains from the first model, as in a client's first round.
        """
        try:
            begun = self._evaluated if self._only_evaluates(current) else self._result
            found = begun(current, client)
            if found is None and last:
                raise CannotTakePart("the training was not ready when the last slot for a commitment ended")
            return found
        except CannotTakePart as fault:
            return self._unchanged(current, client, fault)

    def trained(self, current: RoundRecords, client: int) -> Tensors | None:
        """The tensors of ``result`` alone; raises as that does."""
        found = self.result(current, client)
        return None if found is None else found.tensors

    def settle(self, client: int) -> None:
        """Nothing: a strategy's state is for the client's next round, whichever that is."""

    def leave(self) -> None:
        """A strategy's state is in the files of rounds, which the client destroys."""
        self._journal.forget_state(before=1 << 62)

    def _result(self, current: RoundRecords, client: int) -> ModelUpdate | None:
        stored = self._stored(current.number)
        if stored is not None:
            return stored
        update = self._update(current, client)
        if update is None:
            return None
        self._running = None
        if update.state:
            self._journal.write(current.number, STATE, parts(update.state))
        metrics = self._metrics(current, update)
        if metrics is not None:
            self._journal.write(current.number, METRICS, metrics.to_bytes())
        self._journal.write(current.number, "update", parts(update.tensors))
        return ModelUpdate(update.tensors, metrics, self._unmeasured(update.measured))

    def _update(self, current: RoundRecords, client: int) -> LocalUpdate | None:
        """What the training comes to, started if need be; None while it runs. Raises as ``result``.

        Others may bring the model to values from which all training overflows, or from which a task's code fails. If
        everybody just sat out, that model would stay in force for good.
        """
        try:
            if self._running is None or self._running[0] != current.number:
                self._running = (current.number, self._start(current, client))
            return _outcome(self._running[1])
        except CannotTakePart as fault:
            if self._anew == current.number or not self._may_begin_anew(current):
                raise
            self._anew, self._running = current.number, None
            raise BeginsAnew(fault) from None

    def _may_begin_anew(self, current: RoundRecords) -> bool:
        """Whether a client that cannot train from the round's model trains from the first one."""
        return self._inputs(current).begins_anew

    def _unchanged(self, current: RoundRecords, client: int, fault: CannotTakePart) -> ModelUpdate:
        """What goes up where the training failed, or the evaluation in a round without any: nothing new."""
        nothing = nothing_measured(metric_names(self._config)) if self._config.evaluation is not None else None
        if self._only_evaluates(current):
            return ModelUpdate({}, nothing, fault=fault)
        began, _ = self._begin(current, client)
        if self._is_to_blame(began):
            raise fault
        return ModelUpdate(began, nothing, fault=fault)

    def _is_to_blame(self, model: Tensors) -> bool:
        """Whether a model is so large that others may have made it one from which nobody can train.

        Who cannot train from it sits out then: if all sent it back, it would stay in force for good. The model is
        public, so this says no more of the data than that they cannot be trained on from there. Under a mechanism of
        privacy its ε has to hold for this as well, so that nobody ever sits out.
        """
        if self._config.privacy is not None:
            return False
        most = self._config.masking.bound / 2
        return any(float(np.abs(tensor).max(initial=0)) > most for tensor in model.values())

    def _only_evaluates(self, current: RoundRecords) -> bool:
        if self._config.evaluation is None:
            return False
        if self._known is None or self._known[0] != current.number:
            self._known = (current.number, self._inputs(current).only_evaluates)
        return self._known[1]

    def _evaluated(self, current: RoundRecords, client: int) -> ModelUpdate | None:
        number = current.number
        stored = self._journal.read(number, METRICS)
        if stored is not None:
            return ModelUpdate({}, MetricSums.from_bytes(stored))
        if self._evaluating is None or self._evaluating[0] != number:
            model, _ = self._begin(current, client)
            self._evaluating = (number, self._trainer.measure(model, self._state(number)))
        found = _outcome(self._evaluating[1])
        if found is None:
            return None
        metrics = self._sums(found)
        self._journal.write(number, METRICS, metrics.to_bytes())
        self._evaluating = None
        return ModelUpdate({}, metrics, self._unmeasured(found))

    def _stored(self, number: int) -> ModelUpdate | None:
        """What an earlier process trained and measured in this round; metrics are there before the update is."""
        update, metrics = (self._journal.read(number, name) for name in ("update", METRICS))
        if update is None or (metrics is None and self._config.evaluation is not None):
            return None
        return ModelUpdate(load(update), None if metrics is None else MetricSums.from_bytes(metrics))

    def _metrics(self, current: RoundRecords, update: LocalUpdate) -> MetricSums | None:
        """What was measured, of the metrics in the terms; CannotTakePart where the task has none of a name."""
        evaluation = self._config.evaluation
        if evaluation is None or update.measured is None:
            return None
        if self._anew == current.number:  # it is the first model that was measured
            return nothing_measured(metric_names(self._config))
        return self._sums(update.measured)

    def _sums(self, found: HeldOutSums) -> MetricSums:
        """What was measured, of the metrics in the terms; raises as ``sums_of``."""
        assert self._config.evaluation is not None
        return sums_of(found, self._config.evaluation, len(self._config.classes))

    def _unmeasured(self, found: HeldOutSums | None) -> str:
        """Why a member that evaluated states no metrics; kept by nobody, so that it is said once."""
        settings = self._config.evaluation
        return "" if found is None or settings is None else fault_of(found, settings)

    def _begin(self, current: RoundRecords, client: int) -> tuple[Tensors, RoundPosition]:
        anew = self._anew == current.number
        digest = self._inputs(current).rounds.first_digest if anew else current.opened.model_digest
        published = load(self._store.fetch(digest, self._config.max_blob_bytes))
        server = server_of(self._config)
        server.check(published)
        federation, rate = self._config.federation, self._config.rate_ppm(current.number) / PPM
        return server.start(published), {
            "number": self._first_on_model(current),
            "rounds": federation.rounds,
            "seed": federation.seed,
            "sampling_rate": rate,
        }

    def _first_on_model(self, current: RoundRecords) -> int:
        """The round as training counts it: where updates have bounds, the first one that began with the same model.

        A round that is repeated then gives the same update, so that both sums together show no more than one.
        """
        if self._config.bounds is None:
            return current.number
        digest = current.opened.model_digest
        rounds = self._inputs(current).rounds.rounds
        return min(number for number, each in rounds.items() if each.opened.model_digest == digest)

    def _start(self, current: RoundRecords, client: int) -> Future[LocalUpdate]:
        model, position = self._begin(current, client)
        state = {} if self._anew == current.number else self._state(current.number)
        try:
            return self._trainer.start(model, position, client, state)
        except DatasetError as fault:  # of the shared set
            raise CannotTakePart(str(fault), "the shared set cannot be read") from None

    def _state(self, number: int) -> Tensors:
        """The strategy's state after this client's last round before ``number``; empty in its first."""
        try:
            stored = self._journal.state(before=number)
        except JournalDamaged as fault:
            self._journal.forget_state(before=number)
            raise StateLost(str(fault).rpartition(": ")[0]) from None
        return {} if stored is None else load(stored)


def _outcome(future: Future[_Found]) -> _Found | None:
    """What a training or an evaluation came to, None while it runs; CannotTakePart where it failed, however it did.

    Whatever it raises follows from the data, also what nobody expected of it.
    """
    if not future.done():
        return None
    try:
        return future.result()
    except CannotTakePart:
        raise
    except DivergedTraining as fault:
        raise CannotTakePart(str(fault), "the training left the finite numbers") from None
    except Exception as fault:
        raise CannotTakePart(f"the training raised {fault!r}", f"the training raised {place_in_code(fault)}") from None
