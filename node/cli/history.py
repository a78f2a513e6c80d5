"""``fedgrove history`` and ``fedgrove model``: what a ledger and its store hold, as tables and as files."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrove.api.saving import model_file, write_new
from fedgrove.api.tables import HistoryTable, tables_of
from fedgrove.node.cli.histories import FromBlock, LedgerAddress, Rpc, Run, Store, opened_history, place_of
from fedgrove.node.cli.options import ClusterMember, ClusterNumber, JsonFlag, group
from fedgrove.node.cli.output import CommandError, or_say, refuse_existing, report
from fedgrove.node.protocol.prediction import ModelChoice

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


model_app = group(
    "Take a model out of a training history.\n\nExample: fedgrove model save runs/first model.safetensors"
)


@model_app.command("save")
def save(
    run: Run = None,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The safetensors file to write; it must not exist.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--round", min=1, help="The round that closed with it; by default the last one.")
    ] = None,
    state_dict: Annotated[
        bool, typer.Option("--state-dict", help="Write what load_state_dict takes, with running variances.")
    ] = False,
    cluster: ClusterNumber = None,
    client: ClusterMember = None,
    rpc: Rpc = None,
    ledger: LedgerAddress = None,
    store: Store = None,
    from_block: FromBlock = 0,
    as_json: JsonFlag = False,
) -> int:
    """Write the model of a round as safetensors, after its bytes were compared with the digest on record.

    The header's metadata name its CID, round, ledger and chain, and hold the terms: `fedgrove predict` needs no more.

    Example: fedgrove model save runs/first model.safetensors

    Example: fedgrove model save runs/first --round 2 --state-dict second.safetensors

    Example: fedgrove model save federation.toml model.safetensors

    Example: fedgrove model save --rpc http://127.0.0.1:8545 --ledger 0x… --store disk:store model.safetensors
    """
    if file is None and ledger is not None and run is not None:  # the ledger is named: the one argument is the file
        run, file = None, Path(run)
    if file is None:
        raise CommandError("give the FILE to write, after the run (see `fedgrove model save --help`)")
    refuse_existing([file], "give another file")
    with opened_history(place_of(run, rpc, ledger, store, from_block)) as history:
        found = model_file(history, number, state_dict, ModelChoice(cluster, client))
    with or_say(f"cannot write {file}", "give another file"):
        write_new(file, found.data)
    about = found.metadata
    what = "the first model, as no round closed" if about["round"] == "0" else f"the model of round {about['round']}"
    sentence = f"wrote {file} ({found.tensors} tensors, {len(found.data)} bytes): {what}, {about['cid']}"
    report({"file": str(file), "bytes": len(found.data), "tensors": found.tensors, **about}, sentence, as_json)
    return 0
