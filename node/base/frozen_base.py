"""A frozen base, as a federation's terms name it: a pretrained model that members read and never send."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from fedgrove.common.settings import InvalidConfig, Settings

BASES = "bases"
"""Where a job's header has the paths of the task's frozen bases, by name."""
MAX_BASES = 16
MAX_BASE_BYTES = 1 << 40
CID = "b[a-z2-7]{50,100}"
"""What a CID of version 1 in base 32 matches."""
_Name = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?\Z",
        description="1 to 64 letters, digits and _ . -, no dot at an end",
    ),
]


@dataclass(frozen=True)
class FrozenBase(Settings):
    """A file or a folder by its content.

    Attributes
    ----------
    name : str
        What the task's code asks for.
    cid : str
        CID of the file or the folder, as ``fedgrove task base`` prints it.
    size : int
        Bytes of all its files: nobody reads more.
    """

    name: _Name
    cid: Annotated[str, Meta(pattern=rf"\A{CID}\Z", description="the CID that fedgrove task base prints")]
    size: Annotated[int, Meta(ge=1, le=MAX_BASE_BYTES, description=f"from 1 to {MAX_BASE_BYTES} bytes")]


def check_bases(bases: Sequence[FrozenBase]) -> None:
    """Refuse too many bases, and two of one name on some machine; InvalidConfig."""
    if len(bases) > MAX_BASES:
        raise InvalidConfig(f"task.bases must be at most {MAX_BASES}")
    if len({base.name.lower() for base in bases}) < len(bases):
        raise InvalidConfig("task.bases must have names of their own")
