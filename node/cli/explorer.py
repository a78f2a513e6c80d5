"""``fedgrove explorer``: look at a training history in a browser, or write it as pages to publish."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.output import CommandError, flush, report

if TYPE_CHECKING:
    from fedgrove.node.explorer.sources import Source
    from fedgrove.node.explorer.watch import Snapshot


def explorer(
    history: Annotated[Path | None, typer.Argument(help="A run's directory, or a CAR file of `audit export`.")] = None,
    rpc: Annotated[list[str] | None, typer.Option(help="URL of an EVM JSON-RPC endpoint; may be repeated.")] = None,
    ledger: Annotated[str | None, typer.Option(help="Address of the TrainingLedger contract.")] = None,
    store: Annotated[str | None, typer.Option(help="disk:PATH, or the URL of a Kubo API.")] = None,
    from_block: Annotated[int, typer.Option(min=0, help="Block of the deployment; 0 searches for it.")] = 0,
    export: Annotated[Path | None, typer.Option(help="Write the pages into this new folder, and exit.")] = None,
    blob_mib: Annotated[int, typer.Option(min=0, help="With --export: include at most this many MiB of blobs.")] = 64,
    host: Annotated[
        str, typer.Option(help="Address to listen on; a non-loopback address exposes it to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 8600,
    index: Annotated[Path | None, typer.Option(help="Folder of the indexes; by default in the user's cache.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address, or what --export wrote, to stdout as JSON.")
    ] = False,
) -> int:
    """Serve pages that show a training history and check it, until stopped; or write them to publish.

    Example: fedgrove explorer runs/first

    Example: fedgrove explorer --rpc http://127.0.0.1:8545 --ledger 0x… --store http://127.0.0.1:5001

    Example: fedgrove explorer runs/first --export site

    With --export the exit code is that of the audit: 0 verified, 1 a bad record, 2 cannot tell. For a live ledger it
    writes the current state.
    """
    check_installed()
    if (history is None) == (not (rpc or ledger or store)):
        raise CommandError("give a run's directory or a CAR file, or all of --rpc, --ledger and --store")
    if history is None and not (rpc and ledger and store):
        raise CommandError("give all of --rpc, --ledger and --store")
    with _source(history, rpc, ledger, store, from_block) as source:
        if export:
            return _export(source, export, blob_mib << 20, index, as_json)
        return _serve(source, host, port, index, as_json)


def check_installed() -> None:
    """Complain unless the explorer can run."""
    require("explorer", "the explorer")


@contextmanager
def _source(
    history: Path | None, rpc: list[str] | None, ledger: str | None, store: str | None, from_block: int
) -> Iterator["Source"]:
    from fedgrove.chain.founding import read_deployment, verify_code
    from fedgrove.chain.networks import connect
    from fedgrove.node.cli.stores import open_content
    from fedgrove.node.explorer.sources import CarSource, DirectorySource, LiveSource

    if history is not None and history.is_file():
        with closing(CarSource(history)) as source:
            yield source
        return
    if history is not None:
        yield DirectorySource(history)
        return
    if not (rpc and ledger and store):
        raise CommandError("give all of --rpc, --ledger and --store")
    content = open_content(store)
    with connect(rpc) as network:
        deployment = read_deployment(network, ledger, from_block or None)
        verify_code(network, deployment)
        options = " ".join(f"--rpc {url}" for url in rpc)
        command = f"fedgrove audit {options} --ledger {ledger} --store {store}"
        yield LiveSource(network, deployment, content, ", ".join(rpc), command)


def _serve(source: "Source", host: str, port: int, index: Path | None, as_json: bool) -> int:
    from fedgrove.node.explorer.cache import open_index
    from fedgrove.node.explorer.server import serving
    from fedgrove.node.explorer.watch import IndexWatch

    with open_index(source, index) as found, IndexWatch(source, found) as watch:
        try:
            with serving(watch, host, port) as address:
                report({"explorer": address}, f"explorer: {address}  (Ctrl-C ends it)", as_json)
                flush()
                while True:
                    time.sleep(3600)
        except OSError as fault:
            raise CommandError(f"cannot listen on {host}, port {port}: {fault.strerror}; give another --port") from None
        except KeyboardInterrupt:
            return 0


def _export(source: "Source", target: Path, blob_bytes: int, index: Path | None, as_json: bool) -> int:
    from fedgrove.node.explorer.cache import open_index
    from fedgrove.node.explorer.export import export
    from fedgrove.node.explorer.watch import IndexWatch

    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} already exists: nothing was changed, give a new or empty folder")
    with open_index(source, index) as found:
        with IndexWatch(source, found) as watch:
            sight = watch.settle()
        # Nothing is read any more: the pages agree with each other, though a live federation goes on.
        waiting = sight.waiting or sight.store_waiting
        if waiting:
            raise CommandError(f"nothing was written: {waiting}")
        written = export(watch, target, blob_bytes)
    sentence = f"wrote {written.pages} pages and {written.blobs} blobs ({written.left_out} left out) into {target}"
    document = {"folder": str(target), **asdict(written), "audit": _audit_says(sight)}
    report(document, f"{sentence}\naudit: {_audit_says(sight)}", as_json)
    return sight.verdict.exit_code if sight.verdict and not sight.audit_waiting else 2


def _audit_says(sight: "Snapshot") -> str:
    """The last word of the audit, or what it says up to now."""
    verdict = sight.verdict
    if verdict is None or sight.audit_waiting:
        return f"cannot tell: {sight.audit_waiting or 'the audit has no verdict yet'}"
    if verdict.first_bad_record is not None:
        return f"bad record: {verdict.first_bad_record}"
    return f"{verdict.verdict} ({verdict.reason or f'{verdict.records} records'})"
