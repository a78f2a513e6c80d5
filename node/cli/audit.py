"""``fedgrove audit``: recompute a training history and name the first bad record."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from chain.deployment import read_deployment, verify_code
from chain.history import capture
from chain.networks import connect
from ipfs.disk import DiskStore
from ipfs.kubo import KuboStore
from ipfs.store import ContentStore
from node.auditing.archive import audit_car, audit_directory, chain_facts, export_car
from node.auditing.verdict import Verdict
from node.auditor import Auditor
from node.cli.output import CommandError, console, print_json
from node.cli.progress import print_verdict


class AuditGroup(typer.core.TyperGroup):
    """Lets ``audit DIR`` stand beside ``audit export`` and ``audit verify``."""

    def parse_args(self, context: typer.Context, arguments: list[str]) -> list[str]:
        if arguments and arguments[0] not in (*self.commands, "--help"):
            arguments = ["run", *arguments]
        return super().parse_args(context, arguments)


app = typer.Typer(
    cls=AuditGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Recompute a training history and name the first bad record.\n\n"
    "Example: fedgrove audit runs/first\n\n"
    "Example: fedgrove audit --rpc http://127.0.0.1:8545 --ledger 0x… --store disk:runs/first/store\n\n"
    "Exit code: 0 verified, 1 a bad record (named), 2 cannot tell.",
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the verdict to stdout as JSON.")]


@app.command("run", hidden=True)
def run(
    directory: Annotated[Path | None, typer.Argument(help="A run's directory, as `demo --out` leaves it.")] = None,
    rpc: Annotated[str | None, typer.Option(help="URL of an EVM JSON-RPC endpoint.")] = None,
    ledger: Annotated[str | None, typer.Option(help="Address of the TrainingLedger contract.")] = None,
    store: Annotated[str | None, typer.Option(help="disk:PATH, or the URL of a Kubo API.")] = None,
    from_block: Annotated[int, typer.Option(min=0, help="Block of the deployment; 0 searches for it.")] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Audit a run's directory, or a live ledger and its store.

    Example: fedgrove audit runs/first
    """
    if directory is not None and (rpc or ledger or store):
        raise CommandError("give either a directory or --rpc, --ledger and --store")
    if directory is not None:
        return _report(_with_progress(lambda tick: audit_directory(directory, tick)), as_json)
    if not (rpc and ledger and store):
        raise CommandError("give a run's directory, or all of --rpc, --ledger and --store")
    return _report(_audit_live(rpc, ledger, open_content(store), from_block), as_json)


@app.command("export")
def export(
    directory: Annotated[Path, typer.Argument(help="A run's directory.")],
    target: Annotated[Path, typer.Argument(help="The CAR file to write.")],
) -> int:
    """Write one CAR file with the ledger's history and every blob.

    Example: fedgrove audit export runs/first first.car
    """
    root = export_car(directory, target)
    console.print(f"wrote {target} ({target.stat().st_size:,} bytes), root {root}")
    return 0


@app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="A CAR file of `audit export`.")], as_json: JsonFlag = False
) -> int:
    """Audit a CAR file; needs no network.

    Example: fedgrove audit verify first.car
    """
    return _report(_with_progress(lambda tick: audit_car(file, tick)), as_json)


def open_content(store: str) -> ContentStore:
    """The store that ``disk:PATH`` or a Kubo API's address names; a disk store must exist."""
    if store.startswith("disk:"):
        path = Path(store.removeprefix("disk:"))
        if not path.is_dir():
            raise CommandError(f"there is no store at {path}")
        return DiskStore(path)
    if store.startswith(("http://", "https://", "/ip4/", "/dns")):
        return KuboStore(store)
    raise CommandError(f"--store must be disk:PATH or the URL of a Kubo API, not {store!r}")


def _audit_live(rpc: str, ledger: str, store: ContentStore, from_block: int) -> Verdict:
    with connect(rpc) as network:
        deployment = read_deployment(network, ledger, from_block or None)
        verify_code(network, deployment)
        history = capture(network, deployment)
    history.verify()
    return _with_progress(lambda tick: Auditor(chain_facts(history), history.records(), store, tick).run())


def _with_progress(work) -> Verdict:
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking records", total=None)
        return work(lambda done: progress.update(task, completed=done))


def _report(verdict: Verdict, as_json: bool) -> int:
    if as_json:
        print_json(verdict.to_dict())
    else:
        print_verdict(verdict)
    return verdict.exit_code
