"""Small disks of a test's own: an ext4 image whose raw bytes can be read, and a file system that is soon full."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MIB = 1 << 20


class Disk:
    """An ext4 file system in a file, mounted while ``mounted`` runs.

    Parameters
    ----------
    directory : Path
        Where image and mount point are made.
    mebibytes : int
        Size of the image.
    """

    def __init__(self, directory: Path, mebibytes: int = 16) -> None:
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("mkfs.ext4 is not installed: no raw disk to look at")
        self._image, self._point = directory / "disk.img", directory / "disk"
        self._point.mkdir()
        with self._image.open("wb") as file:
            file.truncate(mebibytes * _MIB)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self._image)], check=True, timeout=60)

    @contextmanager
    def mounted(self, options: str = "loop") -> Iterator[Path]:
        """The mounted file system, until the block ends; skips the test where nothing can be mounted."""
        with _mounted(["-o", options, str(self._image)], self._point) as point:
            yield point

    def raw(self) -> bytes:
        """All bytes of the disk, free blocks and the file system's own journal included."""
        return self._image.read_bytes()


@contextmanager
def small_disk(point: Path, kibibytes: int) -> Iterator[Path]:
    """A file system in memory that takes so many KiB; skips the test where nothing can be mounted."""
    point.mkdir(exist_ok=True)
    with _mounted(["-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs"], point) as mounted:
        yield mounted


@contextmanager
def read_only(directory: Path) -> Iterator[Path]:
    """A directory as a medium that takes no writes, root's included."""
    point = directory.with_name(f"{directory.name}-read-only")
    point.mkdir()
    with _mounted(["--bind", str(directory)], point):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(point)], check=True, timeout=60)
        yield point


def fill(directory: Path, leave: int = 0) -> Path:
    """Fill a file system with one file, but for ``leave`` bytes; the file can be removed to make room again."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        piece = 1 << 16
        while piece:
            try:
                file.write(bytes(piece))
            except OSError:
                piece //= 2
        os.truncate(ballast, max(0, file.tell() - leave))
    return ballast


@contextmanager
def _mounted(arguments: list[str], point: Path) -> Iterator[Path]:
    result = subprocess.run(["mount", *arguments, str(point)], capture_output=True, text=True, timeout=60)
    if result.returncode:
        pytest.skip(f"nothing can be mounted here: {result.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True, timeout=60)
