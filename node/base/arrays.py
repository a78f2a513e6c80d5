"""Arrays of a .npz file: never unpickled, and never more memory than the file has content for."""

import math
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

_LONGEST = 200


class InvalidArrays(ValueError):
    """The file cannot be used; the message says why, and what to write instead, after the file's name."""


def read_npz(path: Path, names: Iterable[str], most: int | None = None) -> dict[str, np.ndarray]:
    """The arrays of these names that are in the file; with ``most``, each of at most that many values.

    Raises
    ------
    OSError
        It cannot be read.
    InvalidArrays
        It is no such file, or an array in it is damaged, holds objects, claims more bytes than there are, or is too
        large.
    """
    if path.exists() and not path.is_file():  # to open a pipe, or to read all of a device, takes for ever
        raise InvalidArrays("is not a regular file: give a .npz archive")
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise InvalidArrays("is no .npz archive: write it with numpy.savez")
    try:
        with zipfile.ZipFile(path) as archive:
            held = {name.removesuffix(".npy"): name for name in archive.namelist()}
            return {name: _array(archive, held[name], name, most) for name in names if name in held}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, MemoryError) as fault:
        if isinstance(fault, InvalidArrays):
            raise
        said = " ".join(str(fault).split())[:_LONGEST]  # numpy quotes a header whole
        raise InvalidArrays(f"is a damaged .npz archive ({said}): write it again") from None


def _array(archive: zipfile.ZipFile, member: str, name: str, most: int | None) -> np.ndarray:
    with archive.open(member) as file:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = header(file)
        claimed, there = math.prod(shape) * dtype.itemsize, archive.getinfo(member).file_size - file.tell()
    if dtype.hasobject:
        raise InvalidArrays(f"has Python objects in {name}, which are never unpickled: save an array of numbers")
    if claimed != there:
        raise InvalidArrays(f"claims {claimed} bytes for {name}, but has {there}: write it again")
    if most is not None and max(math.prod(shape), claimed // 8) > most:
        raise InvalidArrays(f"has more than {most} values in {name}: give fewer")
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)
