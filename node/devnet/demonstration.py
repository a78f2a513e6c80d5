"""A demonstration from its options to the auditor's verdict, for the command and for ``fedgrove.demo``."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import Network, anvil, connect, embedded
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.store import ContentReader, ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import LEDGER, MANIFEST, REPORT, STORE
from fedgrove.node.audit.succession import Continuation
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.demo import Demo, DemoFailed
from fedgrove.node.devnet.keeping import keep, open_store
from fedgrove.node.devnet.methods import check_federation, subject_of
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.devnet.subject import Subject
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.protocol.terms import StartSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.status.figure_targets import EndedRounds, logged_figures

WriteFigures = Callable[[str, int, Mapping[str, float]], None]
"""Takes the name of a run, which is its ledger's address, the number of a round and its figures."""


class DemoFigures:
    """Looks for rounds that have ended; those of a demonstration also have seconds."""

    def __init__(self, network: Network, store: ContentReader, write: WriteFigures) -> None:
        self._network, self._write = network, write
        self._figures = EndedRounds(store)
        self._view: LedgerView | None = None

    def look(self, run: Demo) -> None:
        """Pass on what is new."""
        if self._view is None:
            self._view = LedgerView(Ledger(self._network, run.founded))
        self._view.refresh()
        for each in self._figures.new(self._view.rounds):
            figures = {**logged_figures(each), "seconds": run.seconds.get(each.round, 0.0)}
            self._write(run.founded.ledger, each.round, figures)


class Audience(Protocol):
    """Who is told how a demonstration goes on."""

    def observe(self, role: str, step: Step) -> None:
        """Take in one step of one role."""
        ...

    def say(self, phase: str) -> None:
        """Take in what goes on now, in a few words."""
        ...

    def goes_on(self, number: int) -> None:
        """Take in that an interrupted run goes on: the number of its latest round, 0 before the first."""
        ...


ServePages = Callable[[Network, Deployment, ContentReader, str, str, Path], AbstractContextManager[str]]
"""Serves pages about a deployment while a block runs, given chain, contracts, store, what people call it, the command
that audits the same and a folder for indexes; gives their address."""


@dataclass(frozen=True)
class Demonstration:
    """A demonstration that has ended: its ``report.json``, and what the auditor says of it."""

    report: dict[str, Any]
    verdict: Verdict


@dataclass(frozen=True)
class Spectators:
    """Who looks on while a demonstration runs.

    Attributes
    ----------
    audience : Audience
    command : str
        The command that audits the same, for the explorer's pages.
    pages : callable, optional
        Serves pages about the run while it goes on.
    figures : callable, optional
        Takes each round's figures as soon as it has ended.
    """

    audience: Audience
    command: str = ""
    pages: ServePages | None = None
    figures: WriteFigures | None = None


def demonstrate(
    scenario: Scenario, directory: Path, spectators: Spectators, earlier: Continuation | None = None
) -> Demonstration:
    """Run a federation to its end, audit it, and leave it in a new or empty directory.

    Parameters
    ----------
    earlier : Continuation, optional
        The model to train from, of an earlier federation.

    Raises
    ------
    InvalidConfig
        The scenario cannot be demonstrated, or the directory is not empty.
    InvalidInput, DatasetError, TaskFailed, SandboxUnavailable, ChainError, StoreError
        The task, the data, the sandbox, the chain or the store are at fault.
    DemoFailed
        The run came to a standstill. As after an interruption, the rounds that have ended are in the directory, and
        ``resume`` goes on with it.
    """
    check_federation(scenario)
    if scenario.method.on_request:
        name = scenario.method.name
        raise InvalidConfig(f"method must not be {name}: its rounds are held on request, so a demonstration has no end")
    with ExitStack() as stack:
        suited, subject = _subject(scenario, spectators.audience, stack)
        state = RunState.next_to(directory)
        _prepare(directory, state)
        stack.enter_context(state.claimed())
        state.keep_scenario(scenario)
        if earlier is not None:
            state.keep_start(StartSettings(cid_of(earlier.model).digest.hex(), earlier.continues))
        return _run_on(_Course(suited, subject, directory, state), spectators, stack, earlier)


def resume(directory: Path, spectators: Spectators, task: Path | None = None) -> Demonstration:
    """Go on with a run that was interrupted or killed, from what lies next to its directory.

    ``task`` is where the task's folder is now, if it has moved.

    Parameters and errors are those of ``demonstrate``; InvalidConfig, too, where nothing is left to go on with.
    """
    scenario = begun_with(directory)
    if task is not None and scenario.task is not None:
        scenario = replace(scenario, task=replace(scenario.task, folder=str(task)))
    with ExitStack() as stack:
        suited, subject = _subject(scenario, spectators.audience, stack)
        state = RunState.next_to(directory)
        stack.enter_context(state.claimed())
        return _run_on(_Course(suited, subject, directory, state), spectators, stack)


