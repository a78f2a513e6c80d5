"""Tasks that ship with fedgrove, by the names that terms give them: nobody has to approve their code."""

from collections.abc import Mapping

from fedgrove.node.learning.tasks.images import Images
from fedgrove.node.learning.tasks.tabular import Tabular
from fedgrove.node.learning.tasks.task import InvalidTask, Task

_TASKS: dict[str, type[Task]] = {"images": Images, "tabular": Tabular}


def shipped_task(name: str, options: Mapping[str, object]) -> Task:
    """The task of this name, with the options of the terms; InvalidTask if this version does not ship it."""
    if name not in _TASKS:
        raise InvalidTask(f"this version of fedgrove does not ship a task {name}: update it")
    return _TASKS[name](**options)
