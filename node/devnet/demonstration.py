"""A demonstration from its options to the auditor's verdict, for the command and for ``fedgrove.demo``."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fedgrove.chain.face.networks import Network, anvil, connect, embedded
from fedgrove.chain.network.history import capture
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.audit.archive import LEDGER, MANIFEST, REPORT, STORE, chain_facts, write_archive
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.devnet.demo import DatasetSubject, Demo, DemoFailed, DemoPlan, Subject
from fedgrove.node.devnet.demo_figures import DemoFigures, WriteFigures
from fedgrove.node.devnet.demo_request import (
    DemoRequest,
    InvalidOption,
    ServePages,
    check_request,
    options_of,
    request_of,
)
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.devnet.mirror import mirror
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.status.report import build_report
from fedgrove.node.tasks.sandbox.modes import choose

DEFAULT_STRATEGY = "fedaom"


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


@dataclass(frozen=True)
class Demonstration:
    """A demonstration that has ended: its ``report.json``, and what the auditor says of it."""

    report: dict[str, Any]
    verdict: Verdict


def demonstrate(request: DemoRequest, directory: Path, audience: Audience, command: str) -> Demonstration:
    """Run a federation to its end, audit it, and leave it in a new or empty directory.

    Parameters
    ----------
    command : str
        The command that audits the same, for the explorer's pages.

    Raises
    ------
    InvalidOption
        An option has a value that is not allowed, or the directory is not empty.
    InvalidConfig, BundleError, DatasetError, TaskFailed, SandboxUnavailable, ChainError, StoreError
        The method's settings, the task, the data, the sandbox, the chain or the store are at fault.
    DemoFailed
        The run came to a standstill. As after an interruption, the rounds that have ended are in the directory, and
        ``resume`` goes on with it.
    """
    check_request(request)
    with ExitStack() as stack:
        plan, subject = _subject(request, audience, stack)
        state = RunState.beside(directory)
        _prepare(directory, state)
        stack.enter_context(state.claimed())
        state.keep_options(options_of(request))
        return _run_on(_Course(request, plan, subject, directory, state), audience, command, stack)


def resume(
    directory: Path,
    audience: Audience,
    command: str,
    pages: ServePages | None = None,
    figures: WriteFigures | None = None,
    task: Path | None = None,
) -> Demonstration:
    """Go on with a run that was interrupted or killed, from what lies next to its directory.

    ``task`` is where the task's folder is now, if it has moved.

    Parameters and errors are those of ``demonstrate``; InvalidOption, too, where nothing is left to go on with.
    """
    before = asked_for(directory)
    request = replace(before, pages=pages, figures=figures, task=task or before.task)
    with ExitStack() as stack:
        plan, subject = _subject(request, audience, stack)
        state = RunState.beside(directory)
        stack.enter_context(state.claimed())
        return _run_on(_Course(request, plan, subject, directory, state), audience, command, stack)


def asked_for(directory: Path) -> DemoRequest:
    """What the unfinished run in a directory was asked for.

    Raises
    ------
    InvalidOption
        There is none, or what is left of it is damaged.
    """
    state = RunState.beside(directory)
    if not state.begun or not directory.is_dir():
        ended = (directory / LEDGER).exists()
        why = "its run has ended" if ended else "give the directory of a `fedgrove demo --out` that was interrupted"
        raise InvalidOption("resume", f"finds nothing to go on with for {directory}: {why}")
    try:
        return request_of(state.options())
    except (KeyError, TypeError):
        raise InvalidOption("resume", f"cannot read {state.root}: remove it, and begin a new run") from None


def _serve_pages(
    pages: ServePages,
    network: Network,
    content: ContentStore,
    command: str,
    audience: Audience,
    stack: ExitStack,
    deployment: Deployment,
) -> None:
    """Serve pages about a deployment until the stack ends."""
    indexes = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
    served = pages(network, deployment, content, "a demonstration", command, indexes)
    audience.say(f"watch: {stack.enter_context(served)}")


def _subject(request: DemoRequest, audience: Audience, stack: ExitStack) -> tuple[DemoPlan, Subject]:
    """What is learned, and the plan with what suits it in place of what was left open.

    The audience is told of suggestions that are not followed.
    """
    plan = request.plan
    if request.task is None or request.source is None:
        data = load_dataset(request.dataset, request.data_dir)
        workers = plan.workers or _workers(data)
        return replace(plan, workers=workers, strategy=request.strategy or DEFAULT_STRATEGY), DatasetSubject(data)
    form = TableFormat.of(request.table_format) if request.table_format else None
    own = (request.task, request.source, choose(request.sandbox), stack)
    subject = TaskSubject(*own, request.settings, request.bases, form)
    left_out = subject.left_out(plan, "--held-out")
    if left_out:
        audience.say(left_out)
    # A task's training has processes of its own.
    return replace(plan, workers=1, strategy=request.strategy or subject.strategy), subject


def _workers(data: Dataset) -> int:
    """Two or more processes pay off only when there is much to train."""
    return min(os.cpu_count() or 1, 8) if len(data.train()) > 10_000 else 1


def _prepare(directory: Path, state: RunState) -> None:
    if state.begun:
        raise InvalidOption(
            "out",
            f"{directory} has a run that was interrupted: add --resume to go on with it, or give a new directory "
            f"(it is kept in {state.root})",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        taken = sorted(path.name for path in directory.iterdir())
    except OSError as fault:
        raise InvalidOption("out", f"cannot be made in {directory}: {fault.strerror}") from None
    if taken:  # an audit accounts for everything in it
        raise InvalidOption("out", f"{directory} is not empty ({taken[0]}): nothing was changed, give a new directory")


@dataclass(frozen=True)
class _Course:
    """A run, new or gone on with: what was asked for, what follows from it, and where all is kept."""

    request: DemoRequest
    plan: DemoPlan
    subject: Subject
    directory: Path
    state: RunState


def _run_on(course: _Course, audience: Audience, command: str, stack: ExitStack) -> Demonstration:
    """Run to the end, from wherever it is."""
    directory, state = course.directory, course.state
    stack.callback(_tidy, course)
    network = stack.enter_context(open_network(course.request.chain, state))
    content = stack.enter_context(open_store(course.request.store, directory, state))
    for name in (LEDGER, REPORT, MANIFEST):  # of the rounds before an interruption: the chain has them, too
        (directory / name).unlink(missing_ok=True)
    pages = course.request.pages
    deployed = partial(_serve_pages, pages, network, content, command, audience, stack) if pages else None
    return _run(course, network, content, audience, deployed, course.request.figures)


def _tidy(course: _Course) -> None:
    """Remove the state of a run that has ended, and all of one that came to no ledger."""
    if not course.state.founded:
        shutil.rmtree(course.directory / STORE, ignore_errors=True)
    if not (course.state.begun and course.state.founded):
        course.state.discard()


def _run(
    course: _Course,
    network: Network,
    content: ContentStore,
    audience: Audience,
    deployed: Callable[[Deployment], None] | None,
    write: WriteFigures | None,
) -> Demonstration:
    """Run and audit; ``deployed`` is told of the contracts, ``write`` of rounds' figures."""
    figures = DemoFigures(network, content, write) if write is not None else None

    def observe(role: str, step: Step) -> None:
        audience.observe(role, step)
        if deployed is not None and step.kind is Kind.DEPLOYED:
            deployed(run.founded)
        if figures is not None and role == "coordinator" and step.acted:
            figures.look(run)

    run = Demo(course.plan, course.subject, network, content, observe, state=course.state, goes_on=audience.goes_on)
    try:
        run.run()
    except (DemoFailed, KeyboardInterrupt):
        if run.deployment is not None:
            audience.say("keeping the rounds that have ended")
            _keep(run, course.plan, network, content, course.directory)
        raise
    audience.say("auditing")
    kept = _keep(run, course.plan, network, content, course.directory)
    course.state.end()
    return kept


