"""Bytes changed as an attacker, or a bad disk, might change them; and whether their readers stand it."""

import random
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.adversary.bounded import bounded

COUNTS = [200, pytest.param(3000, marks=pytest.mark.statistics)]
"""So many mutations in the default run, and in that of many samples."""

SECONDS_EACH = 10
# What parsers of text and of numbers stumble over.
WORDS = [
    *(b"[" * 1000, b"{" * 1000, b'{"a":' * 500, b"[" * 40 + b"]" * 40),
    *(b"9" * 5000, b"-1", b"1e999", b"NaN", b"Infinity", b"0x" + b"f" * 5000, b"18446744073709551616", b"1.5"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"0", b'"\\ud800"', b'"\\u0000"', b"\xff\xfe", b"\x00" * 64, b"\xc0\x80"),
    *(b"\xff" * 9, b"\x80" * 9 + b"\x01", b"../" * 20, b"\n", b"\r\n", b" " * 1000, b'"', b"'''", b'"""', b"#", b"="),
]


def mutations(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Variants of some bytes, each with one to four changes."""
    chance = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            _change(changed, chance)
        yield bytes(changed)


def _change(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice([1, 2, 4, 32, 1000]))
    match chance.randrange(8):
        case 0 | 1 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case 2:
            data[at:end] = chance.choice(WORDS)
        case 3:
            data[at:at] = chance.choice(WORDS)
        case 4:
            del data[at:end]
        case 5:
            data[at:at] = data[at:end] * chance.choice([1, 2, 50])
        case 6:
            del data[at:]
        case _:
            data[at:end] = chance.randbytes(end - at)


def faults(
    read: Callable[[bytes], object],
    data: bytes,
    count: int,
    declared: tuple[type[Exception], ...],
    seed: int = 0,
    mebibytes: int = 512,
) -> list[str]:
    """What ``read`` did with mutations of ``data`` that it must not: raise anything undeclared, or take too long."""

    def all_of_them() -> list[str]:
        found = []
        signal.signal(signal.SIGALRM, _too_slow)
        for number, changed in enumerate(mutations(data, count, seed)):
            signal.alarm(SECONDS_EACH)
            try:
                read(changed)
            except declared:
                pass
            except BaseException as fault:
                found.append(f"mutation {number}: {type(fault).__name__}: {str(fault)[:200]}")
            finally:
                signal.alarm(0)
        return found[:20]

    told = bounded(all_of_them, seconds=60 + count, mebibytes=mebibytes)
    return told if isinstance(told, list) else [str(told)]


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"it takes more than {SECONDS_EACH} s")
