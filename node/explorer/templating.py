"""The environment in which templates are filled: everything is escaped, nothing undefined is taken for empty."""

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedgrove.node.explorer.checks import WORDS
from fedgrove.node.explorer.figures import coins, duration, in_unit, minute, percent, short, size, time, unit_of
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.tree_drawing import STATES
from fedgrove.node.explorer.views.cluster_course import said, score_name
from fedgrove.node.explorer.views.words import KINDS, OUTCOMES, ROLES, STAGES, people
from fedgrove.node.status.price import Price


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
        "coins": coins, "in_unit": in_unit, "duration": duration, "minute": minute,
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
