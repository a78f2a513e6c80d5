"""Options of ``fedgrove audit`` that tie a history to what was published elsewhere."""

import re
from pathlib import Path
from typing import Annotated

import typer
from eth_utils import is_address, to_checksum_address

from fedgrove.common.wire import Malformed
from fedgrove.node.audit.pins import HeadStatement, Pins
from fedgrove.node.cli.output import CommandError

ExpectHead = Annotated[
    list[str] | None,
    typer.Option(help="BLOCK:HASH, any published block of the chain; may be repeated."),
]
ExpectLedger = Annotated[str | None, typer.Option(help="Address of the expected ledger.")]
ExpectChain = Annotated[int | None, typer.Option(help="Expected chain id.")]
ExpectStatement = Annotated[
    list[Path] | None, typer.Option(help="A member's signed head, from `fedgrove keys attest`; may be repeated.")
]

_HEAD = re.compile(r"(\d{1,18}):(?:0x)?([0-9a-fA-F]{64})")


def pins_of(heads: list[str] | None, ledger: str | None, chain: int | None, statements: list[Path] | None) -> Pins:
    """Pins from the options; raises CommandError for an invalid one."""
    if ledger is not None and not is_address(ledger):
        raise CommandError(f"--expect-ledger must be an address (0x and 40 hexadecimal digits), not {ledger!r}")
    return Pins(
        heads=tuple(map(_head, heads or ())),
        ledger=to_checksum_address(ledger) if ledger else "",
        chain_id=chain,
        statements=tuple(map(_statement, statements or ())),
    )


def _head(given: str) -> tuple[int, bytes]:
    found = _HEAD.fullmatch(given)
    if found is None:
        raise CommandError(f"--expect-head must be BLOCK:HASH, like 120:0x… with 64 hexadecimal digits, not {given!r}")
    return int(found[1]), bytes.fromhex(found[2])


def _statement(path: Path) -> HeadStatement:
    try:
        with path.open("rb") as file:
            return HeadStatement.from_bytes(file.read(HeadStatement.max_bytes + 1))
    except OSError as fault:
        raise CommandError(f"cannot read {path}: {fault.strerror}") from None
    except Malformed as fault:
        raise CommandError(
            f"{path} is not a statement of a head ({fault}): make one with `fedgrove keys attest`"
        ) from None
