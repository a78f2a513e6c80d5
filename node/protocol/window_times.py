"""Windows of a ledger that a federation's file states as times, in blocks of the chain that it is founded on.

A chain makes a block every quarter of a second or every twelve: the same number of blocks is a minute here and an
hour there. A contract counts blocks, so whoever founds the federation fixes how many a time is.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from fedgrove.node.base.strict_tables import InvalidConfig, check_value

TIMED = (
    "draw_window",
    "seal_window",
    "share_window",
    "commit_window",
    "vouch_window",
    "affirm_window",
    "recover_window",
    "coordinator_grace",
)
BLOCK_SECONDS = 12.0
"""Of a chain about which nothing is known."""
LEAST_RECOVERY = 600.0
"""Seconds that members outside practice must have to release shares, and to look at what somebody closed."""
_UNITS = {"s": 1, "min": 60, "h": 3600}
_TIME = re.compile(r"([0-9]{1,6}) ?(s|min|h)")


def in_blocks(table: Mapping[str, Any], block_seconds: float | None) -> dict[str, Any]:
    """The table ``[ledger]`` with blocks in place of times such as ``"10 min"``.

    Parameters
    ----------
    block_seconds : float or None
        Of the chain; None where none is known yet.

    Raises
    ------
    InvalidConfig
    """
    found = dict(table)
    for name in TIMED:
        if isinstance(table.get(name), str):
            found[name] = _blocks(f"ledger.{name}", table[name], block_seconds)
    return found


def _blocks(key: str, stated: str, block_seconds: float | None) -> int:
    time = _TIME.fullmatch(stated)
    check_value(time is not None, key, 'blocks, or a time such as "10 min", "90 s" or "2 h"')
    assert time is not None
    if block_seconds is None:
        raise InvalidConfig(f"{key} is a time: only `fedgrove deploy` knows how many blocks that is on its chain")
    return max(1, math.ceil(int(time[1]) * _UNITS[time[2]] / block_seconds))


def written_in_blocks(text: bytes, ledger: Mapping[str, int]) -> bytes:
    """A federation's file with these blocks in place of the times that it states, which stay next to them as comments.

    Raises
    ------
    InvalidConfig
        It states a time where no line of its own has it.
    """
    for name in TIMED:
        stated = rb"[ \t]*=[ \t]*)([\"'])([^\"'\r\n]*)\2[^\r\n]*$"
        line = re.compile(rb"^([ \t]*" + name.encode() + stated, re.MULTILINE)
        blocks = str(ledger[name]).encode()
        text = line.sub(lambda found, blocks=blocks: found[1] + blocks + b"  # " + found[3], text)
        again = re.search(rb"\b" + name.encode() + rb"[ \t\"']*=[ \t]*[\"']", text)
        check_value(again is None, f"ledger.{name}", "on a line of its own, so that its blocks can be written there")
    return text


def check_recovery(blocks: int, block_seconds: float) -> None:
    """Refuse a recover window in which members cannot act, where it counts; raises InvalidConfig."""
    lasts = blocks * block_seconds
    least = f'{LEAST_RECOVERY / 60:g} minutes or more where it is not for practice, as "20 min"'
    check_value(lasts >= LEAST_RECOVERY, "ledger.recover_window", f"{least}: {blocks} blocks last {lasts:.0f} s here")
