"""What of a live history is audited now, and when the watch is over."""

from collections import deque
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from eth_utils import to_checksum_address

from fedgrove.chain.records import Closed, Position, RoundOpened, Voided
from fedgrove.chain.records.deployment import Deployment, LedgerSettings, Terms
from fedgrove.node.audit.follow import Follower
from fedgrove.node.audit.verdict import Verdict

ACCOUNT = to_checksum_address("0x" + "5f" * 20)
DEPLOYMENT = Deployment(
    7, *2 * [ACCOUNT], 1, *3 * [ACCOUNT], "open", (), 1, LedgerSettings(), Terms("ab" * 32, "cd" * 32, rounds=2)
)


def at(block: int) -> Position:
    return Position(block, bytes(32), 0)


def opened(number: int, block: int) -> RoundOpened:
    return RoundOpened(at(block), number, bytes(32), bytes(32), 1_000_000, block, block + 2, ())


class Audited:
    """In place of an auditor: it keeps what it is given, and its answers are set."""

    def __init__(self, held: bool = False, exhausted: bool = False, ending: bool = False) -> None:
        self.records, self.rounds = deque(), SimpleNamespace(all_held=lambda rounds, repeats: held)
        self.exhausted, self.ending = (lambda: exhausted), (lambda: ending)

    def add(self, records, block):
        self.records += records

    def run(self) -> Verdict:
        return Verdict("verified")


def follower(records, auditor: Audited) -> Follower:
    index = SimpleNamespace(head=100, records=lambda: records, block_hash=bytes, randomness=bytes, head_hash=bytes(32))
    with patch("fedgrove.node.audit.follow.index_of", lambda network, deployment: index):
        found = Follower(None, DEPLOYMENT, None)
    found._auditor = auditor
    return found


def test_a_voiding_of_the_round_before_does_not_end_the_one_that_runs():
    closed, voided = Closed(at(20), 1, bytes(32), bytes(32)), Voided(at(31), 1, bytes(32))
    records, auditor = [opened(1, 10), closed, opened(2, 30), voided], Audited()
    assert follower(records, auditor).look() is None
    assert list(auditor.records) == records[:2]


@pytest.mark.parametrize("answers", [{"held": True}, {"exhausted": True}, {"ending": True}])
def test_the_watch_is_over_when_all_rounds_were_held_or_no_other_can_follow(answers):
    records = [opened(1, 10), Closed(at(20), 1, bytes(32), bytes(32))]
    assert follower(records, Audited(**answers)).look() == Verdict("verified")
    assert follower(records, Audited()).look() is None
