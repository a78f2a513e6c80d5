"""Options of the task ``tabular``, small enough to change in one place."""

from typing import Any

from fedgrove.node.base.strict_tables import build
from fedgrove.node.learning.tables.settings import TableSettings

OPTIONS: dict[str, Any] = {
    "target": "ill",
    "classes": ["no", "yes"],
    "columns": {
        "age": {"kind": "number", "range": [0, 100]},
        "sex": {"kind": "category", "values": ["f", "m"]},
    },
}
TABLE = "id,sex,age,ill\n1,m,25,no\n2,f,50,yes\n3,f,100,no\n"


def options(**changes: Any) -> dict[str, Any]:
    """``OPTIONS`` with changes; None leaves a key out."""
    return {name: value for name, value in (OPTIONS | changes).items() if value is not None}


def settings(**changes: Any) -> TableSettings:
    """The settings of ``options``."""
    return build(TableSettings, options(**changes), "task.options")
