"""``fedgrove history``: what a ledger and its store hold, as tables."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrove.api.saving import write_new
from fedgrove.api.tables import HistoryTable, tables_of
from fedgrove.node.cli.histories import FromBlock, LedgerAddress, Rpc, Run, Store, opened_history, place_of
from fedgrove.node.cli.options import JsonFlag, group
from fedgrove.node.cli.output import or_say, refuse_existing, report

app = group("Write a training history as tables.\n\nExample: fedgrove history export runs/first --csv tables")


@app.command("export")
def export(
    csv: Annotated[Path, typer.Option("--csv", metavar="DIR", help="Folder for the tables, made when missing.")],
    run: Run = None,
    rpc: Rpc = None,
    ledger: LedgerAddress = None,
    store: Store = None,
    from_block: FromBlock = 0,
    as_json: JsonFlag = False,
) -> int:
    """Write rounds.csv, records.csv and metrics.csv; files that are already there are never changed.

    The tables are what is on record. `fedgrove audit` checks that the record is right.

    Example: fedgrove history export runs/first --csv tables

    Example: fedgrove history export federation.toml --csv tables

    Example: fedgrove history export --rpc http://127.0.0.1:8545 --ledger 0x… --store disk:store --csv tables
    """
    targets = {name: csv / f"{name}.csv" for name in ("rounds", "records", "metrics")}
    refuse_existing(targets.values(), "give another folder")
    with opened_history(place_of(run, rpc, ledger, store, from_block)) as history:
        tables = tables_of(history.rounds, history.records)
    _write(csv, targets, tables)
    found = {name: {"file": str(targets[name]), "rows": len(table.rows)} for name, table in tables.items()}
    document = {"ledger": history.ledger.deployment.ledger, "chain_id": history.ledger.chain_id, "tables": found}
    counts = ", ".join(f"{targets[name].name} ({len(table.rows)} rows)" for name, table in tables.items())
    report(document, f"wrote {counts} to {csv}", as_json)
    return 0


def _write(folder: Path, targets: dict[str, Path], tables: dict[str, HistoryTable]) -> None:
    """All files or none."""
    written = []
    with or_say(f"cannot write to {folder}", "give another folder"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, table in tables.items():
                write_new(targets[name], table.to_csv().encode())
                written.append(targets[name])
        except BaseException:
            for path in written:
                path.unlink()
            raise
