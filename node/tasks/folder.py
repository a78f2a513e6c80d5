"""A folder of this machine as contents by path, and back: regular files only, no link is followed, all is bounded."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedgrove.common.regular_file import NotRegular, read_regular
from fedgrove.node.base.files import sync_directory
from fedgrove.node.tasks.names import (
    MAX_BUNDLE_BYTES,
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_FILES,
    InvalidBundle,
    is_left_out,
)


def read_folder(folder: Path, leave_out: Callable[[str], bool] = is_left_out) -> dict[str, bytes]:
    """The contents of a folder's files by path (``/`` between names).

    Raises
    ------
    InvalidBundle
        There is no such folder, it cannot be read, it holds a link or a special file, or too much.
    """
    files: dict[str, bytes] = {}
    left = MAX_BUNDLE_BYTES
    try:
        for path in walk(folder, leave_out):
            files[path] = read_file(folder / path, min(left, MAX_FILE_BYTES))
            left -= len(files[path])
    except OSError as fault:
        raise InvalidBundle(f"cannot read {fault.filename or folder}: {fault.strerror}") from None
    return files


def read_file(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a regular file, at most ``limit``; InvalidBundle for anything else, OSError where it is missing."""
    try:
        data = read_regular(path, limit, follow=False)
    except NotRegular:
        raise InvalidBundle(f"{path} is a link or no regular file: put a copy of the file in its place") from None
    if len(data) > limit:
        raise InvalidBundle(
            f"{path} makes the bundle too large (at most {MAX_FILE_BYTES >> 20} MiB a file, "
            f"{MAX_BUNDLE_BYTES >> 20} MiB in all): keep data and weights out of it"
        )
    return data


def write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder with these files, all read-only; it appears as a whole, or not at all.

    Parameters
    ----------
    target : Path
        Must not exist.
    files : mapping
        Contents by paths that have been checked (``check_paths``).

    Raises
    ------
    InvalidBundle
    """
    if os.path.lexists(target):
        raise InvalidBundle(f"{target} exists already and was not changed: give another folder")
    try:
        with appearing(target) as part:
            part.mkdir(mode=0o700)
            write_files(part, ((path, (data,)) for path, data in files.items()))
    except OSError as fault:
        raise InvalidBundle(f"cannot write {target}: {fault.strerror}; choose another place") from None


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Inside, a place to write to under another name, which gets the name ``target`` in the end, or is removed."""
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        yield part
        part.rename(target)
    except BaseException:
        remove_folder(part)
        raise
    sync_directory(target.parent)


def write_files(part: Path, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
    """Write files durably, each by its path and its pieces, then close them and their folders to writers.

    An empty path is ``part`` itself.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for path, pieces in files:
        place = part / path if path else part
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(place, flags, 0o444), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    for folder, _, _ in os.walk(part, topdown=False):
        sync_directory(Path(folder))
        os.chmod(folder, 0o555)


def remove_folder(folder: Path) -> None:
    """Remove a folder that ``write_folder`` made, or whatever has its place; no link is followed, no folder is fine."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o700)  # nothing can be removed from a read-only folder
    if folder.exists():
        shutil.rmtree(folder)


def walk(
    folder: Path, leave_out: Callable[[str], bool] = is_left_out, below: str = "", depth: int = 0
) -> Iterator[str]:
    """Yield the paths of all files, sorted in each folder; InvalidBundle where they are too many or too deep."""
    with os.scandir(folder) as entries:
        found = sorted((entry for entry in entries if not leave_out(entry.name)), key=lambda entry: entry.name)
    if len(found) > MAX_FILES:
        raise InvalidBundle(f"{folder} holds more than {MAX_FILES} files: keep data and environments out of the folder")
    if depth > MAX_DEPTH:
        raise InvalidBundle(f"{folder} lies in more than {MAX_DEPTH} folders: flatten them")
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from walk(folder / entry.name, leave_out, f"{below}{entry.name}/", depth + 1)
        else:
            yield below + entry.name
