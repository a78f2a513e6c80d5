"""Initial contents of a testnet with a task of the user's own: packed, stored, approved for the clients it makes."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.tensors import load
from fedgrove.node.devnet.task_subject import TaskPart, TaskSubject
from fedgrove.node.devnet.testnet.layout import TestnetPaths, client_name
from fedgrove.node.devnet.testnet.processes import COORDINATOR
from fedgrove.node.devnet.testnet.windows import task_seconds, windows
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.reading import left_out
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.tasks.approval import Approvals
from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.sandbox.settings import Visible
from fedgrove.node.tasks.sandbox.worker import refuse_private


@dataclass(frozen=True)
class TaskBeginning:
    """The terms, the packed task, the clients' data, the coordinator's if there are any, and the bases by name."""

    config: FederationConfig
    bundle: Bundle | None
    parts: list[TaskPart]
    test: Path | None
    bases: Mapping[str, Path]


def begin_task(
    layout: TestnetPaths, scenario: Scenario, store: ContentStore, keys: Keys, say: Callable[[str], None]
) -> TaskBeginning:
    """Pack and store the task and its first model, and measure how long a round takes.

    Parameters
    ----------
    keys : Keys
        The coordinator's.
    say : callable
        Told of a suggestion of the task's that is not followed.

    Raises
    ------
    InvalidConfig, BundleError, TaskFailed, DivergedTraining, SandboxUnavailable
        The task, its terms or its data are not right, nothing contains its code here, or it would see the testnet.
    """
    task, cast = scenario.task, scenario.cast
    assert task is not None
    bases = {name: Path(path) for name, path in cast.bases.items()}
    refuse_private(Visible(Path(task.folder), Path(cast.data), bases), [layout.root])
    unfollowed = left_out(scenario, "")
    if unfollowed:
        say(unfollowed)
    with ExitStack() as stack:
        subject = TaskSubject(scenario, stack)
        config, first = subject.found(scenario, store, keys)
        seconds = task_seconds(config, subject.parts(config), load(first))
        parts, test = subject.places(), subject.test_place(config)
    config = replace(config, ledger=windows(cast.clients, scenario.run.block_seconds, seconds))
    return TaskBeginning(config, subject.bundle, parts, test, bases)


def approve_for_all(layout: TestnetPaths, everyone: Mapping[str, Keys], bundle: Bundle | None) -> None:
    """Approve the task for each participant, in whose name the user, who makes them, decides.

    Nobody has to approve a shipped task, which has no bundle.
    """
    if bundle is None:
        return
    for name, keys in everyone.items():
        Approvals(layout.participant(name).state, keys.address).approve(keys.account, bundle)


def place_sources(layout: TestnetPaths, begun: TaskBeginning) -> dict[str, list[str]]:
    """The options of each participant's service that say what its data are."""
    named = {client_name(number): each for number, each in enumerate(begun.parts, 1)}
    if begun.test is not None:
        named[COORDINATOR] = TaskPart(begun.test)
    bases = [part for name, path in begun.bases.items() for part in ("--base", f"{name}={path}")]
    sources = {name: [*_options(layout, name, each), *bases] for name, each in named.items()}
    return {COORDINATOR: []} | sources


def _options(layout: TestnetPaths, name: str, each: TaskPart) -> list[str]:
    """The options for a link to the data in the participant's folder: a client writes next to its data, too."""
    link = layout.participant(name).root / "source" / each.source.name
    link.parent.mkdir()
    link.symlink_to(each.source)
    data = ["--data", str(link)]
    return data if each.part is None else [*data, "--part", f"{each.part[0] + 1}/{each.part[1]}"]
