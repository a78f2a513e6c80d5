"""A scenario's task and data: the packed code, and which source is whose."""

from pathlib import Path

from fedgrove.node.base.files import MARK
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.training.task_code import read_code
from fedgrove.node.scenario.settings import TaskChoice
from fedgrove.node.tasks.bundle import Bundle

TEST = "test"
"""How the name of a source to evaluate on begins, next to the clients'."""


def packed(task: TaskChoice) -> tuple[Bundle | None, TaskSettings]:
    """The bundle of a task's folder, None for a shipped task, and the terms' table ``[task]``.

    Raises
    ------
    InvalidBundle
        The folder cannot be packed.
    InvalidConfig
        It packs to something else than the scenario names, or the table is not right.
    """
    bundle = read_code(Path(task.folder)).bundle if task.folder else None
    name = "" if bundle is None else str(bundle.cid)
    if task.bundle not in ("", name):
        raise InvalidConfig(f"task.bundle is {task.bundle}, and {task.folder} packs to {name}: give the folder of that")
    return bundle, TaskSettings(name, task.keep, dict(task.options), task.shared, task.bases, task.name)


def sources_of(source: Path, clients: int) -> tuple[list[Path], Path | None]:
    """A source for each client, in the order of their names, and one to evaluate on; none where all share one."""
    found = sorted(source.iterdir()) if source.is_dir() else []
    found = [each for each in found if not each.name.endswith(MARK)]  # that clients left next to their data
    tests = [each for each in found if each.name.startswith(TEST)]
    own = [each for each in found if each not in tests]
    return (own, tests[0] if tests else None) if len(own) == clients else ([], None)
