"""What terms say of the task that is learned: the table ``[task]``."""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from fedgrove.common.settings import Settings
from fedgrove.node.base.frozen_base import CID, FrozenBase, check_bases
from fedgrove.node.base.strict_tables import Option, build
from fedgrove.node.learning.image_settings import ImageSettings
from fedgrove.node.learning.settings import ModelSpec, ShippedTask
from fedgrove.node.learning.tables.settings import TableSettings

NETWORK = "network"
SHIPPED: dict[str, type[ShippedTask]] = {"images": ImageSettings, NETWORK: ModelSpec, "tabular": TableSettings}
"""Tasks whose code is fedgrove's own, by name, and what their options say."""
MAX_PATTERNS = 100

_File = Annotated[
    str,
    Meta(pattern=r"\A([A-Za-z0-9_][A-Za-z0-9._-]{0,99})?\Z", description="the name of a file in the bundle's folder"),
]
_Patterns = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
    Meta(max_length=MAX_PATTERNS, description=f"at most {MAX_PATTERNS} patterns of 1 to 200 printable characters"),
]


@dataclass(frozen=True)
class TaskSettings(Settings):
    """The task that is learned (see ``node.learning.tasks``).

    Terms need either a bundle or a name; what a task's author suggests has no bundle yet.

    Attributes
    ----------
    bundle : str
        CID of the folder with the task's code; empty where ``name`` names a shipped task.
    name : str
        A task that ships with fedgrove, whose code nobody has to approve: ``images``, ``network`` or ``tabular``.
    keep : tuple of str
        Patterns of names of tensors that stay at home, as ``head.*``: personal layers.
    options : dict
        Keyword arguments of the task's class.
    shared : str
        Name of the file in the bundle that holds the shared set, read by the task's ``data``; empty: there is none.
    bases : tuple of FrozenBase
        Pretrained models that are not federated, by content: each member has its own copy.
    """

    bundle: Annotated[str, Meta(pattern=rf"\A({CID})?\Z", description="the CID that fedgrove task pack prints")] = ""
    keep: _Patterns = ()
    options: dict[str, Option] = field(default_factory=dict)
    shared: _File = ""
    bases: tuple[FrozenBase, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = all(map(str.isprintable, self.keep))
        self.require(fine, "keep", f"at most {MAX_PATTERNS} patterns of 1 to 200 printable characters")
        self.require(all(name.isidentifier() for name in self.options), "options", "a table of arguments by name")
        check_bases(self.bases)
        if self.name:
            self.require(self.name in SHIPPED, "name", f"one of {', '.join(SHIPPED)}")
            given = "left out where task.name is given: "
            self.require(not self.shared, "shared", f"{given}there is no bundle with a file")
            self.require(not self.bases, "bases", f"{given}a shipped task has none")
            assert self.shipped  # which checks its options
        fine = self.network is None or not self.keep
        self.require(fine, "keep", f"left out where task.name is {NETWORK}: all its layers are federated")

    @classmethod
    def of_network(cls, spec: ModelSpec) -> "TaskSettings":
        """The task of a shipped network: what ``[model]`` is short for."""
        return cls(name=NETWORK, options={**asdict(spec), "input_shape": list(spec.input_shape)})

    @cached_property
    def shipped(self) -> ShippedTask | None:
        """The options of a shipped task; None for a task of the members' own."""
        return build(SHIPPED[self.name], self.options, "task.options") if self.name else None

    @property
    def network(self) -> ModelSpec | None:
        """The shipped network that is trained; None where another task is learned."""
        return self.shipped if isinstance(self.shipped, ModelSpec) else None

    @property
    def table(self) -> TableSettings | None:
        """What the terms say of the members' tables; None where another task is learned."""
        return self.shipped if isinstance(self.shipped, TableSettings) else None
