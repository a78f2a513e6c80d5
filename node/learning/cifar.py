"""Parsers of CIFAR-10's two published forms (Krizhevsky 2009): the binary version, and the Python version.

The Python version is a pickle. It is read without importing or calling anything that the file names: only a list of
plain opcodes is let through, and the few names that a NumPy array needs stand for objects of this module.
"""

import hashlib
import io
import pickle
import pickletools
from typing import Any

import numpy as np

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
CLASSES = 10
MAX_OPERATIONS = 1_000_000
PLAIN_OPCODES = frozenset(
    {"PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINSTRING"}
    | {"SHORT_BINSTRING", "BINUNICODE", "BINBYTES", "SHORT_BINBYTES", "EMPTY_LIST", "APPEND", "APPENDS"}
    | {"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT", "SETITEM", "SETITEMS"}
    | {"BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "REDUCE", "BUILD"}
)

Images = tuple[np.ndarray, np.ndarray]


def parse_binary_batch(data: bytes) -> Images:
    """Parse records of one label byte and 3,072 pixel bytes; return uint8 (n, 3, 32, 32) and int64 (n,).

    Raises
    ------
    ValueError
        A length that is no multiple of a record, or a label above 9.
    """
    if not data or len(data) % (1 + PIXELS):
        raise ValueError(f"{len(data)} bytes are not a whole number of CIFAR-10 records of {1 + PIXELS} bytes")
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + PIXELS)
    return _checked(records[:, 1:], records[:, 0].astype(np.int64))


def parse_python_batch(data: bytes) -> Images:
    """Parse a batch of ``cifar-10-batches-py``; the result is that of ``parse_binary_batch``.

    Raises
    ------
    ValueError
        Anything but a dictionary with an array of unsigned bytes ``data`` and a list of numbers ``labels``.
    """
    _refuse_unusual_opcodes(data)
    try:
        batch = _PlainUnpickler(data).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, IndexError, KeyError, AttributeError) as fault:
        raise ValueError(f"it is not a CIFAR-10 batch: {fault}") from None
    if not isinstance(batch, dict):
        raise ValueError("it is not a CIFAR-10 batch: it is not a dictionary")
    entries = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    images, labels = getattr(entries.get("data"), "array", None), entries.get("labels")
    if images is None or not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError("it is not a CIFAR-10 batch: it needs an array named data and a list named labels")
    if images.ndim != 2 or images.shape != (len(labels), PIXELS) or not labels:
        raise ValueError(f"it is not a CIFAR-10 batch: data {images.shape} with {len(labels)} labels")
    return _checked(images, np.array(labels, dtype=np.int64))


def content_digest(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 in hex of a batch's binary form, whatever form it was read from."""
    records = np.concatenate([labels.astype(np.uint8)[:, None], images.reshape(-1, PIXELS)], axis=1)
    return hashlib.sha256(records.tobytes()).hexdigest()


def _checked(pixels: np.ndarray, labels: np.ndarray) -> Images:
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise ValueError(f"it holds a label outside 0 … {CLASSES - 1}")
    return pixels.reshape(-1, *SHAPE), labels


def _refuse_unusual_opcodes(data: bytes) -> None:
    """Read the file as a list of opcodes, executing none, and refuse it unless all are plain and in bounds."""
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if opcode.name not in PLAIN_OPCODES or number >= MAX_OPERATIONS:
                raise ValueError(f"a CIFAR-10 batch cannot contain the opcode {opcode.name}")
            # The unpickler reserves memory up to the largest index, so an honest file's indices follow its length.
            if opcode.name == "LONG_BINPUT" and argument is not None and argument > number:
                raise ValueError("memo index out of bounds")
    except (ValueError, IndexError, UnicodeDecodeError) as fault:
        raise ValueError(f"it is not a CIFAR-10 batch: {fault}") from None


class _PlainUnpickler(pickle.Unpickler):
    """Unpickler that knows four names, none of which is looked up in any module."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        self._names = _stand_ins()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._names:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return self._names[module, name]


def _stand_ins() -> dict[tuple[str, str], Any]:
    """What an array's pickle may name; made anew for each file, so that no file can change them for the next."""

    class Type:
        def __init__(self, code: bytes | str, *_: Any) -> None:
            if code not in (b"u1", "u1"):
                raise ValueError(f"an array of type {code!r} instead of unsigned bytes")

        def __setstate__(self, state: Any) -> None:
            """Byte order and alignment do not matter to single bytes."""

    class Array:
        array: np.ndarray | None = None

        def __setstate__(self, state: Any) -> None:
            _, shape, kind, column_major, raw = state
            if not isinstance(kind, Type) or column_major or not isinstance(raw, bytes):
                raise ValueError("an array that is not rows of unsigned bytes")
            self.array = np.frombuffer(raw, np.uint8).reshape(shape)

    def reconstruct(*_: Any) -> Array:
        return Array()

    def encode(text: str, encoding: str) -> bytes:
        if encoding not in ("latin1", b"latin1"):
            raise ValueError(f"text in the encoding {encoding!r}")
        return text.encode("latin1")

    return {
        ("numpy.core.multiarray", "_reconstruct"): reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): reconstruct,
        ("numpy", "ndarray"): "ndarray",
        ("numpy", "dtype"): Type,
        ("_codecs", "encode"): encode,
    }
