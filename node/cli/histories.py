"""Histories that a command reads, named the same way everywhere.

A name is a run's directory, a CAR file of ``audit export``, a federation's TOML file, or a ledger's address with
``--rpc`` and ``--store``; the address may stand in ``--ledger`` as well.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from eth_utils import is_address

from fedgrove.api.history import History
from fedgrove.chain.face.founding import read_deployment, verify_code
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.history import capture
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.text import command_line
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.archive import opened_run
from fedgrove.node.audit.succession import Continuation, continuation
from fedgrove.node.cli.output import CommandError, address
from fedgrove.node.cli.progress import with_progress
from fedgrove.node.cli.reach import (
    check_reach,
    find_federation,
    open_content,
    open_kubo_store,
    open_network,
    open_store,
)
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings

_ROUND_DIGITS = 12
RUN = "A run's directory, a CAR file, a federation's TOML file, or a ledger's address with --rpc and --store."
Run = Annotated[str | None, typer.Argument(metavar="RUN", help=RUN)]
Rpc = Annotated[list[str] | None, typer.Option(metavar="URL", help="EVM JSON-RPC endpoint; may be repeated.")]
LedgerAddress = Annotated[
    str | None, typer.Option("--ledger", metavar="ADDRESS", help="Ledger (TrainingLedger contract); needs --rpc.")
]
Continues = Annotated[
    str | None,
    typer.Option(
        "--continues",
        metavar="DIR|CAR|LEDGER@RPC[:ROUND]",
        help="Train on from a model of this earlier federation, by default that of its last closed round.",
    ),
]
Store = Annotated[
    str | None, typer.Option(metavar="STORE", help="The ledger's store: disk:PATH, or the URL of a Kubo API.")
]
FromBlock = Annotated[
    int, typer.Option(min=0, metavar="BLOCK", help="Block of the ledger's deployment; 0 searches for it.")
]


@dataclass(frozen=True)
class Kept:
    """A run at rest: its directory, or a CAR file."""

    path: Path


@dataclass(frozen=True)
class Configured:
    """The live federation that a TOML file's ``[network]`` names."""

    config: Path


@dataclass(frozen=True)
class OnChain:
    """A live ledger with its store; ``from_block`` 0 searches for its deployment."""

    rpc: tuple[str, ...]
    ledger: str
    store: str
    from_block: int = 0


Place = Kept | Configured | OnChain


@dataclass(frozen=True)
class LiveFederation:
    """A live federation, open for reading.

    Attributes
    ----------
    command : str
        The command that audits it; it quotes nothing from a federation's file, which may hold secrets.
    """

    network: Network
    deployment: Deployment
    content: ContentReader
    title: str
    command: str


def place_of(
    run: str | None,
    rpc: Sequence[str] | None = None,
    ledger: str | None = None,
    store: str | None = None,
    from_block: int = 0,
) -> Place:
    """The place that a command's argument and options name; CommandError where they name none, or two."""
    if run is not None and is_address(run):
        if ledger is not None:
            raise CommandError("the ledger is given twice: leave --ledger out")
        run, ledger = None, run
    if run is not None:
        if rpc or ledger or store or from_block:
            raise CommandError(
                f"--rpc, --ledger, --store and --from-block go with a ledger's address (0x…), not with {run!r}"
            )
        path = Path(run)
        return Configured(path) if path.suffix == ".toml" and not path.is_dir() else Kept(path)
    if ledger is None and not (rpc or store):
        raise CommandError(
            "give a run's directory, a CAR file, a federation's TOML file, or --rpc, --ledger and --store"
        )
    if ledger is None:
        raise CommandError("give all of --rpc, --ledger and --store")
    if not (rpc and store):
        raise CommandError("give --rpc and --store with a ledger's address")
    return OnChain(tuple(rpc), address(ledger, "--ledger"), store, from_block)


def earlier_place(given: str, store: str | None = None) -> Place:
    """The place of an earlier federation's history: a path, or ``LEDGER@RPC`` where ``store`` has its blobs.

    Raises CommandError: it is neither, or nothing says where the blobs are.
    """
    ledger, at, url = given.partition("@")
    if not is_address(ledger):
        return place_of(given)
    if not (at and url):
        raise CommandError(f"give the endpoint, too: {ledger}@RPC, as in {ledger}@http://127.0.0.1:8545")
    if not store:
        raise CommandError(f"nothing says where the blobs of {ledger} are: give that federation's TOML file instead")
    return OnChain((url,), address(ledger, "LEDGER"), store)


def place_and_round(given: str, store: str | None = None) -> tuple[Place, int | None]:
    """As ``earlier_place``, and the number behind a last colon, which is a round's unless it is an endpoint's port."""
    head, colon, number = given.rpartition(":")
    named = bool(colon) and number.isdecimal() and len(number) <= _ROUND_DIGITS and not Path(given).exists()
    if named and "@" in head:
        address_of = urlsplit(head.partition("@")[2])
        named = bool(address_of.path or re.search(r":\d+$", address_of.netloc))
    return (earlier_place(head, store), int(number)) if named else (earlier_place(given, store), None)


def continued(given: str, store: str | None = None) -> Continuation:
    """What ``--continues`` names, once its history is verified; raises as ``place_and_round`` and ``continuation``."""
    place, number = place_and_round(given, store)
    with opened_history(place) as found:
        return with_progress(lambda tick: continuation(found.ledger, found.store, number, tick))


def configured_content(config: Path, reach: NetworkSettings, alone: bool) -> ContentReader:
    """The store that a federation's file names; see ``live_federation`` for ``alone``."""
    if reach.store.startswith("disk:"):
        return open_content(reach.store)
    return open_store(config, reach) if alone else open_kubo_store(reach.store, reach.store_seconds, None)


@contextmanager
def live_federation(place: Configured | OnChain, alone: bool = True) -> Iterator[LiveFederation]:
    """A live federation, its contracts' code compared with this version's.

    With ``alone`` false the file may be somebody else's: its store gets no password, whichever file or variable names
    one.
    """
    if isinstance(place, OnChain):
        content = open_content(place.store)
        with connect(place.rpc) as network:
            deployment = read_deployment(network, place.ledger, place.from_block or None)
            verify_code(network, deployment)
            urls = (word for url in place.rpc for word in ("--rpc", url))
            command = command_line("audit", *urls, "--ledger", place.ledger, "--store", place.store)
            yield LiveFederation(network, deployment, content, ", ".join(place.rpc), command)
        return
    _, reach = load_config(place.config)
    check_reach(place.config, reach)
    content = configured_content(place.config, reach, alone)
    with open_network(reach) as network:
        deployment = find_federation(network, reach)
        command = f"fedgrove audit --rpc … --ledger {deployment.ledger} --store …"
        yield LiveFederation(network, deployment, content, str(place.config), command)


@contextmanager
def opened_history(place: Place) -> Iterator[History]:
    """The history at a place."""
    if isinstance(place, Kept):
        with opened_run(place.path) as (ledger, content):
            yield History(ledger, content)
    else:
        with live_federation(place) as found:
            history = History(capture(found.network, found.deployment), found.content)
        yield history
