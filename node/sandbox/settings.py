"""What a warm process is told when it starts: its mode, what it sees, what a job may use."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from fedgrove.node.sandbox.limits import JobLimits

# Where a job in strict mode finds what it is given.
ROOT = Path("/fedgrove")
TASK, DATA, SCRATCH = ROOT / "task", ROOT / "data", ROOT / "scratch"


class Mode(StrEnum):
    """How a task's code is contained: namespaces and a filter; Landlock and a filter; a process of its own."""

    STRICT = "strict"
    CONTAINED = "contained"
    OFF = "off"


@dataclass(frozen=True)
class Visible:
    """What a job is shown of the machine in addition to the interpreter: a task's code and its data, both to read."""

    task: Path
    data: Path | None = None


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
        values = json.loads(text)
        visible = {name: value and Path(value) for name, value in values["visible"].items()}
        return cls(
            mode=Mode(values["mode"]),
            visible=Visible(**visible),
            limits=JobLimits(**values["limits"]),
            preload=tuple(values["preload"]),
            readable=tuple(map(Path, values["readable"])),
            temporary=values["temporary"],
        )
