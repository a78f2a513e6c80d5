"""Parser of the IDX format, in which MNIST and Fashion-MNIST are published (LeCun, Cortes, Burges).

Layout: two zero bytes, type (0x08: unsigned byte), number of dimensions, each dimension as big-endian uint32, elements.
"""

import math
import struct

import numpy as np

from fedgrove.common.errors import InvalidContent

UNSIGNED_BYTE = 0x08
MAX_DIMENSIONS = 4


def parse_idx(data: bytes) -> np.ndarray:
    """Parse an IDX file of unsigned bytes into a uint8 array of the shape it states.

    Raises
    ------
    InvalidContent
        Not IDX, another element type, or a length that does not match the stated shape.
    """
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UNSIGNED_BYTE:
        raise InvalidContent("it is not an IDX file of unsigned bytes")
    dimensions = data[3]
    header = 4 + 4 * dimensions
    if not 1 <= dimensions <= MAX_DIMENSIONS or len(data) < header:
        raise InvalidContent("its IDX header is broken")
    shape = struct.unpack(f">{dimensions}I", data[4:header])
    if len(data) != header + math.prod(shape):
        raise InvalidContent(f"it states the shape {shape} but holds {len(data) - header} bytes")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
