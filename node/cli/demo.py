"""``fedgrove demo``: eight clients train on real data under masks, on a real EVM, and an auditor has the last word."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from fedgrove.chain.deployment import Deployment
from fedgrove.chain.history import capture
from fedgrove.chain.networks import Network, anvil, connect, embedded
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.audit.archive import REPORT, STORE, chain_facts, write_archive
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.cli.explorer import check_installed
from fedgrove.node.cli.options import Epsilon, Method, Sandbox
from fedgrove.node.cli.output import CommandError, console, print_json
from fedgrove.node.cli.progress import DemoDisplay, print_rounds, print_verdict
from fedgrove.node.cli.stores import ADDRESSES, kubo_store
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.devnet.method_option import TRAINING, check_method
from fedgrove.node.devnet.mirror import mirror
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.protocol.step import Step
from fedgrove.node.sandbox.modes import AUTO, choose
from fedgrove.node.status.report import build_report

if TYPE_CHECKING:
    from fedgrove.node.devnet.demo import (  # needs torch, which the other commands do without
        DatasetSubject,
        DemoPlan,
        Subject,
    )
    from fedgrove.node.devnet.task_subject import TaskSubject

DEFAULT_STRATEGY = "fedaom"
Choice = TypeVar("Choice", bound=str)
Masks = Literal["bbtsa", "pairwise"]
MASKINGS: tuple[Masks, ...] = ("bbtsa", "pairwise")


def demo(
    clients: Annotated[int, typer.Option(min=3, max=1000, help="Number of clients.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Communication rounds.")] = 3,
    dataset: Annotated[
        str, typer.Option(help="digits, mnist, fashion-mnist, cifar10, a file, or module:attribute.")
    ] = "digits",
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the datasets; missing ones are downloaded to it.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Dirichlet concentration of the labels; smaller is more skewed.")] = 0.3,
    strategy: Annotated[
        str | None,
        typer.Option(
            help=f"Local training: {', '.join(STRATEGIES)}. Default: fedaom; for a task without a shared set fedavg."
        ),
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Folder with a task of your own, instead of a dataset.")] = None,
    source: Annotated[
        Path | None, typer.Option("--data", help="What the task's data() reads; a folder with one for each client.")
    ] = None,
    sandbox: Sandbox = AUTO,
    masking: Annotated[str, typer.Option(help=f"Masks: {', '.join(MASKINGS)}.")] = "bbtsa",
    drop: Annotated[float, typer.Option(help="Fraction of clients that drop out of each round.")] = 0.0,
    chain: Annotated[str, typer.Option(help="embedded, anvil, or the URL of an EVM JSON-RPC endpoint.")] = "embedded",
    store: Annotated[str, typer.Option(help="disk, kubo (starts a node), or the URL of a Kubo API.")] = "disk",
    epsilon: Epsilon = 0.0,
    method: Method = TRAINING,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training; keys and masks never depend on it.")] = 0,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Training processes; 0 chooses.")] = 0,
    explorer: Annotated[
        bool, typer.Option("--explorer", help="Serve pages that show the run live, and print their address.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Keep the run here, for `fedgrove audit`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report to stdout.")] = False,
) -> int:
    """Run a whole federation on this machine and audit it.

    Example: fedgrove demo --clients 8 --rounds 3 --drop 0.25 --out runs/first
    """
    from fedgrove.node.devnet.demo import DemoPlan

    if strategy is not None:
        _check_choice("--strategy", strategy, STRATEGIES)
    mode: Masks = _check_choice("--masking", masking, MASKINGS)
    check_method(method, clients)
    if method != TRAINING and epsilon:
        raise CommandError("--epsilon and --method cannot be combined: clusters have no privacy mechanism")
    if not 0 <= drop < 1:
        raise CommandError(f"--drop must be at least 0 and below 1, not {drop}")
    if not 0.001 <= alpha <= 1e6:
        raise CommandError(f"--alpha must be from 0.001 to 1000000, not {alpha}")
    if epsilon and not 0.1 <= epsilon <= 1000:
        raise CommandError(f"--epsilon must be 0 or from 0.1 to 1000, not {epsilon:g}")
    if explorer:
        check_installed()
    if (task is None) != (source is None):
        raise CommandError("--task and --data belong together: give the task's folder, and what its data() reads")
    with ExitStack() as stack:
        options = (strategy or DEFAULT_STRATEGY, mode, drop, seed, workers, epsilon, method)
        plan = DemoPlan(clients, rounds, alpha, *options)
        if task is not None and source is not None:
            plan, subject = _with_task(plan, task, source, sandbox, stack)
            if strategy is None and not subject.shares:
                plan = replace(plan, strategy="fedavg")
        else:
            plan, subject = _with_dataset(plan, dataset, data_dir)
        directory = _prepare(out) if out else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        network = stack.enter_context(open_network(chain))
        content = stack.enter_context(open_store(store, directory))
        show = partial(_pages, network, content, f"fedgrove audit {out or 'DIR'}") if explorer else None
        report, verdict = _run(plan, subject, network, content, directory, show)
    if as_json:
        print_json(report)
    else:
        print_rounds(report)
        print_verdict(verdict)
        if out:
            console.print(f"Kept in {out}: check it with  fedgrove audit {out}")
            console.print(f"Look at it with  fedgrove explorer {out}", soft_wrap=True)
    return verdict.exit_code


def _with_dataset(plan: "DemoPlan", dataset: str, data_dir: Path | None) -> tuple["DemoPlan", "DatasetSubject"]:
    """A shipped network on a dataset; as many processes as pay off where none are asked for."""
    from fedgrove.node.devnet.demo import DatasetSubject
    from fedgrove.node.learning.datasets import load_dataset

    data = load_dataset(dataset, data_dir)
    return replace(plan, workers=plan.workers or _workers(data)), DatasetSubject(data)


def _with_task(
    plan: "DemoPlan", task: Path, source: Path, sandbox: str, stack: ExitStack
) -> tuple["DemoPlan", "TaskSubject"]:
    """A task on a source of data, whose training has processes of its own."""
    from fedgrove.node.devnet.task_subject import TaskSubject

    return replace(plan, workers=1), TaskSubject(task, source, choose(sandbox), stack)


def _run(
    plan: "DemoPlan",
    subject: "Subject",
    network: Network,
    content: ContentStore,
    directory: Path,
    show: Callable[[Deployment], AbstractContextManager[str]] | None,
) -> tuple[dict, Verdict]:
    """Run and audit; ``show`` serves pages about a deployment, and gives their address."""
    from fedgrove.node.devnet.demo import Demo, DemoFailed

    with DemoDisplay(plan.ledger_rounds) as display, ExitStack() as pages:

        def observe(role: str, step: Step) -> None:
            display.observe(role, step)
            if show is not None and step.phase == "deploy":
                display.say(f"watch: {pages.enter_context(show(run.founded))}")

        run = Demo(plan, subject, network, content, observe)
        try:
            run.run()
        except DemoFailed as fault:
            raise CommandError(str(fault)) from None
        display.say("auditing")
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
    return json.loads((directory / REPORT).read_text()), verdict


@contextmanager
def _pages(network: Network, content: ContentStore, command: str, deployment: Deployment) -> Iterator[str]:
    from fedgrove.node.explorer.live import live_pages

    with (
        tempfile.TemporaryDirectory(prefix="fedgrove-") as indexes,
        live_pages(network, deployment, content, "a demonstration", command, Path(indexes)) as address,
    ):
        yield address


def _named(verdict: Verdict) -> str | None:
    return str(verdict.first_bad_record) if verdict.first_bad_record else None


@contextmanager
def open_network(chain: str) -> Iterator[Network]:
    """The chain that ``--chain`` names; a chain of our own is ended with the command."""
    if chain == "embedded":
        network = embedded()
    elif chain == "anvil":
        network = anvil()
    elif chain.startswith(("http://", "https://")):
        network = connect(chain)
    else:
        raise CommandError(f"--chain must be embedded, anvil or a URL (http://…), not {chain!r}")
    with network:
        yield network


@contextmanager
def open_store(store: str, directory: Path) -> Iterator[ContentStore]:
    """The store that ``--store`` names; a Kubo node of our own is ended with the command."""
    if store == "disk":
        yield DiskStore(directory / STORE)
    elif store == "kubo":
        with tempfile.TemporaryDirectory(prefix="fedgrove-kubo-") as repo, LocalKubo(Path(repo)) as node:
            yield KuboStore(node.url)
    elif store.startswith(ADDRESSES):
        yield kubo_store(store)
    else:
        raise CommandError(f"--store must be disk, kubo or the URL of a Kubo API, not {store!r}")


def _prepare(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
        taken = sorted(path.name for path in out.iterdir())
    except OSError as fault:
        raise CommandError(f"cannot make the directory {out}: {fault.strerror}") from None
    if taken:  # an audit accounts for everything in it
        raise CommandError(f"{out} is not empty ({taken[0]}): nothing was changed, give a new directory")
    return out


def _workers(data: Dataset) -> int:
    """Two or more processes pay off only when there is much to train."""
    return min(os.cpu_count() or 1, 8) if len(data.train()) > 10_000 else 1


def _check_choice(option: str, value: str, choices: tuple[Choice, ...]) -> Choice:
    if value not in choices:
        raise CommandError(f"{option} must be one of {', '.join(choices)}, not {value!r}")
    return choices[choices.index(value)]
