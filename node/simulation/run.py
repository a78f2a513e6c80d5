"""One model for all clients: a round's uploads become the next model as the scenario's mechanism says."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors, unflatten
from fedgrove.node.learning.server_side import ServerSide
from fedgrove.node.privacy.weighted import bound_of_weights
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.loop import SimulationRun
from fedgrove.node.simulation.mechanisms import Uploads, releases_of
from fedgrove.node.simulation.record import Released, RoundResult
from fedgrove.node.simulation.tasks import TaskMaker
from fedgrove.node.simulation.uploads import Encoder, Measured
from fedgrove.node.simulation.work import ClientResult, MembersEvaluation, SliceScore, TrainingTask
from fedgrove.node.simulation.workers import PendingTest


class Simulation(SimulationRun):
    """A scenario without clustering, of a network or a task."""

    def _check_scenario(self) -> None:
        if self._scenario.method.several:
            raise InvalidConfig("a scenario with clusters is simulated by fedgrove.node.simulation.clustered")

    def _prepare(self) -> None:
        self._releases = releases_of(self._scenario, self._layout)
        self._server = server_of(self._scenario)
        self._models = [self._server.first(self._models[0])]

    def _begin(self, directory: Path, scratch: Path) -> TaskMaker:
        reach = self._workforce.reach
        data = self._subject.place(reach, scratch)
        self._maker = TaskMaker(self._scenario, self._subject.terms, data, reach, scratch)
        return self._maker

    def _restore(self, kept: Tensors) -> None:
        self._models = [kept]
        self._releases.resume(self._rounds)

    def _round(self, number: int, drawn: tuple[int, ...]) -> RoundResult:
        encoder = self._releases.encoder(number, len(drawn))
        if isinstance(encoder, Measured):
            measured = self._uploads(number, drawn, encoder)
            encoder = self._releases.encoder(number, len(drawn), measured.clients)
        uploads = self._uploads(number, drawn, encoder)
        vector, released = self._releases.close(uploads)
        if vector is not None:  # else there was no sum: what was published stays, as after a failed round
            self._models = [self._server.next(lambda: self.tensors, unflatten(vector, self._layout))]
        members = self._releases.members(uploads)
        return replace(round_result(number, uploads.clients), privacy=released, members=members)

    def _uploads(self, number: int, drawn: tuple[int, ...], encoder: Encoder) -> Uploads:
        start = self._server.start(self.tensors)
        tasks, keep = self._tasks_of(number, drawn, encoder, start), partial(self._files.keep_state, number)
        sums, results = self._workforce.train(tasks, {0: drawn}, encoder.length(self._layout), keep)
        return Uploads(number, sums[0], results, start)

    def _tasks_of(
        self, number: int, drawn: tuple[int, ...], encoder: Encoder, start: Tensors
    ) -> Iterator[TrainingTask]:
        (model,) = self._maker.publish([start])
        state, workers = partial(self._files.state, before=number), self._workforce.count
        return self._maker.training(number, model, drawn, encoder, workers, 4 * self._layout.length, state)

    def _of_last_model(self, number: int, drawn: tuple[int, ...]) -> Released | None:
        encoder, start = self._releases.encoder(number, len(drawn)), self._server.start(self.tensors)
        tasks = self._tasks_of(number, drawn, encoder, start)
        found = chain.from_iterable(self._workforce.run(map(MembersEvaluation, tasks)))
        return self._releases.of_last_model(number, dict(found))

    def _test(self, result: RoundResult) -> PendingTest | None:
        if not self._maker.data.tests:
            return None
        (model,) = self._maker.publish([self._server.model(self.tensors)])
        return PendingTest(partial(self._maker.evaluation, result.round, model), partial(_scored, result))


def server_of(scenario: Scenario) -> ServerSide:
    """The server's part in a scenario's rounds; the bound counts where clients upload weights."""
    return ServerSide(
        scenario.server,
        scenario.strategy.name,
        bound_of_weights(scenario.privacy, scenario.masking.masked, scenario.masking.bound),
    )


def _scored(result: RoundResult, slices: Sequence[SliceScore]) -> RoundResult:
    """A round's result with accuracy, where right answers are counted, and mean loss by the slices of the samples."""
    samples = sum(sum(part.tested) for part in slices)
    right = [sum(part.right) for part in slices if part.right is not None]
    accuracy = sum(right) / samples if len(right) == len(slices) else None
    return replace(result, accuracy=accuracy, loss=math.fsum(part.loss for part in slices) / samples)


def round_result(number: int, results: Sequence[ClientResult]) -> RoundResult:
    """What is told of a round's clients, ascending; not yet evaluated."""
    trained = [(result.loss, result.samples) for result in results if result.loss is not None]
    samples = sum(count for _, count in trained)
    loss = math.fsum(each * count for each, count in trained) / samples if trained else None
    probed = [result.ood_accuracy for result in results if result.ood_accuracy is not None]
    ood = math.fsum(probed) / len(probed) if probed else None
    total = sum(result.samples for result in results)
    clients, cut_off = tuple(result.client for result in results), sum(result.cut_off for result in results)
    return RoundResult(number, None, None, loss, clients, total, ood, cut_off=cut_off)
