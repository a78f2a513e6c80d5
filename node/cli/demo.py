"""``fedgrove demo``: eight clients train on real data under masks, on a real EVM, and an auditor has the last word."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from fedgrove.common.text import command_line
from fedgrove.node.audit.archive import LEDGER
from fedgrove.node.cli.bases import BaseOptions, given_bases
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.given import given
from fedgrove.node.cli.log_to import LogTo, log_targets, opened_logs
from fedgrove.node.cli.options import Dataset, Epsilon, HeldOut, Masking, Method, Patience, Portable, Sandbox
from fedgrove.node.cli.output import (
    FAILED,
    CommandError,
    answer,
    complain,
    fault_of_disk,
    is_users_to_mend,
    print_json,
)
from fedgrove.node.cli.progress import DemoDisplay, print_rounds, print_verdict
from fedgrove.node.cli.setting import TaskSettings, settings_of
from fedgrove.node.cli.table_format import TableFormatOptions, given_format
from fedgrove.node.cli.values import words
from fedgrove.node.devnet.method_option import TRAINING
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.tasks.sandbox.modes import AUTO

if TYPE_CHECKING:
    from fedgrove.node.devnet.demo_request import DemoRequest, ServePages
    from fedgrove.node.devnet.demonstration import Demonstration

_OPTIONS = {"source": "data", "settings": "set"}
"""Names of options on the command line where they are not those of the parameters."""
_DATASETS_ONLY = ("dataset", "data_dir", "alpha")


def demo(
    context: typer.Context,
    clients: Annotated[int, typer.Option(min=3, max=1000, help="Number of clients.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Communication rounds.")] = 3,
    dataset: Dataset = "digits",
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the datasets; missing ones are downloaded to it.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Dirichlet concentration of the labels; smaller is more skewed.")] = 0.3,
    strategy: Annotated[
        str | None,
        typer.Option(
            help=f"Local training: {', '.join(STRATEGIES)}. Default: fedaom; for a task without a shared set fedavg.",
            **words(*STRATEGIES, metavar="STRATEGY"),
        ),
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Folder with a task of your own, instead of a dataset.")] = None,
    source: Annotated[
        Path | None, typer.Option("--data", help="What the task's data() reads; a folder with one for each client.")
    ] = None,
    base: BaseOptions = None,
    settings: TaskSettings = None,
    table_format: TableFormatOptions = None,
    sandbox: Sandbox = AUTO,
    masking: Masking = "bbtsa",
    drop: Annotated[float, typer.Option(help="Fraction of clients that drop out of each round.")] = 0.0,
    chain: Annotated[
        str, typer.Option(help="The chain; URL: an EVM JSON-RPC endpoint.", **words("embedded", "anvil", other="URL"))
    ] = "embedded",
    store: Annotated[
        str,
        typer.Option(help="The store; kubo starts a node; URL: a Kubo API.", **words("disk", "kubo", other="URL")),
    ] = "disk",
    epsilon: Epsilon = 0.0,
    held_out: HeldOut = 0.0,
    patience: Patience = 0,
    method: Method = TRAINING,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training; keys and masks never depend on it.")] = 0,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Training processes; 0 chooses.")] = 0,
    portable: Portable = False,
    explorer: Annotated[
        bool, typer.Option("--explorer", help="Serve pages that show the run live, and print their address.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Keep the run here, for `fedgrove audit`.")] = None,
    log_to: LogTo = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out that was interrupted, with its options.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report to stdout.")] = False,
) -> int:
    """Run a whole federation on this machine and audit it.

    Exit code: 0 verified, 1 a bad record or no round that closed, 2 bad usage.

    Example: fedgrove demo --clients 8 --rounds 3 --drop 0.25 --out runs/first
    """
    from fedgrove.node.devnet.demo import DemoPlan  # needs torch, which the other commands do without
    from fedgrove.node.devnet.demo_request import DemoRequest

    given = _given(context)
    if task is not None:
        _refuse(given, _DATASETS_ONLY, "is not for tasks: leave it out with --task")
    pages = _pages(explorer)
    targets = log_targets(log_to)
    masks = cast(Literal["bbtsa", "pairwise"], masking)
    ends = (held_out, patience, portable)
    plan = DemoPlan(clients, rounds, alpha, "", masks, drop, seed, workers, epsilon, method, *ends)
    form = given_format(table_format)
    request = DemoRequest(
        plan,
        strategy,
        dataset,
        data_dir,
        task,
        source,
        settings=settings_of(settings),
        bases=given_bases(base),
        sandbox=sandbox,
        chain=chain,
        store=store,
        pages=pages,
        table_format=form.to_table() if form is not None else {},
    )
    with ExitStack() as stack:
        logs = stack.enter_context(opened_logs(targets, complain))
        request = replace(request, figures=logs.write if logs else None)
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        started = _Asked(request, out, temporary, resume, given)
        try:
            done = started.run(stack)
        except KeyboardInterrupt:
            raise CommandError(f"stopped{_kept(out)}", 130) from None
    if as_json:
        print_json({**done.report, "caveats": done.verdict.caveats})
    else:
        print_rounds(done.report)
        _say_what_failed(done.report, started.sat_out)
        print_verdict(done.verdict)
        if out:
            answer(f"Kept in {out}: check it with  {command_line('audit', out)}")
            answer(f"Look at it with  {command_line('explorer', out)}")
    closed = any(each["status"] == "closed" for each in done.report["rounds"])
    return done.verdict.exit_code or (0 if closed else FAILED)


@dataclass
class _Asked:
    """A demonstration as the command line asks for it.

    Attributes
    ----------
    given : frozenset of str
        The options that it names.
    sat_out : str
        Why a client sat out the last round; empty if none did.
    """

    request: "DemoRequest"
    out: Path | None
    temporary: Path
    resume: bool
    given: frozenset[str]
    sat_out: str = ""

    def run(self, stack: ExitStack) -> "Demonstration":
        """Begin, or go on; a CommandError says what is wrong, what is kept, and how to go on."""
        from fedgrove.node.devnet.demo import DemoFailed
        from fedgrove.node.devnet.demo_request import InvalidOption
        from fedgrove.node.devnet.run_state import StateUnusable

        try:
            return self._resumed(stack) if self.resume else self._begun(stack)
        except InvalidOption as mistake:
            raise CommandError(f"--{mistake}") from None
        except Exception as fault:
            own = isinstance(fault, DemoFailed | StateUnusable) or is_users_to_mend(fault)
            sentence = fault_of_disk(fault) or (str(fault) if own else "")
            if not sentence:
                raise
            raise CommandError(f"{sentence.removesuffix('.')}{_kept(self.out)}") from None

    def _begun(self, stack: ExitStack) -> "Demonstration":
        from fedgrove.node.devnet.demonstration import demonstrate

        display = stack.enter_context(DemoDisplay(self.request.plan.ledger_rounds))
        done = demonstrate(self.request, self.out or self.temporary / "run", display, self._audit)
        self.sat_out = display.sat_out
        return done

    def _resumed(self, stack: ExitStack) -> "Demonstration":
        from fedgrove.node.devnet.demonstration import asked_for, resume

        if self.out is None:
            raise CommandError("--resume goes on with the run in a directory: give its --out")
        before = asked_for(self.out)
        self._check_same(before)
        display = stack.enter_context(DemoDisplay(before.plan.ledger_rounds))
        done = resume(self.out, display, self._audit, self.request.pages, self.request.figures)
        self.sat_out = display.sat_out
        return done

    def _check_same(self, before: "DemoRequest") -> None:
        """The run goes on with its own options: those that are named again must be the same."""
        from fedgrove.node.devnet.demo_request import options_of

        named, own = ({**each.pop("plan"), **each} for each in map(options_of, (self.request, before)))
        other = sorted(name for name in self.given & named.keys() if named[name] != own[name])
        if other:
            option = _OPTIONS.get(other[0], other[0].replace("_", "-"))
            raise CommandError(f"--{option} is not what the run in {self.out} began with: leave it out")

    @property
    def _audit(self) -> str:
        return command_line("audit", self.out or "DIR")


def _refuse(given: frozenset[str], names: tuple[str, ...], why: str) -> None:
    """Refuse the first of the options that the command line names."""
    for name in names:
        if name in given:
            raise CommandError(f"--{name.replace('_', '-')} {why}")


def _say_what_failed(report: dict[str, Any], sat_out: str) -> None:
    """Say that there are fewer trained rounds than planned, where the last ones failed, and what to do."""
    statuses = [each["status"] for each in report["rounds"]]
    if statuses and statuses[-1] != "closed":
        terms = report["config"]["federation"]
        wanted = terms["rounds"] + ("evaluation" in report["config"])
        advice = f"a client sat out the last one: {sat_out}" if sat_out else "lower --drop, or run more clients"
        answer(
            f"{statuses.count('closed')} of {wanted} rounds closed: the others failed, and were repeated up "
            f"to {terms['repeats']} times; {advice}"
        )


def _given(context: typer.Context) -> frozenset[str]:
    """The parameters that the command line names, except for those that may change when a run goes on."""
    named = {name for name in context.params if given(context, name)}
    return frozenset(named - {"workers", "explorer"})


def _pages(wanted: bool) -> "ServePages | None":
    """What serves pages about the run while it goes on."""
    if not wanted:
        return None
    require("explorer", "the explorer")
    from fedgrove.node.explorer.live import live_pages

    return live_pages


def _kept(out: Path | None) -> str:
    """The end of a sentence: where the rounds are that had ended, and how to go on."""
    if out is None:
        return ""
    ended = f"the rounds that had ended are in {out}: check them with {command_line('audit', out)}"
    on = f"go on with {command_line('demo', '--out', out, '--resume')}"
    parts = [ended] * (out / LEDGER).exists() + [on] * RunState.beside(out).begun
    return f"; {', '.join(parts)}" if parts else ""
