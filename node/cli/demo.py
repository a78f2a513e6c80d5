"""``fedgrove demo``: eight clients train on real data under masks, on a real EVM, and an auditor has the last word."""

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from fedgrove.node.audit.archive import LEDGER
from fedgrove.node.cli.bases import BaseOptions, given_bases
from fedgrove.node.cli.explorer import check_installed
from fedgrove.node.cli.log_to import LogTo, log_targets, opened_logs
from fedgrove.node.cli.options import Epsilon, Method, Sandbox
from fedgrove.node.cli.output import CommandError, complain, console, print_json
from fedgrove.node.cli.progress import DemoDisplay, print_rounds, print_verdict
from fedgrove.node.devnet.method_option import TRAINING
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.tasks.sandbox.modes import AUTO


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
    base: BaseOptions = None,
    sandbox: Sandbox = AUTO,
    masking: Annotated[str, typer.Option(help="Masks: bbtsa, pairwise.")] = "bbtsa",
    drop: Annotated[float, typer.Option(help="Fraction of clients that drop out of each round.")] = 0.0,
    chain: Annotated[str, typer.Option(help="embedded, anvil, or the URL of an EVM JSON-RPC endpoint.")] = "embedded",
    store: Annotated[str, typer.Option(help="disk, kubo (starts a node), or the URL of a Kubo API.")] = "disk",
    epsilon: Epsilon = 0.0,
    held_out: Annotated[
        float,
        typer.Option(help="Share of its samples on which each client evaluates the model before it trains; 0: none."),
    ] = 0.0,
    patience: Annotated[
        int,
        typer.Option(min=0, help="End when the loss that they find has not fallen for this many rounds; 0: never."),
    ] = 0,
    method: Method = TRAINING,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training; keys and masks never depend on it.")] = 0,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Training processes; 0 chooses.")] = 0,
    explorer: Annotated[
        bool, typer.Option("--explorer", help="Serve pages that show the run live, and print their address.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Keep the run here, for `fedgrove audit`.")] = None,
    log_to: LogTo = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report to stdout.")] = False,
) -> int:
    """Run a whole federation on this machine and audit it.

    Example: fedgrove demo --clients 8 --rounds 3 --drop 0.25 --out runs/first
    """
    from fedgrove.node.devnet.demo import DemoFailed, DemoPlan  # needs torch, which the other commands do without
    from fedgrove.node.devnet.demonstration import DemoRequest, InvalidOption, demonstrate

    if explorer:
        check_installed()
    targets = log_targets(log_to)
    masks = cast(Literal["bbtsa", "pairwise"], masking)
    plan = DemoPlan(clients, rounds, alpha, "", masks, drop, seed, workers, epsilon, method, held_out, patience)
    request = DemoRequest(
        plan,
        strategy,
        dataset,
        data_dir,
        task,
        source,
        bases=given_bases(base),
        sandbox=sandbox,
        chain=chain,
        store=store,
        explorer=explorer,
    )
    with ExitStack() as stack:
        logs = stack.enter_context(opened_logs(targets, complain))
        request = replace(request, figures=logs.write if logs else None)
        directory = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        display = stack.enter_context(DemoDisplay(plan.ledger_rounds))
        try:
            done = demonstrate(request, directory, display, f"fedgrove audit {out or 'DIR'}")
        except InvalidOption as mistake:
            raise CommandError(f"--{mistake}") from None
        except DemoFailed as fault:
            raise CommandError(f"{fault}{_kept(out)}") from None
        except KeyboardInterrupt:
            complain(f"stopped{_kept(out)}")
            return 130
    if as_json:
        print_json(done.report)
    else:
        print_rounds(done.report)
        print_verdict(done.verdict)
        if out:
            console.print(f"Kept in {out}: check it with  fedgrove audit {out}")
            console.print(f"Look at it with  fedgrove explorer {out}", soft_wrap=True)
    return done.verdict.exit_code


def _kept(out: Path | None) -> str:
    """The end of a sentence: where the rounds are that had ended."""
    if out is None or not (out / LEDGER).exists():
        return ""
    return f"; the rounds that had ended are in {out}: check them with fedgrove audit {out}"
