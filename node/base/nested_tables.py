"""Tables of TOML in each other: made from dotted keys, and changed by others."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

Tables = dict[str, Any]


def nested(key: str, value: object) -> Tables:
    """Tables with one key, given with the dots between its parts."""
    tables: Any = value
    for part in reversed(key.split(".")):
        tables = {part: tables}
    return tables


def merged(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> Tables:
    """The tables with the keys of ``changes`` in place of theirs."""
    both = {
        name: merged(tables[name], value)
        for name, value in changes.items()
        if isinstance(value, dict) and isinstance(tables.get(name), dict)
    }
    return {**tables, **changes, **both}


def value_in(tables: Mapping[str, Any], table: str, key: str, default: Any) -> Any:
    """The value of a key that may be left out of tables that are not checked yet."""
    found = tables.get(table, {})
    return found.get(key, default) if isinstance(found, dict) else default


def from_dotted(settings: Mapping[str, object]) -> Tables:
    """The tables that dotted keys (``training.epochs``) name, with their values."""
    return reduce(merged, (nested(key, value) for key, value in settings.items()), {})
