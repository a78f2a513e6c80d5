"""``fedgrove doctor``: whether this machine, and a federation's chain and store, are fit for use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from eth_utils import is_address, to_checksum_address

from fedgrove.node.cli.doctor_checks import Finding, Health, federation_findings, machine_findings
from fedgrove.node.cli.output import FAILED, CommandError, answer, print_json
from fedgrove.node.cli.reach import check_reach
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings


def doctor(
    config: Annotated[
        Path | None, typer.Option(help="The federation's TOML file: also try its chain, its store and your account.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="With --config: whether this account can pay.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="With --account: for this many rounds.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings to stdout as JSON.")] = False,
) -> int:
    """Check that everything needed is installed and reachable: packages, sandbox, disk, chain, store, currency.

    Prints a line for each, with what to do. Exit code: 0 nothing failed, 1 something did, 2 bad usage.

    Example: fedgrove doctor

    Example: fedgrove doctor --config federation.toml --account 0x3F…
    """
    if account is not None and (config is None or not is_address(account)):
        raise CommandError("--account must be an account's address (0x and 40 hexadecimal digits), with --config")
    done = []
    for each in _findings(config, account and to_checksum_address(account), rounds):
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
