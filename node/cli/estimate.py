"""``fedgrove estimate``: cost of a federation before it is founded."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.access import GWEI
from fedgrove.chain.network.fees import FeeHistory
from fedgrove.chain.records.deployment import PRACTICE_CHAINS
from fedgrove.node.cli.options import EtherPrice, JsonFlag
from fedgrove.node.cli.output import CommandError, answer, answer_with, complain, print_json
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.window_times import BLOCK_SECONDS
from fedgrove.node.status import estimate as estimates
from fedgrove.node.status.estimate import Estimate, Fees
from fedgrove.node.status.pace import pace

_WHO = {
    "founder": "founding, once",
    "admin": "approving the members, once",
    "coordinator": "the coordinator",
    "members": "all members",
    "member": "one member",
    "round": "a round",
    "whole": "whole federation",
}


def estimate(
    config: Annotated[Path, typer.Option("--config", help="The federation's TOML file, founded or not.")],
    members: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of members that will register.")],
    rounds: Annotated[
        int, typer.Option(min=0, max=100_000, help="Rounds that close; 0: as many as the terms allow.")
    ] = 0,
    rpc: Annotated[
        str, typer.Option(help="URL of an EVM JSON-RPC endpoint whose fees count; default: that of [network].")
    ] = "",
    base_fee: Annotated[
        float | None,
        typer.Option(min=0, max=1e9, help="Base fee in gwei, instead of asking an endpoint."),
    ] = None,
    tip: Annotated[
        float | None,
        typer.Option(min=0, max=1e9, help="Tip in gwei; default: what members would offer."),
    ] = None,
    block_seconds: Annotated[
        float | None,
        typer.Option(min=0.001, max=3600, help="Seconds between blocks; default: the endpoint's, otherwise 12."),
    ] = None,
    price: EtherPrice = None,
    as_json: JsonFlag = False,
) -> int:
    """Estimate what a federation will cost: gas, ether and currency by role, per round and in all; time of a round.

    Everybody who is drawn is taken to do their part, and no round to be repeated.

    Example: fedgrove estimate --config federation.toml --members 20 --rounds 50 --base-fee 0.5 --price '2500 EUR'
    """
    terms, reach = load_config(config, block_seconds or BLOCK_SECONDS)
    if members < terms.ledger.quorum:
        raise CommandError(f"--members must be at least the quorum of {terms.ledger.quorum} (ledger.quorum)")
    history, seconds, practice = _chain(rpc, base_fee, reach)
    if practice and price:
        complain("a practice chain's fees are made up: give --base-fee GWEI to see costs in a currency")
        price = None
    offered = min(history.tip, int(reach.max_tip_gwei * GWEI))
    fees = Fees(history.base, offered if tip is None else int(tip * GWEI), price)
    behind = terms.rounds_to_close - terms.federation.rounds
    closing = (rounds or terms.federation.rounds) + behind
    found = estimates.estimate(terms, members, closing, block_seconds or seconds)
    if as_json:
        print_json(found.to_dict(fees))
    else:
        _show(found, fees)
    return 0


def _chain(rpc: str, base_fee: float | None, reach: NetworkSettings) -> tuple[FeeHistory, float, bool]:
    """Fees, seconds between blocks, and whether they are a practice chain's: of an endpoint, or as they are given."""
    if base_fee is not None:
        if rpc:
            raise CommandError("give only one of --rpc and --base-fee")
        return FeeHistory(int(base_fee * GWEI)), BLOCK_SECONDS, False
    endpoint = rpc or next(iter(reach.rpc), "")
    if not endpoint:
        raise CommandError("the fees are not known: give --base-fee GWEI, or --rpc with the URL of an endpoint")
    with connect(endpoint, timeout=reach.rpc_seconds) as network:
        speed = pace(network)
        seconds = speed.seconds if speed else BLOCK_SECONDS
        return network.fees(), seconds, network.chain_id in PRACTICE_CHAINS


def _show(found: Estimate, fees: Fees) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("", "gas", "ether", *([fees.price.currency] if fees.price else [])):
        table.add_column(name, justify="right" if name else "left")
    for name, who in _WHO.items():
        if amount := found.gas[name]:
            ether = fees.ether(amount)
            priced = [f"{ether * fees.price.amount:,.2f}"] if fees.price else []
            table.add_row(who, f"{amount:,.0f}", f"{ether:.3g}", *priced)
    drawn = f"{found.drawn:g} of {found.members} members in a round, {found.rounds} rounds"
    answer(f"{drawn}; {fees.base / GWEI:.3g} gwei a unit of gas and a tip of {fees.tip / GWEI:.3g}")
    answer_with(table)
    span = found.span
    least, most = (blocks * span.block_seconds for blocks in (span.least, span.most))
    answer(
        f"a round: {span.least} blocks ({least:,.0f} s) and its training where all are present, "
        f"at most {span.most} blocks ({most:,.0f} s)"
    )
