"""What terms say of the task that is learned: the table ``[task]``."""

import re
from dataclasses import dataclass, field

from fedgrove.node.base.frozen_base import FrozenBase, check_bases
from fedgrove.node.base.strict_tables import Option, build, check_value
from fedgrove.node.learning.image_settings import ImageSettings
from fedgrove.node.learning.tables.settings import TableSettings

SHIPPED: dict[str, type[ImageSettings] | type[TableSettings]] = {"images": ImageSettings, "tabular": TableSettings}
"""Tasks whose code is fedgrove's own, by name, and what their options say."""
MAX_PATTERNS = 100

_CID = re.compile("b[a-z2-7]{50,100}")
_FILE = re.compile("[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class TaskSettings:
    """The task that is learned, in place of a shipped model (see ``node.learning.tasks``).

    Attributes
    ----------
    bundle : str
        CID of the folder with the task's code; empty where ``name`` names a shipped task.
    name : str
        A task that ships with fedgrove, whose code nobody has to approve: ``tabular`` or ``images``.
    keep : tuple of str
        Patterns of names of tensors that stay at home, as ``head.*``: personal layers.
    options : dict
        Keyword arguments of the task's class.
    shared : str
        Name of the file in the bundle that holds the shared set, read by the task's ``data``; empty: there is none.
    bases : tuple of FrozenBase
        Pretrained models that are not federated, by content: each member has its own copy.
    """

    bundle: str = ""
    keep: tuple[str, ...] = ()
    options: dict[str, Option] = field(default_factory=dict)
    shared: str = ""
    bases: tuple[FrozenBase, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        check_value(bool(self.bundle) != bool(self.name), "task", "given a bundle, or the name of a shipped task")
        fine = self.shared == "" or bool(_FILE.fullmatch(self.shared))
        check_value(fine, "task.shared", "the name of a file in the bundle's folder")
        fine = bool(self.name) or bool(_CID.fullmatch(self.bundle))
        check_value(fine, "task.bundle", f"the CID that fedgrove task pack prints, not {self.bundle!r}")
        check_value(len(self.keep) <= MAX_PATTERNS, "task.keep", f"at most {MAX_PATTERNS} patterns")
        fine = all(0 < len(each) <= 200 and each.isprintable() for each in self.keep)
        check_value(fine, "task.keep", "patterns of 1 to 200 printable characters")
        check_value(all(name.isidentifier() for name in self.options), "task.options", "a table of arguments by name")
        check_bases(self.bases)
        if self.name:
            self._check_shipped()

    @property
    def shipped(self) -> ImageSettings | TableSettings | None:
        """The options of a shipped task; None for a task of the members' own."""
        return build(SHIPPED[self.name], self.options, "task.options") if self.name else None

    @property
    def table(self) -> TableSettings | None:
        """What the terms say of the members' tables; None where another task is learned."""
        options = self.shipped
        return options if isinstance(options, TableSettings) else None

    def _check_shipped(self) -> None:
        check_value(self.name in SHIPPED, "task.name", f"one of {', '.join(SHIPPED)}")
        check_value(not self.shared, "task.shared", "left out where task.name is given: there is no bundle with a file")
        check_value(not self.bases, "task.bases", "left out where task.name is given: a shipped task has none")
        build(SHIPPED[self.name], self.options, "task.options")
