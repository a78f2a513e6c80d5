"""How stored results were made: the command, the commit and the versions, in ``made.json`` next to them."""

import json
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from fedgrove.common.text import command_line
from fedgrove.node.base.files import write_atomically

MADE = "made.json"
_PACKAGES = ("torch", "numpy")
# Where files lie and what computes changes no result.
_ELSEWHERE = ("--data-dir", "--out", "--work", "--workers", "--executor")


@dataclass(frozen=True)
class Made:
    """One command whose results are kept.

    Attributes
    ----------
    command : str
        Without options that change no result: folders, processes.
    commit : str
        That the code was of, or ``unknown`` outside a checkout.
    versions : str
        Of Python and the packages that compute.
    note : str
        Whatever else a reader must know; empty if nothing.
    """

    command: str
    commit: str
    versions: str
    note: str = ""

    @property
    def text(self) -> str:
        """A line of Markdown."""
        note = f"; {self.note}" if self.note else ""
        return f"- `{self.command}` at commit {self.commit}, {self.versions}{note}"


def made_now(arguments: Sequence[str]) -> Made:
    """What this process makes, given the command's arguments."""
    return Made(command_line(*_that_count(arguments)), commit_here(), versions_of(*_PACKAGES))


def read_made(folder: Path) -> list[Made]:
    """The commands behind a folder's results; none where nobody noted them."""
    path = folder / MADE
    return [Made(**each) for each in json.loads(path.read_bytes())] if path.is_file() else []


def add_made(folder: Path, made: Made) -> list[Made]:
    """Note a command; one that was given before is noted with the later commit and versions."""
    found = [each for each in read_made(folder) if each.command != made.command] + [made]
    write_atomically(folder / MADE, (json.dumps([asdict(each) for each in found], indent=1) + "\n").encode())
    return found


def _that_count(arguments: Sequence[str]) -> list[str]:
    kept, left = [], iter(arguments)
    for each in left:
        if each in _ELSEWHERE:
            next(left, None)
        elif not each.startswith(tuple(f"{name}=" for name in _ELSEWHERE)) and each != "--json":
            kept.append(each)
    return kept


def versions_of(*packages: str) -> str:
    """Versions of Python and of packages."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)])


def commit_here() -> str:
    """The commit of this file's checkout; ``-dirty`` where something was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
