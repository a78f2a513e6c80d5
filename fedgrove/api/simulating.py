"""Simulations: many clients without chain and store, with the models of a federation."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrove.api.describing import described
from fedgrove.api.running import Run
from fedgrove.common.errors import InvalidContent, InvalidInput, RunFailed
from fedgrove.node.base.nested_tables import merged
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.moments import state_dict_of
from fedgrove.node.learning.server_side import without_state
from fedgrove.node.scenario.reading import IN_PYTHON, MANY_CLIENTS, left_out
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.logged_rounds import LoggedRounds
from fedgrove.node.simulation.record import RoundResult
from fedgrove.node.simulation.session import Runs, open_session, run_directory
from fedgrove.node.status.figure_targets import FigureLogs, log_targets, opened_logs
from fedgrove.node.status.rounds import Round

if TYPE_CHECKING:
    from fedgrove.node.learning.tasks import Task


def simulate(
    subject: "Scenario | str | PathLike[str] | type[Task] | None" = None,
    data: str | PathLike[str] | None = None,
    *,
    clients: int | None = None,
    rounds: int | None = None,
    strategy: str | None = None,
    seed: int | None = None,
    settings: Mapping[str, object] | None = None,
    out: str | PathLike[str] | None = None,
    resume: bool = False,
    keep_models: bool = False,
    log_to: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    **named: Any,
) -> Run:
    """Train many clients; the same scenario gives the same bytes anywhere.

    Parameters
    ----------
    subject, data, settings, log_to, progress
        As for ``fedgrove.demo``; the data set digits by default.
    clients, rounds : int, optional
        By default 100; in each round a tenth of the clients trains (``federation.sampling_rate``). A ``Scenario`` says
        all of it.
    strategy : str, optional
        Local training; by default fedavg.
    seed : int, optional
        Of all randomness (0).
    out : path, optional
        Keep checkpoints, record and figures here.
    resume : bool
        Go on with the run in ``out``.
    keep_models : bool
        Hold the model of each round that is run, for ``Run.model``; otherwise only the last.
    **named
        Values of other keys by their short names, the options of ``fedgrove simulate``: ``alpha=0.1``,
        ``method="procfl, alpha = 0.5"``, ``bases={"minilm": "models/minilm"}``. With ``executor="processes"`` a script
        needs ``if __name__ == "__main__"``.

    Returns
    -------
    Run

    Raises
    ------
    InvalidInput, CannotTakePart, SandboxUnavailable
        As ``fedgrove.demo``; InvalidInput, too, for an executor or a directory that cannot be.
    DivergedTraining, SimulationFailed
        A client's model diverged, or a worker was lost.

    Examples
    --------
    >>> import fedgrove as fg
    >>> run = fg.simulate("digits", clients=10, rounds=2, settings={"federation.sampling_rate": 0.5}, seed=1)
    >>> [(each.round, each.committed) for each in run.rounds]
    [(1, 5), (2, 5)]
    >>> run.rounds[-1].accuracy > run.rounds[0].accuracy
    True
    """
    if resume and out is None:
        raise InvalidInput("resume needs out, the directory of the run to go on with")
    kept = None if out is None else Path(out)
    named = {"clients": clients, "rounds": rounds, "strategy": strategy, "seed": seed, **named}
    preset = merged(MANY_CLIENTS, IN_PYTHON)
    with described(subject, data, named, settings, kept and kept / "task", preset) as (scenario, _):
        words = _Words(progress)
        unfollowed = left_out(scenario)
        if unfollowed:
            words.say(unfollowed)
        with opened_logs(log_targets(log_to), words.say) as logs:
            return _run(Runs(scenario, (), kept, resume), keep_models, words, logs)


class _Words:
    """Passes on what goes on in a simulation as words."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self._progress, self._rounds = progress, 0

    def begin(self, label: str, rounds: int) -> None:
        self._rounds = rounds

    def advance(self, result: RoundResult) -> None:
        score = "" if result.accuracy is None else f": accuracy {result.accuracy:.4f}"
        score = score or ("" if result.loss is None else f": loss {result.loss:.4f}")
        self.say(f"round {result.round} of {self._rounds}{score}")

    def compared(self, done: int, total: int) -> None:
        self.say(f"{done} of {total} pairs of clients compared")

    def say(self, words: str) -> None:
        if self._progress is not None:
            self._progress(words)


def _run(runs: Runs, keep_models: bool, words: _Words, logs: FigureLogs) -> Run:
    scenario = runs.scenario
    models = _Models(clustered=scenario.method.several, strategy=scenario.strategy.name)
    with open_session(runs) as session:
        done = session.run(scenario, LoggedRounds(words, logs), models.keep if keep_models else None)
        try:
            session.draw([done.record])
        except RunFailed as fault:
            words.say(f"no figures: {fault}")
    models.keep(len(done.record.rounds), done.model)
    return Run(run_directory(runs, scenario), tuple(map(_round, done.record.rounds)), done.record.to_json(), models.of)


class _Models:
    """The models of a simulation's rounds that were kept."""

    def __init__(self, clustered: bool, strategy: str) -> None:
        self._clustered, self._strategy = clustered, strategy
        self._kept: dict[int, Tensors] = {}

    def keep(self, number: int, model: Tensors) -> None:
        self._kept[number] = model

    def of(self, number: int | None) -> Tensors:
        """As ``Run.model``, of arrays."""
        if self._clustered:
            raise InvalidContent("the rounds of this simulation leave a model for each cluster, not one model")
        wanted = max(self._kept) if number is None else number
        if wanted not in self._kept:
            raise InvalidInput(f"the model of round {wanted} was not kept: simulate with keep_models=True")
        return state_dict_of(without_state(self._kept[wanted]), self._strategy)


def _round(found: RoundResult) -> Round:
    return Round(
        round=found.round,
        accuracy=found.accuracy,
        loss=found.loss,
        members=found.members,
        privacy=found.privacy,
        drawn_clients=found.clients,
        committed_clients=found.clients,
        train_loss=found.train_loss,
        train_samples=found.samples,
    )
