"""Parsers of CIFAR-10's two published forms (Krizhevsky 2009): the binary version, and the Python version.

The Python version is a pickle. It is never unpickled: its opcodes are listed, and none of them is executed. Whoever
needs to know that a batch is the published one compares ``content_digest``.
"""

import hashlib
import pickletools

import numpy as np

from fedgrove.common.errors import InvalidContent

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
CLASSES = 10
MAX_OPERATIONS = 1_000_000
_NUMBERS = frozenset({"BININT", "BININT1", "BININT2"})

Images = tuple[np.ndarray, np.ndarray]


def parse_binary_batch(data: bytes) -> Images:
    """Parse records of one label byte and 3,072 pixel bytes; return uint8 (n, 3, 32, 32) and int64 (n,).

    Raises
    ------
    InvalidContent
        A length that is no multiple of a record, or a label above 9.
    """
    if not data or len(data) % (1 + PIXELS):
        raise InvalidContent(f"{len(data)} bytes are not a whole number of CIFAR-10 records of {1 + PIXELS} bytes")
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + PIXELS)
    return _checked(records[:, 1:], records[:, 0].astype(np.int64))


def parse_python_batch(data: bytes) -> Images:
    """Parse a batch of ``cifar-10-batches-py``; the result is that of ``parse_binary_batch``.

    The pixels are its longest text (Python 2) or bytes, the labels are the numbers between the text ``labels`` and the
    next text.

    Raises
    ------
    InvalidContent
        Not a pickle with a label from 0 to 9 for each 3,072 bytes.
    """
    pixels, labels, are_labels = b"", [], False
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number >= MAX_OPERATIONS:
                raise ValueError("it has too many parts")
            if isinstance(argument, str | bytes):
                text = argument.encode("latin1") if isinstance(argument, str) else argument
                pixels, are_labels = max(pixels, text, key=len), text == b"labels"
            elif are_labels and opcode.name in _NUMBERS:
                labels.append(argument)
    except (ValueError, IndexError) as fault:
        raise InvalidContent(f"it is not a CIFAR-10 batch: {fault}") from None
    if not labels or len(pixels) != PIXELS * len(labels):
        raise InvalidContent(f"it is not a CIFAR-10 batch: {len(pixels)} bytes of pixels with {len(labels)} labels")
    return _checked(np.frombuffer(pixels, np.uint8), np.array(labels, dtype=np.int64))


def content_digest(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 in hex of a batch's binary form, whatever form it was read from."""
    records = np.concatenate([labels.astype(np.uint8)[:, None], images.reshape(-1, PIXELS)], axis=1)
    return hashlib.sha256(records.tobytes()).hexdigest()


def _checked(pixels: np.ndarray, labels: np.ndarray) -> Images:
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise InvalidContent(f"it holds a label outside 0 … {CLASSES - 1}")
    return pixels.reshape(-1, *SHAPE), labels
