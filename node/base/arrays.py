"""Arrays of a .npz or .safetensors file: never unpickled, and never more memory than the file has content for.

A file may come from anybody, so its sizes are read and refused before what they describe: the list of a .npz archive's
members, the header of each array (which numpy itself would hand to Python's parser), and the length of the array.
"""

import math
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as safetensors_load

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.archives import ArchiveFile, TooManyMembers
from fedgrove.node.base.memory import memory_limit
from fedgrove.node.base.tensor_views import LENGTH, MAX_HEADER

SAFETENSORS = ".safetensors"
MAX_VALUES = 1 << 29
"""Of an array: 2 GiB as float32, which samples become."""
_LONGEST = 200
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as numpy does; others unpack with as much memory as they like
_ENCRYPTED = 1
_MAX_ARRAY_HEADER = 4096
# As numpy and others write it for arrays of one type; a type that is a list has fields.
_ARRAY_HEADER = re.compile(
    rb"""\{ ?['"]descr['"]: ?['"]([<>|=]?[a-zA-Z][0-9]{0,9}(?:\[[a-zA-Z]{1,2}\])?)['"], ?"""
    rb"""['"]fortran_order['"]: ?(?:True|False), ?"""
    rb"""['"]shape['"]: ?\(((?:[0-9]{1,19}, ?){0,32}(?:[0-9]{1,19})?)\),? ?\}[ \n]*"""
)


def read_arrays(path: Path, names: Iterable[str], most: int = MAX_VALUES) -> dict[str, np.ndarray]:
    """The arrays of these names that a .npz or .safetensors file holds, each of at most ``most`` values.

    Raises
    ------
    OSError
        It cannot be read.
    InvalidContent
        It is no such file, or an array in it is damaged, holds objects, claims more bytes than there are, or is too
        large.
    """
    _check_regular(path)
    return _read_safetensors(path, names, most) if path.suffix == SAFETENSORS else _read_npz(path, names, most)


def names_in_npz(path: Path) -> list[str]:
    """The names of the arrays of a .npz file; raises as ``read_arrays``."""
    _check_regular(path)
    with ArchiveFile(path) as file:
        return [name.removesuffix(".npy") for name in _archive(file).namelist()]


def arrays_of(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of safetensors bytes that came from a peer; InvalidContent for anything else."""
    if int.from_bytes(data[:LENGTH], "little") > MAX_HEADER:
        raise InvalidContent("is not a safetensors file: its header is too long")
    try:
        return safetensors_load(data)
    except (SafetensorError, KeyError, ValueError, TypeError) as fault:
        raise InvalidContent(f"is not a safetensors file: {type(fault).__name__}") from None


def _check_regular(path: Path) -> None:
    if path.exists() and not path.is_file():  # to open a pipe, or to read all of a device, takes for ever
        raise InvalidContent("is not a regular file: give a file of arrays")


def _read_npz(path: Path, names: Iterable[str], most: int) -> dict[str, np.ndarray]:
    with ArchiveFile(path) as file:
        archive = _archive(file)
        try:
            held = {name.removesuffix(".npy"): name for name in archive.namelist()}
            room = _Room(most)
            return {name: _array(archive, archive.getinfo(held[name]), name, room) for name in names if name in held}
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, MemoryError) as fault:
            said = " ".join(str(fault).split())[:_LONGEST]
            raise InvalidContent(f"is a damaged .npz archive ({said}): write it again") from None


def _archive(file: ArchiveFile) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except TooManyMembers:
        raise InvalidContent("lists more members than any .npz archive of arrays: write it with numpy.savez") from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise InvalidContent("is no .npz archive: write it with numpy.savez") from None


class _Room:
    """How much of a file's arrays may still be read: values of each, bytes of all."""

    def __init__(self, most: int) -> None:
        self._most, self._left = most, memory_limit() // 2

    def take(self, name: str, values: int, size: int) -> None:
        """Note that an array will be read; InvalidContent if it is too large."""
        if max(values, size // 8) > self._most:
            raise InvalidContent(f"has more than {self._most} values in {name}: give fewer")
        self._left -= size
        if self._left < 0:
            raise InvalidContent(f"needs more than half of the memory of this machine for {name}: give fewer values")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, room: _Room) -> np.ndarray:
    if member.compress_type not in _PACKED or member.flag_bits & _ENCRYPTED:
        raise InvalidContent(f"packs {name} as numpy does not: write it with numpy.savez")
    with archive.open(member) as file:
        shape, dtype = _header(file, name)
        values, there = math.prod(shape), member.file_size - file.tell()
    claimed = values * dtype.itemsize
    if dtype.hasobject:
        raise InvalidContent(f"has Python objects in {name}, which are never unpickled: save an array of numbers")
    if claimed != there:
        raise InvalidContent(f"claims {claimed} bytes for {name}, but has {there}: write it again")
    room.take(name, values, claimed)
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)


def _header(file: Any, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and the type of an array's values."""
    length = 2 if npy.read_magic(file) == (1, 0) else 4
    size = int.from_bytes(file.read(length), "little")
    found = _ARRAY_HEADER.fullmatch(file.read(size)) if size <= _MAX_ARRAY_HEADER else None
    if found is None:
        raise InvalidContent(f"has a header that is none of an array of numbers or texts, in {name}: write it again")
    sides = tuple(int(side) for side in found[2].split(b",") if side)
    return sides, np.dtype(found[1].decode())


def _read_safetensors(path: Path, names: Iterable[str], most: int) -> dict[str, np.ndarray]:
    with path.open("rb") as file:
        if int.from_bytes(file.read(LENGTH), "little") > MAX_HEADER:
            raise InvalidContent("is not a file of arrays: the length of its header is wrong")
    room, found = _Room(most), {}
    try:
        with safe_open(path, "np") as held:
            present = set(held.keys())
            for name in names:
                if name in present:
                    values = math.prod(held.get_slice(name).get_shape())
                    room.take(name, values, 8 * values)
                    found[name] = held.get_tensor(name)
    except (SafetensorError, TypeError, KeyError, AttributeError, OverflowError, MemoryError) as fault:
        raise InvalidContent(f"is not a file of arrays: {fault}") from None
    return found
