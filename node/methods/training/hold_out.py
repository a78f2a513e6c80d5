"""The samples that a member holds out, remembered in its journal."""

from typing import Protocol

from fedgrove.chain.crypto.keys import Keys
from fedgrove.node.learning.held_out import MARK_BYTES, HoldOutRule
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.method import Workplace
from fedgrove.node.protocol.terms import FederationConfig

KEPT = "held_out"
"""Name of what the journal keeps: the secret, and the boundary of what was ever held out."""

_PURPOSE = b"fedgrove held-out samples 1"


class HoldsOut(Protocol):
    """Which samples are held out, by a rule that lasts."""

    rule: HoldOutRule

    def remember(self, boundary: bytes) -> None:
        """Take note of the boundary before a model is trained, or evaluated, by it."""
        ...


class HoldOut:
    """A member's rule, from its journal; in its first round the secret follows from its keys.

    So a member whose journal was lost still holds out the same samples.
    """

    def __init__(self, journal: Journal, keys: Keys, millionths: int) -> None:
        self._journal = journal
        kept = journal.kept(KEPT)
        if kept is None:
            kept = keys.derived(_PURPOSE)
            journal.keep(KEPT, kept)
        if len(kept) not in (MARK_BYTES, 2 * MARK_BYTES):
            raise JournalDamaged(f"the journal's {KEPT} cannot be read: it says which samples are never trained on")
        self.rule = HoldOutRule(kept[:MARK_BYTES], millionths, kept[MARK_BYTES:])

    def remember(self, boundary: bytes) -> None:
        """Have the boundary in the journal before a model is trained, or evaluated, by it."""
        if boundary > self.rule.boundary:
            self._journal.keep(KEPT, self.rule.secret + boundary)
            self.rule = HoldOutRule(self.rule.secret, self.rule.millionths, boundary)


def hold_out_of(config: FederationConfig, workplace: Workplace) -> HoldOut | None:
    """The rule of the member that works there; None where the terms ask for no evaluation."""
    if config.evaluation is None:
        return None
    return HoldOut(workplace.journal, workplace.keys, config.evaluation.millionths)
