"""Entry point of the ``fedgrove`` command: one sentence and exit code 2 for every mistake of a user."""

import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any

import typer
from typer._click import exceptions as click  # typer brings its own click; the exact pin keeps this import safe
from typer.completion import completion_init
from typer.core import TyperCommand, TyperGroup

from fedgrove.common.errors import Error
from fedgrove.node.base.memory import keep_private
from fedgrove.node.cli.completion import COMPLETION_VARIABLE
from fedgrove.node.cli.extras import require, sentence_for
from fedgrove.node.cli.listing import COMMANDS, ListedCommands, all_commands, how_to_add
from fedgrove.node.cli.output import (
    CommandError,
    answer,
    complain,
    explained,
    flush,
    note,
    open_closed_streams,
)
from fedgrove.node.cli.values import name_values

_ALLOCATIONS = 50_000
"""After this many new objects Python looks for garbage; after 700, as it is set, imports take an eighth longer."""
BROKEN = 70
"""Exit code of a fault of this program. Python's own, 1, would be taken for a verdict or a result of the command."""
HELP_COLUMNS = 120
"""Help is as wide as the terminal, up to this."""


class LazyCommands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands by name, each imported when it is asked for: nobody waits for the libraries of the others."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        # The others are looked for only where the name is none of these: that takes longer than a command's start.
        listed = COMMANDS.get(name) or all_commands().get(name)
        if listed is None:
            sentence = how_to_add(name)
            raise CommandError(sentence) if sentence else KeyError(name)
        command = _loaded(name, listed.place)
        name_values(command)
        if listed.extra:
            _require_first(command, name, listed.extra)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(all_commands())

    def __len__(self) -> int:
        return len(all_commands())


def _loaded(name: str, place: str) -> TyperCommand | TyperGroup:
    module, attribute = place.split(":")
    target = getattr(importlib.import_module(module), attribute)
    if isinstance(target, typer.Typer):
        command = typer.main.get_group(target)
        command.name = name
        return command
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name)(target)
    return typer.main.get_command(single)  # pyright: ignore[reportReturnType] (of one function: a TyperCommand)


def _require_first(command: TyperCommand | TyperGroup, name: str, extra: str) -> None:
    """Have a command, or each in its group, look for its extra before it does anything; its help needs none."""
    for each in command.commands.values() if isinstance(command, TyperGroup) else (command,):
        if each.callback is not None:
            each.callback = _requiring(each.callback, name, extra)


def _requiring(work: Callable[..., Any], name: str, extra: str) -> Callable[..., Any]:
    @wraps(work)
    def checked(*args: Any, **options: Any) -> Any:
        require(extra, f"fedgrove {name}")
        return work(*args, **options)

    return checked


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        answer(version("fedgrove"))
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """What ``fedgrove`` takes without a command."""


def _params_of(function: Callable[..., None]) -> Any:
    """A function's options, for a group of commands."""
    app = typer.Typer(add_completion=False)
    app.callback()(function)
    return typer.main.get_group(app).params


class Interruptible(ListedCommands):
    """A group of commands in which Ctrl-C gets a sentence; by itself typer would end without a word."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments and run the command; BrokenPipeError where nobody reads the output any more.

        By itself typer would exit with 1 then, which for an audit means a bad record.
        """
        try:
            return super().main(*arguments, **options)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):
                raise end.__context__ from None
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise CommandError("stopped", 130) from None


command_line = Interruptible(
    name="fedgrove",
    help="Auditable, decentralised, privacy-preserving federated learning.",
    commands=LazyCommands(),  # pyright: ignore[reportArgumentType] (any mapping does)
    params=_params_of(_options),
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_COLUMNS},
)


def run() -> None:
    """Run the command line and exit with its code."""
    open_closed_streams()
    if COMPLETION_VARIABLE in os.environ:  # the shell asks
        completion_init()
    keep_private()  # for every command: whichever loads keys later on, none is forgotten
    gc.set_threshold(_ALLOCATIONS)
    os.environ.setdefault("ETH_HASH_BACKEND", "pysha3")  # the core's; an extra may bring pycryptodome, which is slower
    try:
        code = command_line(standalone_mode=False)
        flush()
    except click.NoArgsIsHelpError as help_text:
        note(help_text.format_message())
        code = 2
    except click.ClickException as mistake:
        complain(f"{mistake.format_message()} (see `{_command(mistake)} --help`)")
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        complain("stopped")
        code = 130
    except ModuleNotFoundError as mistake:
        code = _end(mistake, sentence_for(mistake))
    except BrokenPipeError:  # whoever read the output has seen enough
        code = 128 + signal.SIGPIPE
    except Exception as mistake:
        code = _end(mistake, explained(mistake))
    sys.exit(code if isinstance(code, int) else 0)


def _end(mistake: Exception, sentence: str) -> int:
    """The exit code after an exception, which a sentence explains; without one it is a fault of fedgrove itself."""
    if sentence:
        complain(sentence)
        return mistake.exit_code if isinstance(mistake, Error) else Error.exit_code
    traceback.print_exception(mistake)
    return BROKEN


def _command(mistake: click.ClickException) -> str:
    context = getattr(mistake, "ctx", None)
    return context.command_path if context is not None else "fedgrove"
