"""The environment in which templates are filled: everything is escaped, nothing undefined is taken for empty."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from fedgrove.node.explorer.checks import WORDS
from fedgrove.node.explorer.drawings import short
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.tree_drawing import STATES
from fedgrove.node.explorer.views.cluster_course import said, score_name
from fedgrove.node.explorer.views.words import KINDS, OUTCOMES, ROLES, STAGES, people
from fedgrove.node.status.price import Price
from jinja2 import Environment, PackageLoader, StrictUndefined

_LEAST_SHOWN = 1e-4
_UNITS = {"ether": 1.0, "gwei": 1e-9, "wei": 1e-18}


def make_templates(price: Price | None = None) -> Environment:
    """All templates, with the filters and words that they use."""
    templates = Environment(
        loader=PackageLoader("fedgrove.node.explorer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "size": size, "time": time, "inert": inert, "short": short, "percent": percent, "people": people,
        "coins": coins, "in_unit": in_unit,
    }  # fmt: skip
    templates.globals |= {
        "KINDS": KINDS, "ROLES": ROLES, "WORDS": WORDS, "STATES": STATES, "OUTCOMES": OUTCOMES, "STAGES": STAGES,
        "said": said, "score_name": score_name, "price": price, "unit_of": unit_of,
    }  # fmt: skip
    return templates


def failed_page(templates: Environment, url: Callable[[str], str], static: bool) -> str:
    """A page in the place of one that cannot be made; ``url`` makes its links."""
    given = {"title": "Not shown", "section": "", "live": False, "follows": False, "settled": True, "terms": None}
    return templates.get_template("failed.html").render(url=url, static=static, **given)


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


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def coins(amount: float) -> str:
    """An amount of a currency for people, to four digits: 0.00125, 31.42, 5,120; very small ones as a bound."""
    if 0 < amount < _LEAST_SHOWN:
        return f"< {_LEAST_SHOWN:.4f}"
    return f"{amount:,.0f}" if 1000 <= amount < 1e9 else f"{amount:.4g}"


def unit_of(amounts: Iterable[float]) -> str:
    """The unit in which amounts of ether are read side by side: that of the largest, from a thousandth of an ether."""
    largest = max(amounts, default=0.0)
    return "ether" if largest >= 1e-3 or not largest else "gwei" if largest >= 1e-9 else "wei"


def in_unit(amount: float, unit: str) -> str:
    """An amount of ether for people, as a number of a unit."""
    return coins(amount / _UNITS[unit])
