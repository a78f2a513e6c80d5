"""Checks of strategies' options."""


def check_option(strategy: str, fine: bool, name: str, allowed: str) -> None:
    """Raise ValueError, one sentence that says what is allowed, unless the option is ``fine``."""
    if not fine:
        raise ValueError(f"the option {name} of {strategy} must be {allowed}")
