"""``fedgrove explorer``: look at a training history in a browser, or write it as pages to publish."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from eth_utils import is_address

from fedgrove.node.cli.extras import require
from fedgrove.node.cli.histories import (
    RUN,
    FromBlock,
    Kept,
    LedgerAddress,
    Place,
    Rpc,
    Store,
    live_federation,
    place_of,
)
from fedgrove.node.cli.options import EtherPrice, JsonFlag
from fedgrove.node.cli.output import CommandError, complain, flush, report

_NAMED = 5  # pages that could not be made; a message names no more

if TYPE_CHECKING:
    from fedgrove.node.explorer.options import PageOptions
    from fedgrove.node.explorer.sources import Source
    from fedgrove.node.explorer.watch import IndexWatch, Snapshot


def explorer(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN …]", help=f"{RUN[:-1]}; several: compare them.")
    ] = None,
    rpc: Rpc = None,
    ledger: LedgerAddress = None,
    store: Store = None,
    from_block: FromBlock = 0,
    export: Annotated[Path | None, typer.Option(help="Write the pages into this new folder, and exit.")] = None,
    blob_mib: Annotated[int, typer.Option(min=0, help="With --export: include at most this many MiB of blobs.")] = 64,
    host: Annotated[
        str, typer.Option(help="Address to listen on; a non-loopback address exposes it to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 8600,
    index: Annotated[Path | None, typer.Option(help="Folder of the indexes; by default in the user's cache.")] = None,
    price: EtherPrice = None,
    block_explorer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[CHAIN_ID=]URL",
            help="Link to this public site, as https://example.org/{kind}/{id}; may be repeated, one a chain.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Serve pages that show a training history and check it, until stopped; or write them to publish.

    With several runs the first page compares them. A federation's file, as its members have it, stands for the ledger
    and the store in its [network], so live ledgers are compared, too. Scripts read the same as JSON from /api/v1/runs.

    Example: fedgrove explorer runs/first

    Example: fedgrove explorer runs/first runs/second --price '2500 EUR'

    Example: fedgrove explorer one/federation.toml other/federation.toml runs/first

    Example: fedgrove explorer --rpc http://127.0.0.1:8545 --ledger 0x… --store http://127.0.0.1:5001

    Example: fedgrove explorer runs/first --export site

    With --export the exit code is that of the audit: 0 verified, 1 a bad record, 2 cannot tell or no round closed, or
    a page could not be made. For a live ledger it writes the current state.
    """
    require("explorer", "the explorer")
    from fedgrove.node.explorer.options import BlockExplorer, PageOptions

    places = _places(runs or [], rpc, ledger, store, from_block)
    if index is not None and index.exists() and not index.is_dir():
        raise CommandError(f"--index {index} is not a folder: give another, which is made if there is none")
    options = PageOptions(price, tuple(map(BlockExplorer.parse, block_explorer or ())))
    with ExitStack() as held:
        sources = [held.enter_context(_source(place, len(places) == 1)) for place in places]
        _name_practice(sources, options)
        if export:
            return _export(sources, export, blob_mib << 20, index, options, as_json)
        return _serve(sources, host, port, index, options, as_json)


def _places(
    runs: list[str], rpc: list[str] | None, ledger: str | None, store: str | None, from_block: int
) -> list[Place]:
    """The places of all runs, and of the one ledger that the options name."""
    from fedgrove.node.explorer.views.comparison import MAX_RUNS

    names = [name for name in runs if not is_address(name)]
    if len(runs) > len(names) + 1:
        raise CommandError("only one ledger can be given by its address: give federations' TOML files instead")
    address = next((name for name in runs if is_address(name)), None)
    places = [place_of(name) for name in names]
    if not names or address or rpc or ledger or store:
        places.append(place_of(address, rpc, ledger, store, from_block))
    if len(places) > MAX_RUNS:
        raise CommandError(f"{len(places)} runs are too many to compare: give at most {MAX_RUNS}")
    if len({Path(name).resolve() for name in names}) < len(names):
        raise CommandError("a run is given twice: give each once")
    return places


@contextmanager
def _source(place: Place, alone: bool) -> Iterator["Source"]:
    """What pages show of a place; see ``live_federation`` for ``alone``."""
    from fedgrove.node.explorer.sources import CarSource, DirectorySource, LiveSource

    if not isinstance(place, Kept):
        with live_federation(place, alone) as live:
            yield LiveSource(live.network, live.deployment, live.content, live.title, live.command)
    elif place.path.is_file():
        with closing(CarSource(place.path)) as source:
            yield source
    else:
        yield DirectorySource(place.path)


def _name_practice(sources: list["Source"], options: "PageOptions") -> None:
    """Say which options do not apply to runs on practice chains."""
    for source in sources:
        if source.deployment is None or not source.deployment.practice:
            continue
        where = f"{source.name} is on a practice chain ({source.deployment.chain_id})"
        if options.price:
            complain(f"{where}: its fees cost nothing, so --price does not apply to it")
        if options.block_explorers and options.block_explorer(source.deployment) is None:
            named = f"{source.deployment.chain_id}=http://127.0.0.1:4000/{{kind}}/{{id}}"
            complain(f"{where} that no public site knows: --block-explorer {named} links a site of your own")


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
    code = _exit_code(sights)
    if not written.failed:
        return code
    shown, more = ", ".join(written.failed[:_NAMED]), len(written.failed) - _NAMED
    complain(
        f"{len(written.failed)} of {written.pages} pages could not be made and say so instead ({shown}"
        f"{f' and {more} more' if more > 0 else ''}): this is a fault of fedgrove, please report what is printed above"
    )
    return code or 2


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
    return f"{verdict.word} ({verdict.reason or f'{verdict.records} records'})"
