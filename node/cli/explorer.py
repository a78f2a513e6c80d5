"""``fedgrove explorer``: look at a training history in a browser, or write it as pages to publish."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.output import CommandError, flush, report

if TYPE_CHECKING:
    from fedgrove.node.explorer.options import PageOptions
    from fedgrove.node.explorer.sources import Source
    from fedgrove.node.explorer.watch import IndexWatch, Snapshot


def explorer(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN …]",
            help="A run's directory, a CAR file of `audit export`, or a federation's TOML file; several: compare.",
        ),
    ] = None,
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
    price: Annotated[
        str | None, typer.Option(metavar="AMOUNT CURRENCY", help="Price of one ether, to show costs, as '2500 EUR'.")
    ] = None,
    block_explorer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CHAIN_ID=]URL",
            help="Link to this public site, as https://example.org/{kind}/{id}; may be repeated, one a chain.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address, or what --export wrote, to stdout as JSON.")
    ] = False,
) -> int:
    """Serve pages that show a training history and check it, until stopped; or write them to publish.

    With several runs the first page compares them. A federation's file, as its members have it, stands for the ledger
    and the store in its [network], so live ledgers are compared, too. Scripts read the same as JSON from /api/v1/runs.

    Example: fedgrove explorer runs/first

    Example: fedgrove explorer runs/first runs/second --price '2500 EUR'

    Example: fedgrove explorer one/federation.toml other/federation.toml runs/first

    Example: fedgrove explorer --rpc http://127.0.0.1:8545 --ledger 0x… --store http://127.0.0.1:5001

    Example: fedgrove explorer runs/first --export site

    With --export the exit code is that of the audit: 0 verified, 1 a bad record, 2 cannot tell. For a live ledger it
    writes the current state.
    """
    check_installed()
    live = bool(rpc or ledger or store)
    if not runs and not live:
        raise CommandError("give directories of runs, CAR files or federations' files, or --rpc, --ledger and --store")
    if live and not (rpc and ledger and store):
        raise CommandError("give all of --rpc, --ledger and --store")
    _check_runs(runs or [], live)
    if index is not None and index.exists() and not index.is_dir():
        raise CommandError(f"--index {index} is not a folder: give another, which is made if there is none")
    options = _page_options(price, block_explorer or [])
    with ExitStack() as held:
        alone = len(runs or []) + live == 1
        sources = [
            held.enter_context(_federation(run, alone) if run.suffix == ".toml" else _kept(run)) for run in runs or []
        ]
        if live:
            sources.append(held.enter_context(_live(rpc or [], ledger or "", store or "", from_block)))
        if export:
            return _export(sources, export, blob_mib << 20, index, options, as_json)
        return _serve(sources, host, port, index, options, as_json)


def check_installed() -> None:
    """Complain unless the explorer can run."""
    require("explorer", "the explorer")


def _page_options(price: str | None, block_explorers: list[str]) -> "PageOptions":
    from fedgrove.node.explorer.options import BlockExplorer, PageOptions, Price

    try:
        sites = tuple(map(BlockExplorer.parse, block_explorers))
        return PageOptions(Price.parse(price) if price is not None else None, sites)
    except ValueError as fault:
        raise CommandError(str(fault)) from None


def _check_runs(runs: list[Path], live: bool) -> None:
    from fedgrove.node.explorer.views.comparison import MAX_RUNS

    if len(runs) + live > MAX_RUNS:
        raise CommandError(f"{len(runs) + live} runs are too many to compare: give at most {MAX_RUNS}")
    if len({run.resolve() for run in runs}) < len(runs):
        raise CommandError("a run is given twice: give each once")


@contextmanager
def _kept(run: Path) -> Iterator["Source"]:
    from fedgrove.node.explorer.sources import CarSource, DirectorySource

    if not run.is_file():
        yield DirectorySource(run)
        return
    with closing(CarSource(run)) as source:
        yield source


@contextmanager
def _federation(config: Path, alone: bool) -> Iterator["Source"]:
    """The live ledger in a federation's file, which may hold secrets: neither pages nor commands quote it.

    Of several, some are other people's: their stores get no password, whichever file or variable names one.
    """
    from fedgrove.node.cli.reach import check_reach, find_federation, open_network, open_store
    from fedgrove.node.cli.stores import open_content, open_kubo_store
    from fedgrove.node.explorer.sources import LiveSource
    from fedgrove.node.methods.terms import load_config

    _, reach = load_config(config)
    check_reach(config, reach)
    if reach.store.startswith("disk:"):
        content = open_content(reach.store)
    else:
        content = open_store(config, reach) if alone else open_kubo_store(reach.store, reach.store_seconds, None)
    with open_network(reach) as network:
        deployment = find_federation(network, reach)
        command = f"fedgrove audit --rpc … --ledger {deployment.ledger} --store …"
        yield LiveSource(network, deployment, content, str(config), command)


@contextmanager
def _live(rpc: list[str], ledger: str, store: str, from_block: int) -> Iterator["Source"]:
    from fedgrove.chain.founding import read_deployment, verify_code
    from fedgrove.chain.networks import connect
    from fedgrove.node.cli.stores import open_content
    from fedgrove.node.explorer.sources import LiveSource

    content = open_content(store)
    with connect(rpc) as network:
        deployment = read_deployment(network, ledger, from_block or None)
        verify_code(network, deployment)
        options = " ".join(f"--rpc {url}" for url in rpc)
        command = f"fedgrove audit {options} --ledger {ledger} --store {store}"
        yield LiveSource(network, deployment, content, ", ".join(rpc), command)


@contextmanager
def _watched(sources: list["Source"], index: Path | None) -> Iterator[list["IndexWatch"]]:
    """A watch over each source, at work while the block runs."""
    from fedgrove.node.explorer.cache import open_index
    from fedgrove.node.explorer.watch import IndexWatch

    with ExitStack() as held:
        indexes = [held.enter_context(open_index(source, index)) for source in sources]
        pairs = zip(sources, indexes, strict=True)
        yield [held.enter_context(IndexWatch(source, found)) for source, found in pairs]


def _serve(
    sources: list["Source"], host: str, port: int, index: Path | None, options: "PageOptions", as_json: bool
) -> int:
    from fedgrove.node.explorer.server import serving

    with _watched(sources, index) as watches:
        try:
            with serving(*watches, host=host, port=port, options=options) as address:
                report({"explorer": address}, f"explorer: {address}  (Ctrl-C ends it)", as_json)
                flush()
                while True:
                    time.sleep(3600)
        except OSError as fault:
            raise CommandError(f"cannot listen on {host}, port {port}: {fault.strerror}; give another --port") from None
        except KeyboardInterrupt:
            return 0


def _export(
    sources: list["Source"], target: Path, blob_bytes: int, index: Path | None, options: "PageOptions", as_json: bool
) -> int:
    from fedgrove.node.explorer.export import export, export_comparison

    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} already exists: nothing was changed, give a new or empty folder")
    with _watched(sources, index) as watches:
        sights = [watch.settle() for watch in watches]
        for watch in watches:
            watch.stop()  # so that the pages agree with each other, though a live federation goes on
        waiting = next(
            (sight.waiting or sight.store_waiting for sight in sights if sight.waiting or sight.store_waiting), ""
        )
        if waiting:
            raise CommandError(f"nothing was written: {waiting}")
        if len(watches) > 1:
            written = export_comparison(watches, target, blob_bytes, options)
        else:
            written = export(watches[0], target, blob_bytes, options)
    lines = [f"wrote {written.pages} pages and {written.blobs} blobs ({written.left_out} left out) into {target}"]
    audits = {source.name: _audit_says(sight) for source, sight in zip(sources, sights, strict=True)}
    lines += [f"audit{f' of {name}' if len(sources) > 1 else ''}: {said}" for name, said in audits.items()]
    report({"folder": str(target), **asdict(written), "audits": audits}, "\n".join(lines), as_json)
    return _exit_code(sights)


def _exit_code(sights: list["Snapshot"]) -> int:
    """That of the audit; of several, 1 where a record is bad, else 2 where one cannot tell."""
    codes = [sight.verdict.exit_code if sight.verdict and not sight.audit_waiting else 2 for sight in sights]
    return 1 if 1 in codes else max(codes)


def _audit_says(sight: "Snapshot") -> str:
    """The last word of the audit, or what it says up to now."""
    verdict = sight.verdict
    if verdict is None or sight.audit_waiting:
        return f"cannot tell: {sight.audit_waiting or 'the audit has no verdict yet'}"
    if verdict.first_bad_record is not None:
        return f"bad record: {verdict.first_bad_record}"
    return f"{verdict.verdict} ({verdict.reason or f'{verdict.records} records'})"
