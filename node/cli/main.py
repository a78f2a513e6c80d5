"""Entry point of the ``fedgrove`` command: one sentence and exit code 2 for every mistake of a user."""

import sys

import typer
from typer._click import exceptions as click  # typer brings its own click; the exact pin keeps this import safe

from node.cli import (
    attack,
    audit,
    bench,
    demo,
    experiment,
    keys,
    membership,
    network,
    privacy,
    services,
    simulate,
    status,
)
from node.cli.output import USER_ERRORS, CommandError, complain

app = typer.Typer(
    name="fedgrove",
    help="Auditable, decentralised, privacy-preserving federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.add_typer(audit.app, name="audit")
app.add_typer(keys.app, name="keys")
app.command("deploy")(membership.deploy)
app.command("register")(membership.register)
app.command("approve")(membership.approve)
app.command("status")(status.status)
app.command("client")(services.client)
app.command("coordinator")(services.coordinator)
app.add_typer(network.app, name="network")
app.command("simulate")(simulate.simulate)
app.command("experiment")(experiment.experiment)
app.add_typer(privacy.app, name="privacy")
app.command("attack")(attack.attack)
app.add_typer(bench.app, name="bench")


def run() -> None:
    """Run the command line and exit with its code."""
    try:
        code = typer.main.get_command(app)(standalone_mode=False)
    except click.NoArgsIsHelpError as help_text:
        print(help_text.format_message(), file=sys.stderr)
        code = 2
    except click.ClickException as mistake:
        complain(f"{mistake.format_message()} (see `{_command(mistake)} --help`)")
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        complain("stopped")
        code = 130
    except CommandError as mistake:
        complain(str(mistake))
        code = mistake.code
    except USER_ERRORS as mistake:
        complain(str(mistake))
        code = 2
    sys.exit(code if isinstance(code, int) else 0)


def _command(mistake: click.ClickException) -> str:
    context = getattr(mistake, "ctx", None)
    return context.command_path if context is not None else "fedgrove"
