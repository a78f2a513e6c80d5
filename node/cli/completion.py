"""``fedgrove completion``: what a shell needs to complete commands and options."""

from typing import Annotated

import typer
from typer.completion import get_completion_script

from fedgrove.node.cli.output import CommandError, answer
from fedgrove.node.cli.values import words

COMPLETION_VARIABLE = "_FEDGROVE_COMPLETE"
SHELLS = ("bash", "fish", "powershell", "pwsh", "zsh")


def completion(shell: Annotated[str, typer.Argument(help="Which shell.", **words(*SHELLS))]) -> int:
    """Print a script with which a shell completes fedgrove's commands and options.

    Example: fedgrove completion bash >> ~/.bashrc

    Example: fedgrove completion zsh >> ~/.zshrc
    """
    if shell not in SHELLS:
        raise CommandError(f"there is no completion for {shell!r}: name one of {', '.join(SHELLS)}")
    answer(get_completion_script(prog_name="fedgrove", complete_var=COMPLETION_VARIABLE, shell=shell))
    return 0
