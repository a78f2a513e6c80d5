"""Cells: which rounds are summed in them, that they stay, and what makes others of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pytest
from eth_utils import to_checksum_address

from fedgrove.chain.records import Closed, Committed, Drawn, Failed, Position, Released, RoundOpened, Sealed, Withdrawn
from fedgrove.node.masking.parameters import crowd
from fedgrove.node.masking.x_only import point
from fedgrove.node.methods.terms import config_of
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.policy import standstill
from fedgrove.node.protocol.rounds import Member, RoundRecords, Rounds
from fedgrove.node.protocol.terms import MembershipSettings

TABLES = {"model": {"name": "small-mlp", "input_shape": [1, 8, 8], "classes": 10}, "federation": {"repeats": 100}}
MODEL, KEY = b"\x01" * 32, point((1).to_bytes(32))[1:]


def account(client: int) -> str:
    return to_checksum_address(client.to_bytes(20, "big"))


class Ledger:
    """A ledger of n members, made without a chain."""

    def __init__(self, n: int, **masking):
        self.config, _ = config_of({**TABLES, "masking": masking, "ledger": {"max_clients": 1000}})
        self.rounds = Rounds(self.config.ledger.quorum)
        self.blocks = count(10, 10)
        for client in range(1, n + 1):
            self.join(client)
        self.cells = Cells(self.rounds, self.config)

    def join(self, client: int, block: int = 1) -> None:
        self.rounds.members[client] = Member(client, account(client), 0, 0, KEY, 0, registered_at=block)

    def leave(self, client: int, block: int) -> None:
        self.rounds.add(Withdrawn(self.at(block), account(client), client, 0, bytes(32)))

    @staticmethod
    def at(block: int) -> Position:
        return Position(block, block.to_bytes(32, "big"), 0, "")

    def open(self) -> RoundRecords:
        block, number = next(self.blocks), len(self.rounds.rounds) + 1
        model = self.rounds.model_digest if self.rounds.rounds else MODEL
        self.rounds.add(RoundOpened(self.at(block), number, model, bytes(32), 1_000_000, block, block + 1, ()))
        return self.rounds.last

    def hold(self, closes: bool = False, away: Sequence[int] = (), released: int = 99) -> RoundRecords:
        """A round in which all but a few draw and commit, that closes or fails."""
        return self.end(self.seal(away), closes, released=released)

    def seal(self, away: Sequence[int] = ()) -> RoundRecords:
        """A round in which all but a few draw, up to its order."""
        current = self.open()
        number, block = current.number, current.opened.opened_at + 2
        current.order = tuple(client for client in current.able if client not in away)
        for client in current.order:
            current.of(Drawn)[client] = Drawn(self.at(block), number, client, 1, KEY, KEY, bytes(81))
        seed = number.to_bytes(32, "big")
        current.once[Sealed] = Sealed(self.at(block), number, len(current.order), seed, bytes(32))
        return current

    def end(
        self, current: RoundRecords, closes: bool = False, away: Sequence[int] = (), released: int = 99
    ) -> RoundRecords:
        """All but a few that drew commit, and the round closes or fails."""
        number, block = current.number, current.opened.opened_at + 2
        there = [client for client in current.order if client not in away]
        for client in there:
            current.of(Committed)[client] = Committed(self.at(block), number, client, bytes(32), bytes(32))
        for client in there[:released]:
            current.of(Released)[client] = Released(self.at(block), number, client, bytes(32))
        end = Closed(self.at(block + 3), number, number.to_bytes(32, "big"), MODEL) if closes else None
        current.end = end or Failed(self.at(block + 3), number)
        return current


def test_the_jth_spoilt_round_is_followed_by_two_to_the_j_rounds_in_cells():
    ledger = Ledger(20)
    apart = [ledger.hold(closes=False).apart for _ in range(1)]
    apart += [ledger.hold(closes=True).apart for _ in range(3)]
    apart += [ledger.hold(closes=False).apart for _ in range(1) if not ledger.rounds.is_next_apart()]
    apart += [ledger.hold(closes=True).apart for _ in range(5)]
    assert apart == [False, True, True, False, False, True, True, True, True, False]


def test_cells_stay_whoever_is_away_leaves_or_comes():
    ledger = Ledger(24)
    ledger.hold()
    assert ledger.cells.partition(2).cells == ()  # nobody knows them before the order is sealed
    ledger.hold(closes=True, away=(3, 4))
    first = ledger.cells.partition(2)
    assert sorted(client for cell in first.cells for client in cell) == list(range(1, 25))
    ledger.join(25, block=next(ledger.blocks))
    ledger.leave(first.cells[0][0], next(ledger.blocks))
    assert ledger.cells.partition(3).cells == first.cells


def test_all_cells_are_large_enough_to_hide_their_members():
    for n in (8, 12, 20, 50, 100, 300):
        ledger = Ledger(n)
        ledger.hold()
        ledger.hold()
        partition = ledger.cells.partition(2)
        least = crowd(n, ledger.config.masking.assumed)
        assert partition is None if n < 2 * least else min(map(len, partition.cells)) >= least


def test_others_follow_only_where_each_cell_had_enough_and_the_round_fell():
    ledger = Ledger(24)
    ledger.hold()
    current = ledger.seal()
    first = ledger.cells.partition(2)
    ledger.end(current, away=first.cells[0][: len(first.cells[0]) // 2 + 1])  # that cell has no majority left
    assert ledger.cells.partition(3).cells == first.cells
    ledger.hold()
    while not ledger.rounds.is_next_apart():
        ledger.hold()
    again = ledger.cells.partition(len(ledger.rounds.rounds) + 1)
    assert again.number == 1 and again.cells != first.cells


def test_members_that_come_later_go_where_they_cannot_choose_and_do_not_count():
    ledger = Ledger(24)
    ledger.hold()
    ledger.hold(closes=True)
    ledger.join(25, block=next(ledger.blocks))
    current = ledger.hold(closes=True)
    groups = ledger.cells.groups(current)
    assert not any(current.order.index(25) in group.positions for group in groups)  # no order was sealed since it came
    ledger.rounds.members[25] = Member(25, account(25), 0, 0, KEY, 0, registered_at=1)
    (own,) = [group for group in ledger.cells.groups(current) if current.order.index(25) in group.positions]
    assert current.order.index(25) not in own.counted


def test_a_cell_is_summed_twice_from_one_model_and_waits_then_for_the_others():
    """Who spoils its cell while the others lack members stops nobody: those are summed as soon as they are there."""
    ledger = Ledger(24)
    ledger.hold()
    for number in (2, 3, 4):
        current = ledger.seal()
        first = ledger.cells.partition(2)
        away = [client for cell in first.cells[1:] for client in cell[: len(cell) // 2 + 1]]
        ledger.end(current, away=away)
        assert ledger.cells.opened(current) == ({0} if number < 4 else set())
        assert not standstill(ledger.rounds, ledger.config, number + 1)
    current = ledger.hold(closes=True)
    assert ledger.cells.partition(current.number) == first
    assert ledger.cells.opened(current) == set(range(1, len(first.cells)))


@pytest.mark.parametrize("keep", [{3, 4}, set(range(1, 17))], ids=["stays away", "is revoked"])
def test_nobody_makes_cells_smaller(keep):
    """How many hide each other follows from all whom the terms name or who ever registered."""
    ledger = Ledger(24)
    least = crowd(24, ledger.config.masking.assumed)
    for client in set(ledger.rounds.members) - keep if len(keep) > 2 else ():
        ledger.rounds.members[client] = replace(ledger.rounds.members[client], approved=False)
    first = ledger.hold(away=tuple(keep) if len(keep) == 2 else ())
    ledger.hold()
    partition = ledger.cells.partition(2)
    assert ledger.cells.crowd(first) == least
    assert partition is None or min(map(len, partition.cells)) >= least


def test_accounts_that_the_terms_name_count_before_they_register():
    ledger = Ledger(6)
    ledger.config = replace(ledger.config, membership=MembershipSettings(members=tuple(map(account, range(1, 25)))))
    ledger.cells = Cells(ledger.rounds, ledger.config)
    ledger.hold()
    ledger.hold()
    assert ledger.cells.crowd(ledger.rounds.last) == crowd(24, ledger.config.masking.assumed)
    assert ledger.cells.partition(2) is None


def test_members_that_come_later_do_not_make_cells_too_small():
    ledger = Ledger(8)
    ledger.hold()
    ledger.hold(closes=True)
    for client in range(9, 14):
        ledger.join(client, block=next(ledger.blocks))
    while not ledger.rounds.is_next_apart():
        ledger.hold()
    current = ledger.hold(closes=True)
    assert ledger.cells.crowd(current) > ledger.cells.partition(2).least
    assert ledger.cells.partition(current.number) == ledger.cells.partition(2)
    assert len(ledger.cells.opened(current)) == 2


def test_cells_stay_where_one_has_too_few_members_left_and_all_are_too_few_for_others():
    """One that leaves takes its own cell away, not the other one; where no cell is left all are summed in one."""
    ledger = Ledger(8)
    ledger.hold()
    ledger.hold(closes=True)
    first = ledger.cells.partition(2)
    ledger.leave(first.cells[0][0], next(ledger.blocks))
    ledger.hold(closes=True)
    while not ledger.rounds.is_next_apart():
        ledger.hold()
    assert ledger.cells.opened(ledger.hold(closes=True)) == {1}
    ledger.leave(first.cells[1][0], next(ledger.blocks))
    ledger.hold(closes=True)
    assert ledger.cells.partition(len(ledger.rounds.rounds) + 1) is None


@pytest.mark.parametrize("n", [8, 20, 64])
def test_a_spoiler_in_every_cell_brings_the_federation_to_a_standstill(n):
    """From one model all together are opened twice at most, and each partition, and there are few partitions."""
    ledger = Ledger(n)
    for _ in range(60):
        if standstill(ledger.rounds, ledger.config, len(ledger.rounds.rounds) + 1):
            break
        ledger.hold()
    opened = [each for each in ledger.rounds.rounds.values() if Openings(ledger.rounds, ledger.config).was_opened(each)]
    plans = [ledger.cells.partition(each.number) for each in opened]
    summed = [
        (plan.number, cell)
        for each, plan in zip(opened, plans, strict=True)
        if plan
        for cell in ledger.cells.opened(each)
    ]
    assert max(summed.count(cell) for cell in summed) <= 2 and plans.count(None) <= 2
    assert len({plan.number for plan in plans if plan}) <= max(1, n // 8)
    assert "it stands still" in standstill(ledger.rounds, ledger.config, len(ledger.rounds.rounds) + 1)


def test_rounds_in_which_nobody_released_shares_opened_nothing():
    ledger = Ledger(12)
    for _ in range(12):
        ledger.hold(released=0)
    assert not standstill(ledger.rounds, ledger.config, 13)


def test_who_published_shares_counts_the_round_whatever_the_ledger_lists():
    ledger = Ledger(6)  # too few for cells
    for _ in range(2):
        ledger.hold(released=0)
    assert not standstill(ledger.rounds, ledger.config, 3, released=(1,))
    assert "it stands still" in standstill(ledger.rounds, ledger.config, 3, released=(1, 2))


def test_a_model_that_moved_is_opened_anew():
    ledger = Ledger(12)
    ledger.hold()
    for _ in range(8):
        ledger.hold(closes=True)
    assert not standstill(ledger.rounds, ledger.config, 10)
