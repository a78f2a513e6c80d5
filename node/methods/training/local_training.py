"""A client's local training: started once a round, by a trainer, its result kept in the journal.

So is the strategy's state, whatever becomes of the round. It is there before the update is: a client that is killed in
between trains again, from the state that it had before, to the same result.
"""

from collections.abc import Callable
from concurrent.futures import Future

from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.tensor_views import parts
from fedgrove.node.base.tensors import Tensors, load
from fedgrove.node.learning.local_update import DivergedTraining, HeldOutSums, LocalUpdate, RoundPosition
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.training.codec import ModelUpdate, server_of
from fedgrove.node.methods.training.learner import Trainer
from fedgrove.node.methods.training.metric_sums import are_repeated, fault_of, metric_names, nothing_measured, sums_of
from fedgrove.node.protocol.journal import STATE, Journal, JournalDamaged
from fedgrove.node.protocol.local_work import BeginsAnew, CannotTakePart, Diverged, StateLost
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import PPM, FederationConfig

METRICS = "metrics"
"""Name of a member's own metrics in its journal."""


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
    """

    def __init__(
        self,
        store: ContentReader,
        config: FederationConfig,
        trainer: Trainer,
        journal: Journal,
        inputs: Callable[[RoundRecords], RoundInputs],
    ) -> None:
        self._store = store
        self._config = config
        self._trainer = trainer
        self._journal = journal
        self._inputs = inputs
        self._running: tuple[int, Future[LocalUpdate]] | None = None
        self._anew = 0  # the last round in which it turned to the first model
        self._known: tuple[int, bool] | None = None
        self._evaluating: tuple[int, Future[HeldOutSums]] | None = None

    def samples(self, current: RoundRecords, client: int) -> int:
        return len(self._trainer)

    def result(self, current: RoundRecords, client: int) -> ModelUpdate | None:
        """The trained tensors of a round, and how its global model did; None while training is under way.

        In the round that only evaluates the last model: no tensors.

        Raises
        ------
        CannotTakePart, Diverged, InvalidContent
            Training failed, or what it starts from is not what the terms say.
        StateLost
            Once; asked again, it trains as in a client's first round.
        BeginsAnew
            Once; asked again, it trains from the first model, as in a client's first round.
        """
        try:
            if self._only_evaluates(current):
                return self._evaluated(current, client)
            return self._result(current, client)
        except DivergedTraining as fault:
            raise Diverged(str(fault)) from None
        except DatasetError as fault:
            raise CannotTakePart(str(fault)) from None

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
            future = self._running[1]
            return future.result() if future.done() else None
        except (DivergedTraining, CannotTakePart) as fault:
            if self._anew == current.number or not self._may_begin_anew(current):
                raise
            self._anew, self._running = current.number, None
            raise BeginsAnew(str(fault)) from None

    def _may_begin_anew(self, current: RoundRecords) -> bool:
        """Whether a client that cannot train from the round's model trains from the first one."""
        return self._inputs(current).begins_anew

    def _may_measure_nothing(self, current: RoundRecords) -> bool:
        """Whether a client that cannot evaluate the last model says so, and does not sit out."""
        return self._may_begin_anew(current)

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
        if are_repeated(self._inputs(current)):
            metrics = nothing_measured(metric_names(self._config))
            self._journal.write(number, METRICS, metrics.to_bytes())
            return ModelUpdate({}, metrics)
        if self._evaluating is None or self._evaluating[0] != number:
            model, _ = self._begin(current, client)
            self._evaluating = (number, self._trainer.measure(model, self._state(number)))
        future = self._evaluating[1]
        if not future.done():
            return None
        assert self._config.evaluation is not None
        unmeasured = ""
        try:
            found = future.result()
            metrics, unmeasured = self._sums(found), self._unmeasured(found)
        except CannotTakePart:  # the last model is in force, whether or not anybody can evaluate it
            if not self._may_measure_nothing(current):
                raise
            metrics = nothing_measured(metric_names(self._config))
        self._journal.write(number, METRICS, metrics.to_bytes())
        self._evaluating = None
        return ModelUpdate({}, metrics, unmeasured)

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
        if self._anew == current.number or are_repeated(
            self._inputs(current)
        ):  # or it is the first model that was measured
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
            "number": current.number,
            "rounds": federation.rounds,
            "seed": federation.seed,
            "sampling_rate": rate,
        }

    def _start(self, current: RoundRecords, client: int) -> Future[LocalUpdate]:
        model, position = self._begin(current, client)
        anew = self._anew == current.number
        return self._trainer.start(model, position, client, {} if anew else self._state(current.number))

    def _state(self, number: int) -> Tensors:
        """The strategy's state after this client's last round before ``number``; empty in its first."""
        try:
            stored = self._journal.state(before=number)
        except JournalDamaged as fault:
            self._journal.forget_state(before=number)
            raise StateLost(str(fault).rpartition(": ")[0]) from None
        return {} if stored is None else load(stored)
