"""Settings on one line, as options of commands take them: the name of a kind, and what its TOML table would hold."""

import tomllib
from typing import Any


def inline_table(given: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of ``"procfl, alpha = 0.5, seats = 3"``; TOMLDecodeError if they are no table's."""
    name, _, settings = given.partition(",")
    return name.strip(), tomllib.loads(f"table = {{{settings}}}")["table"]
