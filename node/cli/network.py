"""``fedgrove network``: a federation of separate processes on this machine, brought up, looked at and taken down."""

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.networks import INSTALL_ANVIL, has_anvil
from fedgrove.common.text import command_line
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.extras import missing, require
from fedgrove.node.cli.options import JsonFlag, group
from fedgrove.node.cli.output import CommandError, answer, answer_with, note, print_json, report
from fedgrove.node.cli.scenario_options import Asked, takes
from fedgrove.node.cli.values import words
from fedgrove.node.devnet.kubo.local_node import INSTALL_KUBO, find_kubo
from fedgrove.node.devnet.testnet.control import Processes, delete, federation, look, wait_until_ended
from fedgrove.node.devnet.testnet.control import down as take_down
from fedgrove.node.devnet.testnet.control import up as bring_up
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.devnet.testnet.processes import explorer_url
from fedgrove.node.devnet.testnet.supervisor import ENDED, FRUITLESS
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.status.standing import Standing

app = group(
    "A testnet on this machine: a chain, stores, a coordinator and clients, each in its own process.\n\n"
    "Example: fedgrove network up --clients 8 --rounds 3 --wait"
)

Directory = Annotated[Path, typer.Option("--dir", help="The testnet's directory.")]
_HERE = Path("testnet")


