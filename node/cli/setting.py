"""``--set TABLE.KEY=VALUE``: another value for a key of a scenario."""

import re

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.nested_tables import Tables, nested
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.cli.output import CommandError


def setting(given: str) -> Tables:
    """The tables of a change like ``training.epochs=2``; a word that is no TOML value is a string."""
    key, equals, value = given.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) not in (2, 3):
        raise CommandError(f"--set must be TABLE.KEY=VALUE, such as training.epochs=2, not {given!r}")
    try:
        return nested(key.strip(), parse_toml(f"value = {value}".encode())["value"])
    except (ValueError, InvalidInput, InvalidContent) as fault:
        if re.fullmatch(r"\s*[A-Za-z][\w./:-]*\s*", value):
            return nested(key.strip(), value.strip())
        raise CommandError(f"--set {key.strip()} must have a TOML value, not {value!r}: {fault}") from None
