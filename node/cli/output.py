"""What every command writes, and where: answers on stdout, progress and complaints on stderr.

An answer is what the command was asked for: a verdict, a table, a file's name, with ``--json`` one document. No other
module of the command prints, so that ``fedgrove audit RUN > verdict.txt`` holds the verdict and nothing else.
"""

import errno
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleDimensions, RenderableType
from rich.live import Live
from rich.progress import Progress, ProgressColumn
from rich.text import Text

from fedgrove.common.errors import Error, InvalidInput
from fedgrove.ipfs.password_file import read_password_file

PASSWORD_VARIABLE = "FEDGROVE_PASSWORD"
FAILED = 1  # exit code of work that was asked for rightly and could not be done

_ROOM = "make room and run the command again; completed work is kept"
_PATH = "give another path"
_OF_DISK = {
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: _PATH,
    errno.ENOTDIR: _PATH,
    errno.EISDIR: _PATH,
    errno.EACCES: "give another path, or allow this user to use it",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "use a file system that allows larger files",
    errno.EROFS: "use a place that can be written to",
    errno.EIO: "the disk is failing; continue from a copy on another disk",
}

FILE_COLUMNS = 200
"""Width of tables that go into a file or a pipe, where no ``COLUMNS`` says another; a terminal has its own."""


class _Answers(Console):
    """Standard output, for tables."""

    @property
    def size(self) -> ConsoleDimensions:
        known = self.is_terminal or "COLUMNS" in os.environ
        return super().size if known else ConsoleDimensions(FILE_COLUMNS, super().size.height)

    def on_broken_pipe(self) -> None:
        """End as ``print`` does; rich would exit with 1, which for an audit means a bad record."""
        raise BrokenPipeError


_answers = _Answers(highlight=False, emoji=False)
_notes = Console(stderr=True, highlight=False, emoji=False)


class CommandError(InvalidInput):
    """A mistake that ends the command with one sentence, and with an exit code of its own where one is given."""

    def __init__(self, sentence: str, code: int = InvalidInput.exit_code) -> None:
        super().__init__(sentence)
        self.exit_code = code


def explained(mistake: Exception) -> str:
    """The sentence that explains an exception to whoever ran the command; empty for a fault of fedgrove itself."""
    return fault_of_disk(mistake) or (str(mistake) if isinstance(mistake, Error) else "")


def fault_of_disk(mistake: Exception) -> str:
    """Message on an exception of the disk, in one sentence; empty for other exceptions."""
    if isinstance(mistake, sqlite3.Error) and getattr(mistake, "sqlite_errorname", "") == "SQLITE_FULL":
        mistake = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if isinstance(mistake, RuntimeError) and str(mistake).startswith("Symlink loop"):  # by Path.resolve
        return f"{mistake}: {_PATH}"
    if not isinstance(mistake, OSError) or mistake.errno not in _OF_DISK:
        return ""
    where = f" ({mistake.filename})" if isinstance(mistake.filename, str | os.PathLike) else ""
    return f"{mistake.strerror or os.strerror(mistake.errno)}{where}: {_OF_DISK[mistake.errno]}"


