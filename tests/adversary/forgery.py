"""One thing that a forger tries with a kept run."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fedgrove.ipfs.unixfs import cid_of
from tests.adversary.forging import Place, Tape
from tests.adversary.kept_runs import Kept

LIMIT = 1 << 26


@dataclass
class Draft:
    """A run that is being forged: its tape, blobs to publish, and what to make of the report."""

    kept: Kept
    tape: Tape
    blobs: list[bytes] = field(default_factory=list)
    report: Callable[[dict], None] = lambda report: None

    def put(self, blob: bytes) -> bytes:
        """Publish a blob; its digest."""
        self.blobs.append(blob)
        return cid_of(blob).digest


@dataclass(frozen=True)
class Forgery:
    """One thing to try.

    ``hides`` says that it leaves out records, or changes what nobody signs (blocks, gas, times): at the end of a
    history, behind the last block that a closing names, only a published head shows that.
    """

    name: str
    edit: Callable[[Draft], None]
    hides: bool = False


def samples(tape: Tape) -> list[Place]:
    """The last record of each kind, in the order of the chain."""
    last = {type(place.record): place for place in tape.places()}
    return sorted(last.values(), key=lambda place: (place.block, place.call, place.log))
