"""``fedgrove doctor``: whether this machine, and a federation's chain and store, are fit for use."""

import platform
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect, find_anvil
from fedgrove.chain.network.access import GWEI, Network
from fedgrove.chain.network.endpoint import origin_of
from fedgrove.chain.network.standstill import stopped
from fedgrove.ipfs.store import StoreError
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.cli.extras import EXTRAS, missing
from fedgrove.node.cli.options import JsonFlag
from fedgrove.node.cli.output import FAILED, CommandError, address, answer, print_json
from fedgrove.node.cli.reach import check_reach, find_federation, open_network, open_store
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.status.costs import Budget, Purse
from fedgrove.node.status.price import ETHER
from fedgrove.node.status.setbacks import Setbacks, setbacks
from fedgrove.node.tasks.sandbox.faults import SandboxUnavailable
from fedgrove.node.tasks.sandbox.modes import advice, choose

HISTORY = "0x0000F90827F1C53a10cb7A02335B175320002935"
"""EIP-2935: the contract that gives others the hashes of past blocks."""


class Health(StrEnum):
    """``missing``: needed by some commands only."""

    OK = "ok"
    MISSING = "missing"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and in a sentence what was found or what to do."""

    name: str
    health: Health
    sentence: str

    def to_dict(self) -> dict[str, str]:
        """By field, JSON-ready."""
        return asdict(self)


def doctor(
    config: Annotated[
        Path | None, typer.Option(help="The federation's TOML file: also try its chain, its store and your account.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="With --config: whether this account can pay.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="With --account: for this many rounds.")] = 10,
    as_json: JsonFlag = False,
) -> int:
    """Check that everything needed is installed and reachable: packages, sandbox, disk, chain, store, currency.

    Prints a line for each, with what to do. Exit code: 0 nothing failed, 1 something did, 2 bad usage.

    Example: fedgrove doctor

    Example: fedgrove doctor --config federation.toml --account 0x3F…
    """
    if account is not None and config is None:
        raise CommandError("--account needs --config, the file of a federation whose rounds it is to pay for")
    done = []
    for each in _findings(config, None if account is None else address(account, "--account"), rounds):
        done.append(each)
        if not as_json:
            answer(f"{each.health:<9}{each.name:<34}{each.sentence}")
    failed = any(each.health == Health.FAILED for each in done)
    if as_json:
        print_json({"ok": not failed, "findings": [each.to_dict() for each in done]})
    return FAILED if failed else 0


def _findings(config: Path | None, account: str | None, rounds: int) -> Iterator[Finding]:
    reach = NetworkSettings()
    if config is not None:
        _, reach = load_config(config)
        check_reach(config, reach)
    yield from machine_findings(reach.sandbox)
    if config is not None:
        yield from federation_findings(config, reach, account, rounds)


LOW_DISK_BYTES, DRIFT_SECONDS = 2 << 30, 120


def machine_findings(wanted_sandbox: str) -> Iterator[Finding]:
    """What is installed on this machine."""
    yield Finding("fedgrove", Health.OK, f"{version('fedgrove')} on Python {platform.python_version()}")
    for extra in EXTRAS:
        lacking = ", ".join(missing(extra))
        sentence = f'needs {lacking}: pip install "fedgrove[{extra}]"' if lacking else "installed"
        yield Finding(f"extra {extra}", Health.MISSING if lacking else Health.OK, sentence)
    yield _finding("anvil", lambda: f"{find_anvil()}", Health.MISSING)
    yield _finding("kubo", _kubo, Health.MISSING)
    yield _finding("sandbox", lambda: f"{choose(wanted_sandbox)}", Health.WARNING)
    if caution := advice():
        yield Finding("account", Health.WARNING, caution)
    yield _disk(Path.cwd())


def federation_findings(config: Path, reach: NetworkSettings, account: str | None, rounds: int) -> Iterator[Finding]:
    """Whether the federation that a file names can be reached, and an account pay for its rounds."""
    for url in reach.rpc:
        yield _finding(f"endpoint {origin_of(url)}", partial(_head, url))
    try:
        with open_network(reach) as network:
            yield from _chain_findings(network, reach, account, rounds)
    except ChainError as fault:
        yield Finding("chain", Health.FAILED, str(fault))
    yield _finding("store", lambda: _store(config, reach))
    if reach.store.startswith("disk:"):
        yield _disk(Path(reach.store.removeprefix("disk:")))


def _finding(name: str, look: Callable[[], str], otherwise: Health = Health.FAILED) -> Finding:
    """What ``look`` found, or the sentence of what it raises."""
    try:
        return Finding(name, Health.OK, look())
    except (ChainError, StoreError, SandboxUnavailable, CommandError, OSError) as fault:
        return Finding(name, otherwise, str(fault))


def _disk(place: Path) -> Finding:
    existing = next(path for path in (place.absolute(), *place.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    sentence = f"{free / (1 << 30):.1f} GiB free at {existing}"
    if free < LOW_DISK_BYTES:
        return Finding("disk", Health.WARNING, sentence + ": make room for models and archives")
    return Finding("disk", Health.OK, sentence)


def _kubo() -> str:
    from fedgrove.node.devnet.kubo.local_node import INSTALL_KUBO, find_kubo

    if (found := find_kubo()) is None:
        raise CommandError(f"fedgrove network --store kubo needs it: {INSTALL_KUBO}")
    return f"{found}"


def _head(url: str) -> str:
    with connect(url, timeout=5.0) as network:
        return f"chain {network.chain_id}, block {network.block_number()}"


def _chain_findings(network: Network, reach: NetworkSettings, account: str | None, rounds: int) -> Iterator[Finding]:
    yield _finding("agreement", lambda: f"block {network.agreed_head()[0]} is agreed on")
    yield _clock(network)
    if network.code(HISTORY):
        yield Finding("history", Health.OK, "contracts can read the hashes of 8,191 blocks")
    else:
        sentence = "no contract of EIP-2935: a round must be sealed within 256 blocks of its opening"
        yield Finding("history", Health.WARNING, sentence)
    price = network.price() / GWEI
    dear = price * GWEI > network.max_fee
    sentence = f"{price:.3g} gwei a unit of gas" + (": above network.max_fee_gwei, raise it or wait" if dear else "")
    yield Finding("price", Health.WARNING if dear else Health.OK, sentence)
    ledger = Ledger(network, find_federation(network, reach), None)
    yield Finding("federation", Health.OK, f"its ledger is {ledger.address}, with the code that this version ships")
    view = LedgerView(ledger)
    view.refresh()
    yield from round_findings(setbacks(view.rounds, view.terms, view.settings.draw_window))
    if account is not None:
        yield _means(Purse(network, ledger, account).budget(view.rounds), account, rounds)


def round_findings(found: Setbacks) -> Iterator[Finding]:
    """Whether rounds close."""
    health = Health.FAILED if found.without_result else Health.WARNING
    yield from (Finding("rounds", health, sentence) for sentence in found.warnings)
    if not found.warnings:
        yield Finding("rounds", Health.OK, f"{found.closed} of {found.rounds} have closed")


def _clock(network: Network) -> Finding:
    now = time.time()
    age = now - network.block_time(network.block_number())
    if age < -DRIFT_SECONDS and network.mines_when_asked:  # they count a second for a block, however fast they come
        sentence = f"the latest block is {-age:.0f} s ahead of this clock, as is usual on a practice node"
        return Finding("clock", Health.OK, sentence)
    if age < -DRIFT_SECONDS:
        return Finding("clock", Health.WARNING, f"the latest block is {-age:.0f} s ahead of this clock: set the clock")
    if sentence := stopped(network, now):
        return Finding("clock", Health.WARNING, sentence)
    return Finding("clock", Health.OK, f"the latest block was made {max(0.0, age):.0f} s ago")


def _means(means: Budget, account: str, rounds: int) -> Finding:
    need = rounds * means.gas * means.price
    sentence = f"{means.balance / ETHER:.6g} ether pay for {means.rounds} rounds"
    if means.balance < need:
        lacking = (need - means.balance) / ETHER
        return Finding("means", Health.FAILED, f"{sentence}, of {rounds}: send {lacking:.6g} ether to {account}")
    return Finding("means", Health.OK, f"{sentence}, of {rounds}")


def _store(config: Path, reach: NetworkSettings) -> str:
    """Ask the store for content that nobody has published, to see whether it answers."""
    open_store(config, reach).has(cid_of(b"fedgrove doctor").digest)
    return f"{reach.store.rpartition('@')[2]} answers"
