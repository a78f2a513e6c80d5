"""Histories that a command reads: a run's directory, an archive of one, or a live ledger with its store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from eth_utils import is_address
from fedgrove.chain.access import Network
from fedgrove.chain.deployment import Deployment
from fedgrove.chain.founding import read_deployment, verify_code
from fedgrove.chain.history import BadHistory, LedgerHistory, capture
from fedgrove.chain.networks import connect
from fedgrove.ipfs.car import InvalidArchive
from fedgrove.node.audit.archive import opened_car
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.stores import open_content
from fedgrove.node.protocol.content import InvalidBlob

from fedgrove.api.history import History

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN|LEDGER", help="A run's directory, a CAR file, or with --rpc and --store a ledger's address."
    ),
]
Rpc = Annotated[list[str] | None, typer.Option(help="With LEDGER: URL of an EVM JSON-RPC endpoint; may be repeated.")]
Store = Annotated[str | None, typer.Option(help="With LEDGER: disk:PATH, or the URL of a Kubo API.")]
FromBlock = Annotated[int, typer.Option(min=0, help="With LEDGER: block of the deployment; 0 searches for it.")]


@contextmanager
def live_federation(rpc: list[str], ledger: str, from_block: int) -> Iterator[tuple[Network, Deployment]]:
    """A federation's chain and description, its contracts' code compared with this version's."""
    with connect(rpc) as network:
        deployment = read_deployment(network, ledger, from_block or None)
        verify_code(network, deployment)
        yield network, deployment


@contextmanager
def opened_history(run: str, rpc: list[str] | None, store: str | None, from_block: int) -> Iterator[History]:
    """The history that a command's argument names; what is wrong with it inside the block becomes one sentence."""
    try:
        if is_address(run):
            yield _of_ledger(run, rpc, store, from_block)
            return
        if rpc or store or from_block:
            raise CommandError(f"--rpc, --store and --from-block go with a ledger's address (0x…), not with {run!r}")
        if Path(run).is_file():
            with opened_car(Path(run)) as (ledger, content):
                yield History(LedgerHistory.load(ledger), content)
            return
        yield History(run)
    except KeyError as fault:
        raise CommandError(str(fault.args[0])) from None
    except (BadHistory, InvalidArchive, InvalidBlob, InvalidConfig, InvalidModel) as fault:
        raise CommandError(str(fault)) from None


def _of_ledger(ledger: str, rpc: list[str] | None, store: str | None, from_block: int) -> History:
    if not (rpc and store):
        raise CommandError("give --rpc and --store with a ledger's address")
    content = open_content(store)
    with live_federation(rpc, ledger, from_block) as (network, deployment):
        return History(capture(network, deployment), content)
