"""Tasks that ship with fedgrove, by the names that terms give them: nobody has to approve their code."""

from collections.abc import Callable, Mapping

from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tasks.images import Images
from fedgrove.node.learning.tasks.tabular import Tabular
from fedgrove.node.learning.tasks.task import InvalidTask, Task

_TASKS: dict[str, Callable[[Mapping[str, object], TableFormat], Task]] = {
    "images": lambda options, form: Images(**options),
    "tabular": lambda options, form: Tabular(form, **options),
}


def shipped_task(name: str, options: Mapping[str, object], form: TableFormat = TableFormat()) -> Task:  # noqa: B008
    """The task of this name, with the options of the terms; InvalidTask if this version does not ship it.

    ``form`` is how the member's own file writes a table.
    """
    if name not in _TASKS:
        raise InvalidTask(f"this version of fedgrove does not ship a task {name}: update it")
    return _TASKS[name](options, form)
