"""Numbers as people read them: bytes, times, shares, amounts of a currency, and short ones next to a chart."""

from collections.abc import Iterable
from datetime import UTC, datetime

UNITS = {"ether": 1.0, "gwei": 1e-9, "wei": 1e-18}
"""Units of a chain's currency, in ether."""

_LEAST_SHOWN = 1e-4
_SMALL = 1e-3  # smaller numbers have exponents, so that they fit next to a chart


def size(count: int | None) -> str:
    """Bytes for people: 812 B, 3.4 kB, 1.2 MB."""
    if count is None:
        return "–"
    for limit, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count} B"


def time(seconds: int | None) -> str:
    """A block's time by the clock of whoever made it, in UTC; it may be anything."""
    if seconds is None:
        return "at an invalid time"
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%-d %b %Y, %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError, TypeError):
        return "at an invalid time"


def minute(seconds: int | None) -> str:
    """The same to the minute, for columns."""
    return time(seconds).removesuffix(" UTC").rpartition(":")[0] or "–"


def percent(share: float | None) -> str:
    """A share of one as a percentage: 74.7 %; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def coins(amount: float) -> str:
    """An amount of a currency for people, to four digits: 0.00125, 31.42, 5,120; very small ones as a bound."""
    if 0 < amount < _LEAST_SHOWN:
        return f"< {_LEAST_SHOWN:.4f}"
    return f"{amount:,.0f}" if 1000 <= amount < 1e9 else f"{amount:.4g}"


def unit_of(amounts: Iterable[float]) -> str:
    """The unit in which amounts of ether are read side by side: that of the largest, from a thousandth on."""
    largest = max(amounts, default=0.0)
    return "ether" if largest >= 1e-3 or not largest else "gwei" if largest >= 1e-12 else "wei"


def in_unit(amount: float, unit: str) -> str:
    """An amount of ether for people, as a number of a unit."""
    return coins(amount / UNITS[unit])


def short(value: float) -> str:
    """A number in at most four digits: 1.25e-4, 0.125, 37, 4.1k, 12.5M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    if 0 < abs(value) < _SMALL:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:.3g}"
