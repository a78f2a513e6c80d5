"""``fedgrove demo``: eight clients train on real data under masks, on a real EVM, and an auditor has the last word."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgrove.common.errors import Error
from fedgrove.common.text import command_line
from fedgrove.node.audit.archive import LEDGER
from fedgrove.node.audit.succession import Continuation
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.histories import Kept, continued, place_and_round
from fedgrove.node.cli.log_to import LogTo, log_targets, opened_logs
from fedgrove.node.cli.options import JsonFlag
from fedgrove.node.cli.output import (
    FAILED,
    CommandError,
    answer,
    complain,
    explained,
    print_json,
)
from fedgrove.node.cli.progress import DemoDisplay, print_rounds, print_verdict
from fedgrove.node.cli.scenario_options import Asked, takes
from fedgrove.node.devnet.run_state import RunState

if TYPE_CHECKING:
    from fedgrove.node.devnet.demonstration import Demonstration, ServePages, Spectators
    from fedgrove.node.scenario.scenario import Scenario

MAY_CHANGE = ("run.workers", "run.explorer")
"""Keys whose values may be others when a run goes on."""


@takes(
    *("clients", "rounds", "dataset", "task", "data", "alpha", "strategy", "masking", "drop", "epsilon", "held_out"),
    *("patience", "method", "seed", "portable", "bases", "table_format", "chain", "store", "sandbox", "data_dir"),
    *("workers", "explorer"),
)
def demo(
    asked: Asked,
    out: Annotated[Path | None, typer.Option(help="Keep the run here, for `fedgrove audit`.")] = None,
    continues: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|CAR[:ROUND]",
            help="Train on from a model of this earlier run, by default that of its last closed round.",
        ),
    ] = None,
    log_to: LogTo = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out that was interrupted, with its options.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Run a whole federation on this machine and audit it.

    Exit code: 0 verified, 1 a bad record or no round that closed, 2 bad usage.

    Example: fedgrove demo --clients 8 --rounds 3 --drop 0.25 --out runs/first

    Example: fedgrove demo --clients 6 --continues runs/first --out runs/second
    """
    if resume and continues is not None:
        raise CommandError("--resume goes on with the run as it began: leave --continues out")
    scenario = _scenario(asked, out, resume)
    earlier = continued(continues) if continues is not None else None
    targets, pages = log_targets(log_to), _pages(scenario.run.explorer is True)
    with ExitStack() as stack:
        logs = stack.enter_context(opened_logs(targets, complain))
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        from fedgrove.node.devnet.demonstration import Spectators  # brings torch
        from fedgrove.node.devnet.terms import ledger_rounds

        display = stack.enter_context(DemoDisplay(ledger_rounds(scenario)))
        spectators = Spectators(display, command_line("audit", out or "DIR"), pages, logs.write if logs else None)
        try:
            done = _run(scenario, out, temporary, resume, spectators, earlier)
        except KeyboardInterrupt:
            raise CommandError(f"stopped{_kept(out)}", 130) from None
    if as_json:
        print_json({**done.report, "caveats": done.verdict.caveats})
    else:
        print_rounds(done.report)
        _say_what_failed(done.report, display.sat_out)
        print_verdict(done.verdict)
        if out:
            before = place_and_round(continues)[0] if continues is not None else None
            earlier_run = ("--before", before.path) if isinstance(before, Kept) else ()
            answer(f"Kept in {out}: check it with  {command_line('audit', out, *earlier_run)}")
            answer(f"Look at it with  {command_line('explorer', out)}")
    closed = any(each["status"] == "closed" for each in done.report["rounds"])
    return done.verdict.exit_code if closed else FAILED


def _scenario(asked: Asked, out: Path | None, resume: bool) -> "Scenario":
    """The scenario to run; a run that goes on has its own, and what is named again must be the same."""
    if not resume:
        return asked.scenario()
    from fedgrove.node.devnet.demonstration import begun_with  # brings torch

    if out is None:
        raise CommandError("--resume goes on with the run in a directory: give its --out")
    before = begun_with(out)
    asked.check_same(before, f"the run in {out} began", "leave it out", MAY_CHANGE)
    return before


def _run(
    scenario: "Scenario",
    out: Path | None,
    temporary: Path,
    resume: bool,
    spectators: "Spectators",
    earlier: Continuation | None,
) -> "Demonstration":
    """Begin, or go on; a CommandError says what is wrong, what is kept, and how to go on."""
    from fedgrove.node.devnet import demonstration

    try:
        if resume and out is not None:
            return demonstration.resume(out, spectators)
        return demonstration.demonstrate(scenario, out or temporary / "run", spectators, earlier)
    except InvalidConfig:
        raise  # a mistake in the options: nothing was begun
    except Exception as fault:
        sentence = explained(fault)
        if not sentence:
            raise
        code = fault.exit_code if isinstance(fault, Error) else Error.exit_code
        raise CommandError(f"{sentence.removesuffix('.')}{_kept(out)}", code) from None


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


def _pages(wanted: bool) -> "ServePages | None":
    """What serves pages about the run while it goes on."""
    if not wanted:
        return None
    require("explorer", "the explorer")
    from fedgrove.node.explorer.server import live_pages

    return live_pages


def _kept(out: Path | None) -> str:
    """The end of a sentence: where the rounds are that had ended, and how to go on."""
    if out is None:
        return ""
    ended = f"the rounds that had ended are in {out}: check them with {command_line('audit', out)}"
    on = f"go on with {command_line('demo', '--out', out, '--resume')}"
    parts = [ended] * (out / LEDGER).exists() + [on] * RunState.next_to(out).begun
    return f"; {', '.join(parts)}" if parts else ""
