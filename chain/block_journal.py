"""The blocks that an embedded chain made, in a file from which a later process makes the same blocks again.

The first line holds the time of the chain's genesis, each further line one block. A process that is killed while it
writes leaves half a line, which is dropped: nobody has seen that block.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedgrove.chain.errors import ChainError


@dataclass(frozen=True, slots=True)
class BlockRecipe:
    """What a block is made of again.

    Attributes
    ----------
    time : int
        Seconds since 1970.
    mix : bytes
        The RANDAO mix in its header, 32 bytes.
    transactions : tuple of bytes
        EIP-2718 encodings, in their order.
    """

    time: int
    mix: bytes
    transactions: tuple[bytes, ...]

    def to_line(self) -> str:
        """As one line of JSON."""
        return json.dumps([self.time, self.mix.hex(), [each.hex() for each in self.transactions]]) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "BlockRecipe":
        """Read ``to_line``."""
        time, mix, transactions = json.loads(line)
        return cls(time, bytes.fromhex(mix), tuple(map(bytes.fromhex, transactions)))


class BlockJournal:
    """A file of blocks; one process at a time writes to it.

    Parameters
    ----------
    path : Path
        Made if it is missing.
    now : int
        Time of the genesis of a new chain, in seconds since 1970.

    Raises
    ------
    ChainError
        The file holds something else.
    """

    def __init__(self, path: Path, now: int) -> None:
        self._path = path
        self._file = open(path, "a+", encoding="ascii")  # noqa: SIM115 - as long as the object
        self._file.truncate(self._whole())
        try:
            self.genesis = self._begin(now)
        except (ValueError, TypeError):
            raise self._foreign() from None

    def recipes(self) -> Iterator[BlockRecipe]:
        """The blocks after the genesis. Raises ChainError where a line is none."""
        with open(self._path, encoding="ascii") as lines:
            next(lines)
            for line in lines:
                try:
                    yield BlockRecipe.from_line(line)
                except (ValueError, TypeError):
                    raise self._foreign() from None

    def append(self, recipe: BlockRecipe) -> None:
        """Add a block, for processes to come."""
        self._write(recipe.to_line())

    def close(self) -> None:
        """Free the file."""
        self._file.close()

    def _whole(self) -> int:
        """Bytes up to the end of the last line that was written to its end."""
        return self._path.read_bytes().rfind(b"\n") + 1

    def _begin(self, now: int) -> int:
        self._file.seek(0)
        first = self._file.readline()
        if not first:
            self._write(f"{now}\n")
        return int(first or now)

    def _write(self, line: str) -> None:
        self._file.write(line)
        self._file.flush()

    def _foreign(self) -> ChainError:
        return ChainError(f"{self._path} does not hold an embedded chain's blocks: remove it to begin another chain.")