def begun_with(directory: Path) -> Scenario:
    """The scenario of the unfinished run in a directory.

    Raises
    ------
    InvalidConfig, RunFailed
        There is none; what is left of it is damaged.
    """
    state = RunState.next_to(directory)
    if not state.begun or not directory.is_dir():
        ended = (directory / LEDGER).exists()
        why = "its run has ended" if ended else "give the directory of a `fedgrove demo --out` that was interrupted"
        raise InvalidConfig(f"resume finds nothing to go on with for {directory}: {why}")
    return state.scenario()


def _subject(scenario: Scenario, audience: Audience, stack: ExitStack) -> tuple[Scenario, Subject]:
    """What is learned, and the scenario with as many workers as suit it.

    The audience is told of suggestions that are not followed.
    """
    subject = subject_of(scenario, stack, audience.say, "--held-out")
    return scenario.changed(run={"workers": subject.workers(scenario.run.workers)}), subject


def _prepare(directory: Path, state: RunState) -> None:
    if state.begun:
        raise InvalidConfig(
            f"out {directory} has a run that was interrupted: add --resume to go on with it, or give a new directory "
            f"(it is kept in {state.root})"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        taken = sorted(path.name for path in directory.iterdir())
    except OSError as fault:
        raise InvalidConfig(f"out cannot be made in {directory}: {fault.strerror}") from None
    if taken:  # an audit accounts for everything in it
        raise InvalidConfig(f"out {directory} is not empty ({taken[0]}): nothing was changed, give a new directory")


@dataclass(frozen=True)
class _Course:
    """A run, new or gone on with: its scenario, what is learned, and where all is kept."""

    scenario: Scenario
    subject: Subject
    directory: Path
    state: RunState


def _run_on(
    course: _Course, spectators: Spectators, stack: ExitStack, earlier: Continuation | None = None
) -> Demonstration:
    """Run to the end, from wherever it is, and audit."""
    directory, state = course.directory, course.state
    stack.callback(_tidy, course)
    network = stack.enter_context(open_network(course.scenario.run.chain, state))
    content = stack.enter_context(open_store(course.scenario.run.store, directory / STORE, state.kubo))
    if earlier is not None:
        content.put(earlier.model)
    for name in (LEDGER, REPORT, MANIFEST):  # of the rounds before an interruption: the chain has them, too
        (directory / name).unlink(missing_ok=True)
    figures = DemoFigures(network, content, spectators.figures) if spectators.figures is not None else None

    def observe(role: str, step: Step) -> None:
        spectators.audience.observe(role, step)
        if spectators.pages is not None and step.kind is Kind.DEPLOYED:
            indexes = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
            place = (network, run.founded, content, "a demonstration", spectators.command, indexes)
            spectators.audience.say(f"watch: {stack.enter_context(spectators.pages(*place))}")
        if figures is not None and role == "coordinator" and step.acted:
            figures.look(run)

    kept = {"state": state, "start": state.start(), "goes_on": spectators.audience.goes_on}
    run = Demo(course.scenario, course.subject, network, content, observe, **kept)
    try:
        run.run()
    except (DemoFailed, KeyboardInterrupt):
        if run.deployment is not None:
            spectators.audience.say("keeping the rounds that have ended")
            _keep(run, course, network, content)
        raise
    spectators.audience.say("auditing")
    done = _keep(run, course, network, content)
    state.end()
    return done


def _tidy(course: _Course) -> None:
    """Remove the state of a run that has ended, and all of one that came to no ledger."""
    if not course.state.founded:
        shutil.rmtree(course.directory / STORE, ignore_errors=True)
    if not (course.state.begun and course.state.founded):
        course.state.discard()


def _keep(run: Demo, course: _Course, network: Network, content: ContentStore) -> Demonstration:
    """Audit what is on the ledger by now, and leave it in the directory."""
    verdict = keep(course.directory, network, run.founded, content, run.seconds)
    return Demonstration(json.loads((course.directory / REPORT).read_text()), verdict)


@contextmanager
def open_network(chain: str, state: RunState) -> Iterator[Network]:
    """The chain that the option names; a chain of our own is ended with the demonstration, and kept in its state."""
    if chain in ("auto", "embedded"):
        network = embedded(state.chain)
    elif chain == "anvil":
        network = anvil(state.chain)
    elif chain.startswith(("http://", "https://")):
        network = connect(chain)
    else:
        raise InvalidConfig(f"run.chain must be embedded, anvil or a URL (http://…), not {chain!r}")
    with network:
        yield network