def open_closed_streams() -> None:
    """Replace standard streams that the parent closed (``>&-``) by empty ones, so that nobody meets a None.

    The system gives out the lowest free number, so that each gets its own again, and no file that is opened later is
    taken for a stream by what this process starts.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, descriptor <= 2)
            setattr(sys, name, open(descriptor, mode))  # noqa: SIM115 (open until the process ends)


@contextmanager
def _to_stdout() -> Iterator[None]:
    """Write to stdout in the block; OSError where that cannot be done, and then nothing more is tried."""
    try:
        yield
    except OSError:
        # What is left in the buffer would be tried again, and complained of by the interpreter, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def flush() -> None:
    """Have everything that was printed written, or raise OSError."""
    with _to_stdout():
        sys.stdout.flush()


def complain(sentence: str) -> None:
    """Print one line to stderr, if it can be written to; the exit code tells, too."""
    with suppress(OSError):
        print(f"fedgrove: {' '.join(sentence.split())}", file=sys.stderr, flush=True)


def answer(text: str = "") -> None:
    """Print lines of the answer to stdout, as they are."""
    with _to_stdout():
        print(text, flush=True)


def answer_with(renderable: RenderableType) -> None:
    """Print a table, or styled text, to stdout."""
    with _to_stdout():
        _answers.print(renderable, soft_wrap=isinstance(renderable, Text))


def note(text: str) -> None:
    """Print how the work goes on to stderr, if it can be written to."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def live_answer() -> Live | None:
    """A display of an answer that changes, on a terminal; None elsewhere."""
    return Live(console=_answers, auto_refresh=False) if _answers.is_terminal else None


def live_note() -> Live | None:
    """A display of how the work goes on, which its end removes, on a terminal; None elsewhere."""
    if not _notes.is_terminal:
        return None
    return Live(console=_notes, refresh_per_second=8, transient=True, redirect_stdout=False)


def progress_bar(*columns: str | ProgressColumn) -> Progress:
    """A bar on stderr, which its end removes; it shows nothing where stderr is no terminal."""
    return Progress(*columns, console=_notes, transient=True, redirect_stdout=False, disable=not _notes.is_terminal)


def print_json(value: Any) -> None:
    """Print a JSON document to stdout, for machines."""
    answer(json.dumps(value, indent=2, sort_keys=True))


def print_json_line(value: Any) -> None:
    """Print one of several JSON documents to stdout, in one line."""
    answer(json.dumps(value, sort_keys=True))


@contextmanager
def or_say(failed: str, advice: str = "") -> Iterator[None]:
    """Have what fails on the disk end the command with the sentence that ``failed``, why, and what to do."""
    try:
        yield
    except OSError as fault:
        raise CommandError(f"{failed}: {fault.strerror}{advice and f'; {advice}'}") from None


def refuse_existing(paths: Iterable[Path | None], advice: str) -> None:
    """Raise CommandError where one of these is there already."""
    for path in paths:
        if path is not None and (path.is_symlink() or path.exists()):
            raise CommandError(f"{path} already exists: nothing was changed, {advice}")


def address(given: str, what: str) -> str:
    """An account's or a contract's address, with its checksum; CommandError for anything else."""
    from eth_utils import is_address, to_checksum_address  # takes long to import, for those who ask for help

    if not is_address(given):
        raise CommandError(f"{what} must be an address (0x and 40 hexadecimal digits), not {given!r}")
    return to_checksum_address(given)


def report(document: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print what a command did: a document for machines, or a sentence for people."""
    if as_json:
        print_json(document)
    else:
        answer(sentence)


def read_seeds(text: str) -> list[int]:
    """Whole numbers with commas, each once."""
    words = [word.strip() for word in text.split(",")]
    # Python refuses to convert thousands of digits.
    if not all(word.isascii() and word.isdecimal() and len(word) <= 100 for word in words):
        shown = text if len(text) <= 100 else f"{text[:100]}…"
        raise CommandError(f"--seeds must be whole numbers with commas, such as 0,1,2, not {shown!r}")
    return list(dict.fromkeys(int(word) for word in words))


def read_password(password_file: Path | None, confirm: bool = False, what: str = "keystore") -> str:
    """The password, from a file, from the environment, or typed; never from an argument, which others could see."""
    if password_file is not None:
        try:
            return read_password_file(password_file)
        except (OSError, UnicodeDecodeError):
            raise CommandError(f"cannot read the password file {password_file}") from None
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE]
    if not sys.stdin.isatty():
        raise CommandError(f"no password: give --password-file, set {PASSWORD_VARIABLE}, or run in a terminal")
    return typer.prompt(f"Password of the {what}", hide_input=True, confirmation_prompt=confirm, err=True)