def _keep(run: Demo, plan: DemoPlan, network: Network, content: ContentStore, directory: Path) -> Demonstration:
    """Audit what is on the ledger by now, and leave it in the directory."""
    history = capture(network, run.founded)
    history.verify()
    local = DiskStore(directory / STORE)
    if not isinstance(content, DiskStore):
        mirror(content, local, history.records())
    verdict = Auditor(chain_facts(history), history.records(), local).run()
    report = build_report(history, local, run.seconds)
    report["audit"] = {"verdict": verdict.verdict, "first_bad_record": _named(verdict)}
    report["options"] = asdict(plan)
    write_archive(directory, history, report)
    return Demonstration(json.loads((directory / REPORT).read_text()), verdict)


def _named(verdict: Verdict) -> str | None:
    return str(verdict.first_bad_record) if verdict.first_bad_record else None


@contextmanager
def open_network(chain: str, state: RunState) -> Iterator[Network]:
    """The chain that the option names; a chain of our own is ended with the demonstration, and kept in its state."""
    if chain == "embedded":
        network = embedded(state.chain)
    elif chain == "anvil":
        network = anvil(state.chain)
    elif chain.startswith(("http://", "https://")):
        network = connect(chain)
    else:
        raise InvalidOption("chain", f"must be embedded, anvil or a URL (http://…), not {chain!r}")
    with network:
        yield network


@contextmanager
def open_store(store: str, directory: Path, state: RunState) -> Iterator[ContentStore]:
    """The store that the option names; a Kubo node of our own is ended with the demonstration."""
    from fedgrove.ipfs.kubo import KuboStore, open_kubo

    if store == "disk":
        yield DiskStore(directory / STORE)
    elif store == "kubo":
        with LocalKubo(state.kubo) as node:
            yield KuboStore(node.url)
    elif store.startswith(FORMS):
        yield open_kubo(store)
    else:
        raise InvalidOption("store", f"must be disk, kubo or the URL of a Kubo API, not {store!r}")
