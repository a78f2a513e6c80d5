"""The table ``[task]`` of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedgrove.node.base.frozen_base import FrozenBase
from fedgrove.node.base.strict_tables import Option


@dataclass(frozen=True)
class SimulatedTask:
    """A task of the user's own, as a plan names it.

    Attributes
    ----------
    folder : str
        The task's, or its one Python file.
    bundle : str
        CID that the folder must pack to, as a federation's terms state it; empty: whatever it packs to.
    name : str
        A shipped task, ``tabular`` or ``images``, in place of a folder with code.
    keep : tuple of str
        Patterns of names of tensors that stay at home, as ``head.*``: personal layers.
    options : mapping
        Keyword arguments of the task's class.
    shared : str
        Name of the file in the folder that holds the shared set; empty: there is none.
    bases : tuple of FrozenBase
        Pretrained models that are not federated, by content.
    """

    folder: str = ""
    bundle: str = ""
    name: str = ""
    keep: tuple[str, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    shared: str = ""
    bases: tuple[FrozenBase, ...] = ()
