"""Options of ``fedgrove network up``: which are allowed, and which with which others."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import typer
from fedgrove.chain.face.networks import INSTALL_ANVIL, has_anvil
from fedgrove.node.cli.given import given
from fedgrove.node.cli.output import CommandError, note
from fedgrove.node.devnet.kubo.local_node import INSTALL_KUBO, find_kubo
from fedgrove.node.devnet.method_option import TRAINING
from fedgrove.node.devnet.method_option import check_method as check_groups
from fedgrove.node.devnet.testnet.layout import TestnetError, TestnetPaths, TestnetPlan, UnfitDirectory, read_record
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.methods.training.suggestion import suggested_by

STORES, CHAINS = ("kubo", "disk"), ("anvil", "embedded")
AUTO = "auto"


def choose_chain(chain: str, new: bool) -> str:
    """The chain that was asked for; else anvil where it is installed. A new testnet's user is told how to get it."""
    if chain != AUTO or has_anvil():
        return "anvil" if chain == AUTO else chain
    if new:
        note(f"chain: py-evm in one process, as anvil is not installed (`{INSTALL_ANVIL}`)")
    return "embedded"


def choose_store(store: str, new: bool) -> str:
    """The kind of store that was asked for; else Kubo where it is installed, as ``choose_chain`` does."""
    if store != AUTO or find_kubo() is not None:
        return "kubo" if store == AUTO else store
    if new:
        note(f"store: a folder, as Kubo is not installed (`{INSTALL_KUBO}`)")
    return "disk"


def check_plan(context: typer.Context, plan: TestnetPlan) -> None:
    """Refuse values that are not allowed, or not together."""
    if plan.strategy not in STRATEGIES:
        raise CommandError(f"--strategy must be one of {', '.join(STRATEGIES)}, not {plan.strategy!r}")
    if plan.store not in STORES:
        raise CommandError(f"--store must be one of {', '.join((AUTO, *STORES))}, not {plan.store!r}")
    if plan.chain not in CHAINS:
        raise CommandError(f"--chain must be one of {', '.join((AUTO, *CHAINS))}, not {plan.chain!r}")
    if not 0.001 <= plan.alpha <= 1e6:
        raise CommandError(f"--alpha must be from 0.001 to 1000000, not {plan.alpha}")
    if plan.standby > plan.clients:
        raise CommandError(f"--standby must be at most the number of clients, {plan.clients}, not {plan.standby}")
    if plan.epsilon and not 0.1 <= plan.epsilon <= 1000:
        raise CommandError(f"--epsilon must be 0 or from 0.1 to 1000, not {plan.epsilon:g}")
    check_demo(plan)
    if (plan.settings or plan.table_format) and not plan.task:
        raise CommandError("--set and --table-format are for a task: leave them out without --task")
    if plan.bases and not plan.task:
        raise CommandError("--base is for a task's frozen bases: leave it out without --task")
    check_groups(plan.method, plan.clients)
    if plan.method != TRAINING and given(context, "alpha"):
        raise CommandError("--alpha splits labels at random: leave it out if --method groups similar clients")
    if plan.method != TRAINING and plan.epsilon:
        raise CommandError("--epsilon and --method cannot be combined: clusters have no privacy mechanism")


def check_demo(plan: TestnetPlan) -> None:
    """Refuse what a demonstration would refuse as well."""
    from fedgrove.node.devnet.demo_request import MASKINGS, InvalidOption, check_evaluation  # brings torch

    if plan.masking not in MASKINGS:
        raise CommandError(f"--masking must be one of {', '.join(MASKINGS)}, not {plan.masking!r}")
    try:
        check_evaluation(plan.as_demo())
    except InvalidOption as mistake:
        raise CommandError(f"--{mistake}") from None


def check_task(context: typer.Context, task: Path | None, data: Path | None, strategy: str) -> str:
    """The strategy for the task; refuse options that belong to data sets, and half of what a task needs."""
    if task is None or data is None:
        raise CommandError("--task and --data belong together: give the task's folder, and what its data() reads")
    for name in ("dataset", "data_dir", "alpha", "k", "method"):
        if given(context, name):
            raise CommandError(f"--{name.replace('_', '-')} is not for tasks: leave it out with --task")
    if not (task.is_dir() or (task.is_file() and task.suffix == ".py")):
        raise CommandError(f"{task} is neither a folder nor a Python file: give the folder of your task")
    if not data.exists():
        raise CommandError(f"there is no {data}: give --data what the task's data() reads")
    return strategy if given(context, "strategy") else suggested_by(task).default_strategy


def check_method(context: typer.Context, wait: bool) -> None:
    """Refuse options that say how models are trained, or that would wait for ever."""
    for name in ("alpha", "strategy", "epsilon", "method", "masking", "held_out", "patience", "portable"):
        if given(context, name):
            raise CommandError(f"--{name.replace('_', '-')} is for models: leave it out with --k")
    if wait:
        raise CommandError("a K-means testnet runs until `fedgrove network down`: leave --wait out")


def check_same(context: typer.Context, layout: TestnetPaths, plan: TestnetPlan) -> None:
    """Refuse options that differ from what an existing testnet was made with."""
    if not layout.record.exists():
        return
    with sentences(2):
        made = asdict(read_record(layout).plan)
    for name, value in asdict(plan).items():
        if given(context, name) and value != made[name]:
            raise CommandError(
                f"the testnet in {layout.root} was made with --{name.replace('_', '-')} {made[name]}: give another "
                "--dir, or start again after `fedgrove network down --delete`"
            )


@contextmanager
def sentences(code: int) -> Iterator[None]:
    """Make what a testnet says of itself the command's one sentence, with this exit code; 2 for an unfit directory."""
    try:
        yield
    except UnfitDirectory as mistake:
        raise CommandError(str(mistake)) from None
    except TestnetError as fault:
        raise CommandError(str(fault), code) from None
