"""``fedgrove history``: what a ledger and its store hold, as tables."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from fedgrove.api.saving import write_new
from fedgrove.api.tables import HistoryTable, tables_of
from fedgrove.node.cli.histories import FromBlock, LedgerAddress, Rpc, Run, Store, opened_history, place_of
from fedgrove.node.cli.output import CommandError, answer, print_json

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Write a training history as tables.\n\nExample: fedgrove history export runs/first --csv tables",
)


@app.command("export")
def export(
    csv: Annotated[Path, typer.Option("--csv", metavar="DIR", help="Folder for the tables, made when missing.")],
    run: Run = None,
    rpc: Rpc = None,
    ledger: LedgerAddress = None,
    store: Store = None,
    from_block: FromBlock = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print files and numbers of rows to stdout as JSON.")] = False,
) -> int:
    """Write rounds.csv, records.csv and metrics.csv; files that are already there are never changed.

    The tables are what is on record. `fedgrove audit` checks that the record is right.

    Example: fedgrove history export runs/first --csv tables

    Example: fedgrove history export federation.toml --csv tables

    Example: fedgrove history export --rpc http://127.0.0.1:8545 --ledger 0x… --store disk:store --csv tables
    """
    targets = {name: csv / f"{name}.csv" for name in ("rounds", "records", "metrics")}
    _refuse_existing(targets.values())
    with opened_history(place_of(run, rpc, ledger, store, from_block)) as history:
        tables = tables_of(history.rounds, history.records)
    _write(csv, targets, tables)
    if as_json:
        found = {name: {"file": str(targets[name]), "rows": len(table.rows)} for name, table in tables.items()}
        print_json({"ledger": history.ledger.deployment.ledger, "chain_id": history.ledger.chain_id, "tables": found})
    else:
        counts = ", ".join(f"{targets[name].name} ({len(table.rows)} rows)" for name, table in tables.items())
        answer(f"wrote {counts} to {csv}")
    return 0


def _refuse_existing(targets: Iterable[Path]) -> None:
    for path in targets:
        if path.is_symlink() or path.exists():
            raise CommandError(f"{path} already exists: nothing was changed, give another folder")


def _write(folder: Path, targets: dict[str, Path], tables: dict[str, HistoryTable]) -> None:
    """All files or none."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            write_new(targets[name], table.to_csv().encode())
            written.append(targets[name])
    except BaseException as fault:
        for path in written:
            path.unlink()
        if isinstance(fault, OSError):
            raise CommandError(f"cannot write to {folder}: {fault.strerror}; give another folder") from None
        raise
