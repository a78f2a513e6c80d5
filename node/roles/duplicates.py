"""Two processes that act with one keystore, each with a journal of its own: found on the ledger, and one of them ended.

The lock on a directory keeps two processes out of the same journal, but not out of two. Both then draw with secrets of
their own, and neither can use what the ledger has of the other: rounds are lost, and shares of two kinds let go of. A
record of the account that this journal did not make, and that came while this process was there, is the other's.

Whose journal made the account's first draw was there first. The other one ends as soon as it sees that somebody else
acts. The first one says so and goes on; but it ends, too, where a second round shows that the other one stays: its
journal is then a copy. A process whose journal is new, though the account has drawn before, draws in none of the round
that it finds, so that it sees the other one act first.
"""

from contextlib import suppress

from fedgrove.chain.records import Committed, Drawn, Released, Shared
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

_BEGUN = "begun"
_BLOBS = {"share": "shares", "commit": "masked", "release": "released"}


class Duplicates:
    """Looks for records of this account that its journal did not make.

    Parameters
    ----------
    journal : Journal
        What this process has made.

    Attributes
    ----------
    alarm : str
        What was seen of another process, in one sentence; empty when nothing was.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._since = -1
        self._watched = self._own = 0
        self._looked = 0
        self._known: set[tuple[int, str]] = set()
        self._met: set[int] = set()
        self.alarm = ""

    def look(self, rounds: Rounds, client: int, block: int) -> None:
        """Look at what the ledger has of this client; before what the journal has of past rounds is destroyed.

        Raises
        ------
        AlreadyInUse
        """
        if self._since < 0:
            self._since, latest = block, rounds.latest
            with suppress(JournalDamaged):
                self._own = self._journal.newest_round()
            self._watched = latest.number + (latest.end is not None) if latest else 0
        for each in rounds.rounds.values():
            if each.number >= self._looked:
                with suppress(JournalDamaged):  # it cannot be told who made it
                    self._look_at(rounds, each, client)
        self._looked = rounds.latest.number if rounds.latest else 0

    def waiting(self, rounds: Rounds, client: int, number: int) -> str:
        """Why it does not draw in a round yet, in one clause; empty when it may."""
        if number > self._watched or self._begun() is not None or _first_draw(rounds, client) is None:
            return ""
        return "its journal is new, and another process may use the previous one: it waits a round to find out"

    def _look_at(self, rounds: Rounds, current: RoundRecords, client: int) -> None:
        groups = {
            "draw": current.draws,
            "share": current.shares,
            "commit": current.commits,
            "release": current.releases,
        }
        for kind, records in groups.items():
            record = records.get(client)
            if record is None or (current.number, kind) in self._known:
                continue
            if self._made(current.number, kind, record):
                self._begin(current.number)
            elif record.at.block > self._since and not self._is_past(current.number):
                self._meet(rounds, current.number, client, kind, record.at.block)
            self._known.add((current.number, kind))

    def _is_past(self, number: int) -> bool:
        """Whether what this journal made in a round may be destroyed: a node that is behind shows it as new."""
        return number < self._own or (number == self._own and self._journal.note(number) is None)

    def _made(self, number: int, kind: str, record: Drawn | Shared | Committed | Released) -> bool:
        """Whether this journal made a record; what it made and lost is its own, too."""
        note = self._journal.note(number)
        if note is None:
            return False
        if isinstance(record, Drawn):
            return RoundSecrets.from_bytes(bytes.fromhex(note.secrets)).mask_key == record.mask_key
        blob = self._journal.read(number, _BLOBS[kind])
        return cid_of(blob).digest == record.digest if blob is not None else _BLOBS[kind] in note.made.split()

    def _meet(self, rounds: Rounds, number: int, client: int, kind: str, block: int) -> None:
        self._met.add(number)
        seen = (
            f"another process uses this keystore: the {kind} of client {client} in round {number} (block {block}) "
            "is on the ledger but not from this journal"
        )
        first = self._begun() is not None and self._begun() == _first_draw(rounds, client)
        if not first:
            raise AlreadyInUse(f"{seen}; the other process was first, so this one ends: run one process per keystore")
        if len(self._met) > 1:
            raise AlreadyInUse(
                f"{seen}; it continues, so this process ends: stop the other one and run one process per keystore"
            )
        self.alarm = f"{seen}; stop it: run one process per keystore"

    def _begin(self, number: int) -> None:
        """Remember the first round that this journal drew in."""
        if self._begun() is None:
            self._journal.keep(_BEGUN, str(number).encode())

    def _begun(self) -> int | None:
        kept = self._journal.kept(_BEGUN)
        return int(kept) if kept is not None and kept.isdigit() else None


def _first_draw(rounds: Rounds, client: int) -> int | None:
    """The first round that an account drew in."""
    return next((each.number for each in rounds.rounds.values() if client in each.draws), None)
