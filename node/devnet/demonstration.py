"""A demonstration from its options to the auditor's verdict, for the command and for ``fedgrove.demo``."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fedgrove.chain.deployment import Deployment
from fedgrove.chain.history import capture
from fedgrove.chain.networks import Network, anvil, connect, embedded
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore, open_kubo
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.audit.archive import REPORT, STORE, chain_facts, write_archive
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.report import build_report
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.devnet.demo import DatasetSubject, Demo, DemoFailed, DemoPlan, Subject
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.devnet.method_option import TRAINING, check_method
from fedgrove.node.devnet.mirror import mirror
from fedgrove.node.devnet.silence import check_drop
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.protocol.step import Step
from fedgrove.node.tasks.sandbox.modes import AUTO, choose

DEFAULT_STRATEGY = "fedaom"
MASKINGS = ("bbtsa", "pairwise")


class InvalidOption(ValueError):
    """An option has a value that is not allowed; the message begins with the option's name."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name} {sentence}")


class Audience(Protocol):
    """Who is told how a demonstration goes on."""

    def observe(self, role: str, step: Step) -> None:
        """Take in one step of one role."""
        ...

    def say(self, phase: str) -> None:
        """Take in what goes on now, in a few words."""
        ...


@dataclass(frozen=True)
class DemoRequest:
    """What to demonstrate, and on what.

    Attributes
    ----------
    plan : DemoPlan
        Its ``workers`` 0 takes as many processes as pay off.
    strategy : str or None
        In place of the plan's; None takes FedAom, and FedAvg for a task without a shared set.
    dataset, data_dir : str, Path or None
        A data set, as ``--dataset`` names it, and the folder of those that were downloaded.
    task, source : Path or None
        In place of a data set: a task's folder, and what its ``data`` reads.
    settings : mapping
        Tables with other values for keys of the task's ``terms.toml``.
    sandbox : str
        How the task's code is contained.
    chain, store : str
        ``embedded``, ``anvil`` or an endpoint's URL; ``disk``, ``kubo`` or the URL of a Kubo API.
    explorer : bool
        Serve pages about the run while it goes on, and say where.
    bases : mapping
        Paths of the task's frozen bases by name.
    """

    plan: DemoPlan
    strategy: str | None = None
    dataset: str = "digits"
    data_dir: Path | None = None
    task: Path | None = None
    source: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    sandbox: str = AUTO
    chain: str = "embedded"
    store: str = "disk"
    explorer: bool = False
    bases: Mapping[str, Path] = field(default_factory=dict)


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
        The run came to a standstill. As after an interruption, the rounds that have ended are in the directory.
    """
    _check(request)
    with ExitStack() as stack:
        plan, subject = _subject(request, stack)
        _prepare(directory)
        network = stack.enter_context(open_network(request.chain))
        content = stack.enter_context(open_store(request.store, directory))
        serve = partial(_serve_pages, network, content, command, audience, stack)
        return _run(plan, subject, network, content, directory, audience, serve if request.explorer else None)


def _serve_pages(
    network: Network, content: ContentStore, command: str, audience: Audience, stack: ExitStack, deployment: Deployment
) -> None:
    """Serve pages about a deployment until the stack ends."""
    from fedgrove.node.explorer.live import live_pages  # an extra of its own

    indexes = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
    pages = live_pages(network, deployment, content, "a demonstration", command, indexes)
    audience.say(f"watch: {stack.enter_context(pages)}")


def _check(request: DemoRequest) -> None:
    plan = request.plan
    if request.strategy is not None:
        _check_choice("strategy", request.strategy, STRATEGIES)
    _check_choice("masking", plan.masking, MASKINGS)
    check_method(plan.method, plan.clients)
    if plan.method != TRAINING and plan.epsilon:
        raise InvalidOption("epsilon", "cannot be combined with method: clusters have no privacy mechanism")
    if not 0 <= plan.held_out <= 0.9:
        raise InvalidOption("held-out", f"must be from 0 to 0.9, not {plan.held_out}")
    if not 0 <= plan.drop < 1:
        raise InvalidOption("drop", f"must be at least 0 and below 1, not {plan.drop}")
    hopeless = "" if plan.method != TRAINING else check_drop(plan.clients, plan.drop)
    if hopeless:
        raise InvalidOption("drop", hopeless)
    if not 0.001 <= plan.alpha <= 1e6:
        raise InvalidOption("alpha", f"must be from 0.001 to 1000000, not {plan.alpha}")
    if plan.epsilon and not 0.1 <= plan.epsilon <= 1000:
        raise InvalidOption("epsilon", f"must be 0 or from 0.1 to 1000, not {plan.epsilon:g}")
    if (request.task is None) != (request.source is None):
        raise InvalidOption("task", "and data belong together: give the task's folder, and what its data() reads")
    if request.task is None and request.bases:
        raise InvalidOption("base", "is for a task's frozen bases: leave it out with a data set")
    if request.task is None and request.settings:
        raise InvalidOption("settings", "are keys of a task's terms.toml: leave them out with a data set")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidOption(name, f"must be one of {', '.join(choices)}, not {value!r}")


def _subject(request: DemoRequest, stack: ExitStack) -> tuple[DemoPlan, Subject]:
    """What is learned, and the plan with what suits it in place of what was left open."""
    plan = request.plan
    if request.task is None or request.source is None:
        data = load_dataset(request.dataset, request.data_dir)
        workers = plan.workers or _workers(data)
        return replace(plan, workers=workers, strategy=request.strategy or DEFAULT_STRATEGY), DatasetSubject(data)
    subject = TaskSubject(request.task, request.source, choose(request.sandbox), stack, request.settings, request.bases)
    # A task's training has processes of its own.
    return replace(plan, workers=1, strategy=request.strategy or subject.strategy), subject


def _workers(data: Dataset) -> int:
    """Two or more processes pay off only when there is much to train."""
    return min(os.cpu_count() or 1, 8) if len(data.train()) > 10_000 else 1


def _prepare(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        taken = sorted(path.name for path in directory.iterdir())
    except OSError as fault:
        raise InvalidOption("out", f"cannot be made in {directory}: {fault.strerror}") from None
    if taken:  # an audit accounts for everything in it
        raise InvalidOption("out", f"{directory} is not empty ({taken[0]}): nothing was changed, give a new directory")


def _run(
    plan: DemoPlan,
    subject: Subject,
    network: Network,
    content: ContentStore,
    directory: Path,
    audience: Audience,
    deployed: Callable[[Deployment], None] | None,
) -> Demonstration:
    """Run and audit; ``deployed`` is told of the contracts."""

    def observe(role: str, step: Step) -> None:
        audience.observe(role, step)
        if deployed is not None and step.phase == "deploy":
            deployed(run.founded)

    run = Demo(plan, subject, network, content, observe)
    try:
        run.run()
    except (DemoFailed, KeyboardInterrupt):
        if run.deployment is not None:
            audience.say("keeping the rounds that have ended")
            _keep(run, plan, network, content, directory)
        raise
    audience.say("auditing")
    return _keep(run, plan, network, content, directory)


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
def open_network(chain: str) -> Iterator[Network]:
    """The chain that the option names; a chain of our own is ended with the demonstration."""
    if chain == "embedded":
        network = embedded()
    elif chain == "anvil":
        network = anvil()
    elif chain.startswith(("http://", "https://")):
        network = connect(chain)
    else:
        raise InvalidOption("chain", f"must be embedded, anvil or a URL (http://…), not {chain!r}")
    with network:
        yield network


@contextmanager
def open_store(store: str, directory: Path) -> Iterator[ContentStore]:
    """The store that the option names; a Kubo node of our own is ended with the demonstration."""
    if store == "disk":
        yield DiskStore(directory / STORE)
    elif store == "kubo":
        with tempfile.TemporaryDirectory(prefix="fedgrove-kubo-") as repo, LocalKubo(Path(repo)) as node:
            yield KuboStore(node.url)
    elif store.startswith(FORMS):
        yield open_kubo(store)
    else:
        raise InvalidOption("store", f"must be disk, kubo or the URL of a Kubo API, not {store!r}")
