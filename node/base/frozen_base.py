"""A frozen base, as a federation's terms name it: a pretrained model that members read and never send."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

BASES = "bases"
"""Where a job's header has the paths of the task's frozen bases, by name."""
MAX_BASES = 16
MAX_BASE_BYTES = 1 << 40
_NAME = re.compile("[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_CID = re.compile("b[a-z2-7]{50,100}")


@dataclass(frozen=True)
class FrozenBase:
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

    name: str
    cid: str
    size: int

    def __post_init__(self) -> None:
        _check(bool(_NAME.fullmatch(self.name)), "name must be 1 to 64 letters, digits and _ . -, no dot at an end")
        _check(bool(_CID.fullmatch(self.cid)), "cid must be the CID that fedgrove task base prints")
        _check(0 < self.size <= MAX_BASE_BYTES, f"size must be from 1 to {MAX_BASE_BYTES} bytes")


def check_bases(bases: Sequence[FrozenBase]) -> None:
    """Refuse too many bases, and two of one name on some machine; ValueError."""
    _check(len(bases) <= MAX_BASES, f"bases must be at most {MAX_BASES}")
    _check(len({base.name.lower() for base in bases}) == len(bases), "bases must have names of their own")


def _check(fine: bool, sentence: str) -> None:
    if not fine:
        raise ValueError(sentence)