@app.command("up")
@takes(
    *("clients", "rounds", "dataset", "task", "data", "alpha", "strategy", "masking", "epsilon", "held_out"),
    *("patience", "method", "k", "seed", "portable", "bases", "table_format", "chain", "store", "kubo_nodes"),
    *("block_seconds", "standby", "sandbox", "data_dir", "explorer"),
    chain=words("auto", "anvil", "embedded"),
    store=words("auto", "kubo", "disk"),
)
def up(
    asked: Asked,
    directory: Directory = _HERE,
    wait: Annotated[bool, typer.Option("--wait", help="Show progress until the federation has ended.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Start a testnet, or resume one where it stopped.

    Exit code: 0 it runs (with --wait: all rounds have ended), 1 it does not.

    Example: fedgrove network up --dir testnet --clients 20 --rounds 10

    Example: fedgrove network up --dir testnet --k 4 --dataset gaussian

    Example: fedgrove network up --dir testnet --clients 8 --rounds 4 --method "procfl, seats = 3"

    Example: fedgrove network up --dir testnet --clients 4 --task readmission --data train.csv
    """
    layout = _layout(directory)
    scenario = testnet_scenario(asked, layout, wait)
    if scenario.run.explorer:
        require("explorer", "the explorer")

    fresh = bring_up(layout, scenario, note)
    pages = explorer_url(read_record(layout))
    lines = [f"the testnet in {directory} {'is up' if fresh else 'was already up'}"]
    lines += [f"watch: {pages}"] * bool(pages)
    if wait:
        note("\n".join(lines))
    end = wait_until_ended(layout, note) if wait else ""
    if not end:
        lines += [
            f"look:  {command_line('network', 'status', '--dir', directory)}",
            f"end:   {command_line('network', 'down', '--dir', directory)}",
        ]
    else:
        endings = {
            ENDED: "the federation has ended",
            FRUITLESS: "the federation has ended without a result: no round closed; see `fedgrove network status`",
        }
        lines = [endings.get(end, f"a process failed too often: see the logs in {layout.logs}")]
    document = {
        "directory": str(layout.root),
        "started": fresh,
        "explorer": pages,
        "ended": end == ENDED if end else None,
    }
    report(document, "\n".join(lines), as_json)
    return 0 if end in ("", ENDED) else 1


@app.command("down")
def down(
    directory: Directory = _HERE,
    remove: Annotated[bool, typer.Option("--delete", help="Also remove the directory, with keys and history.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Stop every process of a testnet; the directory stays, and `up` resumes from there.

    Example: fedgrove network down --dir testnet
    """
    layout = _layout(directory)
    ended = take_down(layout)
    if remove:
        delete(layout)
    sentence = f"ended {ended} processes" if ended else f"nothing was running in {directory}"
    removed = f"\nremoved {directory}" if remove else ""
    report({"directory": str(layout.root), "ended": ended, "removed": remove}, sentence + removed, as_json)
    return 0


@app.command("status")
def status(directory: Directory = _HERE, as_json: JsonFlag = False) -> int:
    """Show which processes run, since when, how often they were restarted, and the state of the federation.

    Exit code: 0 all is well, 1 something does not run, 2 there is no testnet.

    Example: fedgrove network status --dir testnet
    """
    layout = _layout(directory)
    testnet = read_record(layout)
    running = look(layout)
    stands, fault = None, ""
    if running is not None:
        try:
            stands = federation(testnet)
        except ChainError as away:
            fault = str(away)
    if as_json:
        print_json(_document(layout, running, stands, fault) | {"explorer": explorer_url(testnet)})
    else:
        _print(layout, running, stands, fault)
        if running is not None and explorer_url(testnet):
            answer(f"watch: {explorer_url(testnet)}")
    return 0 if running is not None and running.sound and stands is not None else 1


def _document(layout: TestnetPaths, running: Processes | None, stands: Standing | None, fault: str) -> dict:
    # No number where no process runs: who passes a 0 on to `kill` ends the processes of its own terminal.
    processes = [
        asdict(one) | {"pid": one.pid or None, "log": str(layout.log(one.name))}
        for one in (running.kept if running else ())
    ]
    return {
        "directory": str(layout.root),
        "phase": running.phase if running else "down",
        "supervisor": {"pid": running.supervisor.pid, "since": running.since} if running else None,
        "processes": processes,
        "federation": stands.to_dict() if stands else None,
        "fault": fault,
    }


def _print(layout: TestnetPaths, running: Processes | None, stands: Standing | None, fault: str) -> None:
    if running is None:
        resume = command_line("network", "up", "--dir", layout.root)
        answer(f"the testnet in {layout.root} is down: resume it with `{resume}`")
        return
    table = Table("process", "state", "pid", "up since", "restarts", "log")
    for one in running.kept:
        since = time.strftime("%H:%M:%S", time.localtime(one.since)) if one.since else ""
        log = str(layout.log(one.name).relative_to(layout.root))
        table.add_row(one.name, one.state, str(one.pid or ""), since, str(one.restarts), log)
    answer_with(table)
    answer(f"testnet: {running.phase}, supervised by process {running.supervisor.pid}")
    if stands is None:
        answer(f"federation: {fault}")
        return
    until = f" until block {stands.until}" if stands.until else ""
    answer(f"federation: block {stands.block}, round {stands.round}, phase {stands.phase}")
    answer(f"waiting for: {stands.waiting}{until}")
    for sentence in stands.setbacks.warnings:
        answer(f"warning: {sentence}")


def _layout(directory: Path) -> TestnetPaths:
    if sys.platform != "linux":
        raise CommandError("`fedgrove network` needs Linux: on other systems, run the services one by one")
    return TestnetPaths(directory.absolute())


STORES, CHAINS = ("kubo", "disk"), ("anvil", "embedded")
AUTO = "auto"
MOST_CLIENTS = 99


def choose_chain(chain: str) -> str:
    """The chain that was asked for; else anvil where it is installed. The user is told how to get it."""
    if chain != AUTO or has_anvil():
        return "anvil" if chain == AUTO else chain
    note(f"chain: py-evm in one process, as anvil is not installed (`{INSTALL_ANVIL}`)")
    return "embedded"


def choose_store(store: str) -> str:
    """The kind of store that was asked for; else Kubo where it is installed, as ``choose_chain`` does."""
    if store != AUTO or find_kubo() is not None:
        return "kubo" if store == AUTO else store
    note(f"store: a folder, as Kubo is not installed (`{INSTALL_KUBO}`)")
    return "disk"


def testnet_scenario(asked: Asked, layout: TestnetPaths, wait: bool) -> Scenario:
    """The scenario to bring up: that of the testnet that is there already, or what was asked for, checked.

    Raises
    ------
    CommandError
        What is asked for is not what the testnet was made with, or cannot run as one.
    """
    if layout.record.exists():
        return _same(asked, layout)
    scenario = asked.scenario()
    if scenario.method.on_request and wait:
        name = scenario.method.name
        raise CommandError(f"a testnet of {name} runs until `fedgrove network down`: leave --wait out")
    run = scenario.run
    if run.store not in (AUTO, *STORES):
        raise InvalidConfig(f"run.store must be one of {', '.join((AUTO, *STORES))}, not {run.store!r}")
    if run.chain not in (AUTO, *CHAINS):
        raise InvalidConfig(f"run.chain must be one of {', '.join((AUTO, *CHAINS))}, not {run.chain!r}")
    if run.standby > scenario.cast.clients:
        clients = scenario.cast.clients
        raise InvalidConfig(f"run.standby must be at most the number of clients, {clients}, not {run.standby}")
    if scenario.cast.drop:
        raise InvalidConfig("scenario.drop is for demonstrations: end a process of a testnet to drop a client out")
    from fedgrove.node.devnet.methods import check_federation  # brings what trains

    check_federation(scenario, MOST_CLIENTS)
    explorer = not missing("explorer") if run.explorer is None else run.explorer
    run = replace(run, store=choose_store(run.store), chain=choose_chain(run.chain), explorer=explorer)
    return replace(scenario, run=run).absolute()


def _same(asked: Asked, layout: TestnetPaths) -> Scenario:
    """The scenario of a testnet that is there; what is asked for must be what it was made with."""
    made = read_record(layout).scenario
    remedy = "give another --dir, or start again after `fedgrove network down --delete`"
    asked.check_same(made, f"the testnet in {layout.root} was made", remedy)
    return made
