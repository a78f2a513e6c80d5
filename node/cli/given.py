"""Which options the user gave, and which have their defaults."""

import typer


def given(context: typer.Context, name: str) -> bool:
    """Whether the user gave this option."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
