"""What a warm process is told when it starts: its mode, what it sees, what a job may use."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from fedgrove.node.tasks.sandbox.limits import JobLimits

# Where a job in strict mode finds what it is given.
ROOT = Path("/fedgrove")
TASK, DATA, BASES, SCRATCH = ROOT / "task", ROOT / "data", ROOT / "bases", ROOT / "scratch"


class Mode(StrEnum):
    """How a task's code is contained: namespaces and a filter; Landlock and a filter; a process of its own."""

    STRICT = "strict"
    CONTAINED = "contained"
    OFF = "off"


@dataclass(frozen=True)
class Visible:
    """What a job is shown of the machine in addition to the interpreter, all to read only.

    A task's code, its data, and its frozen bases by name.
    """

    task: Path
    data: Path | None = None
    bases: Mapping[str, Path] = field(default_factory=dict[str, Path])

    @property
    def paths(self) -> list[Path]:
        return [self.task, *([self.data] if self.data else []), *self.bases.values()]


@dataclass(frozen=True)
class WarmSettings:
    """Settings of a warm process; paths as its jobs see them.

    ``readable`` are the paths that Landlock leaves open; ``temporary`` says whether /tmp can be given to a job.
    """

    mode: Mode
    visible: Visible
    limits: JobLimits
    preload: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()
    temporary: bool = True

    def dump(self) -> bytes:
        return json.dumps(asdict(self), default=str).encode()

    @classmethod
    def load(cls, text: bytes) -> "WarmSettings":
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))
