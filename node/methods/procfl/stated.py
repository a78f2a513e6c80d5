"""The coordinator's statement on a round with clusters: the values that nobody else can compute.

It counts overlaps, as only it can open the answers, and tests models on a public set, as an auditor has no torch. All
that follows from both, everybody computes alike (``node.methods.procfl.course``). It signs what it states: who closes a
round in its place can state nothing.
"""

from typing import Any

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import Count, Malformed, OptionalSignature, Table, canonical_json, convert

_STATEMENT = b"fedgrove statement 1"

Counts = tuple[Count, ...]
"""Samples, or right answers, of each label."""


class Stated(Table, frozen=True, omit_defaults=False):
    """A statement. Fields that a round does not call for are empty.

    Attributes
    ----------
    overlaps : tuple of Counts
        |χₙ ∩ χₘ|, in the order of the clients that answered, sizes on the diagonal.
    right : tuple of Counts
        How many of the public samples of each label each model gets right.
    tested : Counts
        How many public samples of each label there are.
    signature : str
        Of ``message``, by the account that the terms name (``procfl.signer``), hexadecimal; empty until it is signed.
    """

    overlaps: tuple[Counts, ...] = ()
    right: tuple[Counts, ...] = ()
    tested: Counts = ()
    signature: OptionalSignature = ""

    def message(self, state: bytes) -> bytes:
        """The signed bytes.

        Parameters
        ----------
        state : bytes
            Digest of the state that this is stated of, 32 bytes. It names the federation by its comparisons.
        """
        return _STATEMENT + state + self.replace(signature="").to_bytes()

    @classmethod
    def of(cls, table: Any) -> "Stated | None":
        """The statement in a round's metrics, or None; raises InvalidContent as ``from_table``."""
        return None if table is None else cls.from_table(table)

    @classmethod
    def from_table(cls, table: Any) -> "Stated":
        """Read what ``to_table`` wrote; InvalidContent for anything else.

        Rows of a table have one length, as many as there are rows where all pairs are stated: whoever reads an element
        finds it.
        """
        try:
            stated = convert(cls, table)
        except Malformed as fault:
            raise InvalidContent(f"the statement on the clusters is not in its JSON form: {fault}") from None
        if not _is_whole(stated) or stated.to_bytes() != canonical_json(table):
            raise InvalidContent("the statement on the clusters is not in its JSON form")
        return stated

    def check_models(self, models: int, labels: int) -> None:
        """Raise InvalidContent unless it scores this many models on samples of this many labels."""
        rows = (self.tested, *self.right)
        fine = len(self.right) == models and all(len(row) == labels for row in rows) and any(self.tested)
        if not fine or any(n > most for row in self.right for n, most in zip(row, self.tested, strict=True)):
            raise InvalidContent(f"it does not state how {models} models score on public samples of {labels} labels")


def _is_whole(stated: Stated) -> bool:
    """Whether no row is shorter than another: the matrix of pairs is square, and models were tested on one set."""
    pairs, tested = len(stated.overlaps), len(stated.tested)
    return all(len(row) == pairs for row in stated.overlaps) and all(len(row) == tested for row in stated.right)
