"""The outcome of an audit."""

from dataclasses import asdict, dataclass
from typing import Literal

from fedgrove.common.errors import Error
from fedgrove.node.protocol.bad_record import BadRecord
from fedgrove.node.protocol.spending import Spent
from fedgrove.node.protocol.terms import Continues


class CannotTell(Error):
    """The audit cannot be finished: chain or store cannot be reached."""


Word = Literal["verified", "consistent, no round closed", "bad record", "cannot tell"]
VERIFIED: Word = "verified"
NONE_CLOSED: Word = "consistent, no round closed"
_EXIT_CODES: dict[Word, int] = {VERIFIED: 0, NONE_CLOSED: 2, "bad record": 1, "cannot tell": 2}


@dataclass(frozen=True)
class Predecessor:
    """The result of an earlier federation that a history continues from.

    Attributes
    ----------
    continues : Continues
        Where it is on record, as the terms say.
    model : str
        Digest of the model, hexadecimal.
    verified : bool
        The earlier history says the same, and is right up to there; False: nobody looked.
    """

    continues: Continues
    model: str
    verified: bool = False

    def __str__(self) -> str:
        return f"continues {self.continues} ({'verified' if self.verified else 'not looked at'})"


@dataclass(frozen=True)
class Verdict:
    """Result of an audit.

    Attributes
    ----------
    verdict : str
        ``verified``, ``bad record`` or ``cannot tell``; ``consistent, no round closed`` where nothing is wrong and
        there is no model to verify.
    first_bad_record : BadRecord or None
        The first record that is wrong, in the order of the ledger.
    reason : str
        Why nothing can be told, when nothing can.
    rounds, records : int
        How much was checked.
    head_block, head_hash : int, str
        The block the history ends with.
    pinned : tuple of str
        What was compared with what the auditor knows from elsewhere, a clause each.
    vouched : tuple of str
        Who vouches for the history by a signature over it, and up to where, a clause each.
    unpinned : str
        What was not, and what that leaves open, in one clause.
    remarks : tuple of BadRecord
        Misbehaviour of members that the protocol absorbed; the models are right nevertheless.
    caveats : tuple of str
        What a reader of ``verified`` might take for granted, and must not, a clause each.
    before : Predecessor or None
        What the federation continues from; None where it begins with a model of its own, or no round was opened.
    privacy : Spent or None
        What was spent of the privacy budget up to the last closed round; None without a mechanism.
    practice : bool
        By its terms or its chain the federation is for practice: nobody relies on it.
    """

    verdict: Word
    first_bad_record: BadRecord | None = None
    reason: str = ""
    rounds: int = 0
    records: int = 0
    head_block: int = 0
    head_hash: str = ""
    pinned: tuple[str, ...] = ()
    vouched: tuple[str, ...] = ()
    unpinned: str = ""
    remarks: tuple[BadRecord, ...] = ()
    before: Predecessor | None = None
    privacy: Spent | None = None
    caveats: tuple[str, ...] = ()
    practice: bool = False

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.verdict]

    @property
    def holds(self) -> bool:
        """Everything was checked, and no record is bad."""
        return self.verdict in (VERIFIED, NONE_CLOSED)

    @property
    def word(self) -> str:
        """The verdict as people read it."""
        return f"{self.verdict} (practice)" if self.practice and self.verdict == VERIFIED else self.verdict

    def entry(self) -> dict:
        """What ``report.json`` says of it."""
        bad = self.first_bad_record
        return {"verdict": self.verdict, "practice": self.practice, "first_bad_record": str(bad) if bad else None}

    def to_dict(self) -> dict:
        """A JSON-ready form."""
        return asdict(self)
