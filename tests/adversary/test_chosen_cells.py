"""Members that choose who is summed together: they spoil rounds at the right moment, stay away, or are admitted late.

After a round that somebody spoilt members are summed in cells. Whoever knew the next cells while it can still spoil the
round would wait for those that suit it: colluders around one victim, whose update is then the sum less their own, or a
colluder in each cell, so that nothing can be summed any more. Others would make cells small, by members that have not
registered or that an admin revokes, or fill one with newcomers. What stops them: cells follow from the order of the
round in which they are first used, which nobody knows when it opens; their size follows from everybody who could be a
member; what counts as opened is a cell, not all of them.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from eth_utils import keccak, to_canonical_address, to_checksum_address

from fedgrove.chain.records import Sealed
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, crowd, with_dropouts
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.policy import standstill
from fedgrove.node.protocol.rounds import Member, RoundRecords
from fedgrove.node.protocol.terms import MembershipSettings
from tests.node.protocol.test_cells import KEY, Ledger, account

FEDERATIONS = 20
A, B = COLLUDERS = (1, 2)
Cut = list[tuple[int, ...]]


class Play(Ledger):
    """A federation whose orders are random, by a seed; members act as they are told."""

    def __init__(self, n: int, seed: int, named: int = 0):
        super().__init__(n)
        members = tuple(map(account, range(1, named + 1)))
        self.config = replace(self.config, membership=MembershipSettings(members=members))
        self.cells = Cells(self.rounds, self.config)
        self.random = np.random.default_rng([seed, n])

    def seal(self, away: Collection[int] = ()) -> RoundRecords:
        current = super().seal(tuple(away))
        assert current.sealed is not None
        current.once[Sealed] = replace(current.sealed, order_seed=self.random.bytes(32))
        return current

    def play(self, current: RoundRecords, spoilers: Collection[int]) -> list[frozenset[int]]:
        """End a sealed round, in which some spoil each sum that they are in; the members of each sum that is opened."""
        sums = self.sums(current)
        return sums if self.end(current, closes=any(not each & set(spoilers) for each in sums)) else []

    def sums(self, current: RoundRecords) -> list[frozenset[int]]:
        """Who is in each sum if all who drew commit."""
        groups = self.cells.groups(current)
        if not groups:
            return [frozenset(current.order)]
        everybody = range(len(current.order))
        return [
            frozenset(current.order[at] for at in group.positions)
            for group in groups
            if len(set(group.counted) & set(everybody)) >= group.quota
        ]

    @property
    def stands_still(self) -> bool:
        return bool(standstill(self.rounds, self.config, len(self.rounds.rounds) + 1))


def cut_by(seed: bytes, members: Collection[int], n: int, number: int = 0) -> Cut:
    """The cells of these members of a federation of n, as a seed cuts them; empty where they are too few."""
    places = keccak(seed + number.to_bytes(32, "big"))
    ordered = sorted(members, key=lambda client: keccak(places + to_canonical_address(account(client))))
    return [tuple(ordered[first:end]) for first, end in pairwise(bounds(len(ordered), n))]


def bounds(size: int, n: int) -> list[int]:
    """Where the cells of so many of n members begin and end."""
    least = crowd(n, DEFAULT_ASSUMED)
    cells = max(size // with_dropouts(least, DEFAULT_ASSUMED), min(2, size // least))
    return [place * size // cells for place in range(cells + 1)] if cells > 1 else []


def surrounded(sums: Collection[Collection[int]], colluders: Collection[int]) -> bool:
    """Whether one honest member's update is a sum less what colluders put into it."""
    return any(len(set(each) - set(colluders)) == 1 for each in sums)


# --- the guards, and the product without them -------------------------------------------------------------------------

Guard = Callable[[pytest.MonkeyPatch], None]


def without_the_rounds_own_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are cut by the order before, which all know when they may still spoil that round."""
    honestly = Cells._cut

    def earlier(self: Cells, current: RoundRecords | None, partition: int):
        if current is None or current.sealed is None:
            return honestly(self, current, partition)
        before = self.rounds.rounds[current.number - 1].sealed
        return honestly(self, replace(current, once={**current.once, Sealed: before}), partition)

    monkeypatch.setattr(Cells, "_cut", earlier)


def without_those_who_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many hide each other follows from who is a member now."""
    honestly = Cells._cut

    def now(self: Cells, current: RoundRecords | None, partition: int):
        config = replace(self.config, membership=MembershipSettings())
        there = replace(current, registered=len(current.known)) if current is not None else None
        return honestly(replace(self, config=config), there, partition)

    monkeypatch.setattr(Cells, "_cut", now)


def without_counting_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that was not summed counts as opened where another one of its round was."""
    honestly = Cells._opened
    monkeypatch.setattr(Cells, "_opened", lambda *asked: frozenset(range(len(asked[-1]) if honestly(*asked) else 0)))


# --- two members, while two others have not registered yet ------------------------------------------------------------


def wait_for_a_victim(seed: int) -> bool:
    """Six of eight are there, and two of them spoil the round whose order would put them and one victim together."""
    play = Play(6, seed, named=8)
    for _ in range(8):
        current = play.seal()
        suits = not current.apart and surrounded(cut_by(current.sealed.order_seed, range(1, 7), n=6), COLLUDERS)
        if surrounded(play.play(current, {A} if suits else ()), COLLUDERS):
            return True
    return False


def test_two_members_read_nobody_while_others_have_not_registered():
    assert not any(map(wait_for_a_victim, range(FEDERATIONS)))


@pytest.mark.mutants
@pytest.mark.parametrize(
    "guards, least",
    [
        ((without_those_who_are_not_there,), FEDERATIONS // 4),  # by chance
        ((without_those_who_are_not_there, without_the_rounds_own_seed), FEDERATIONS - 2),
    ],
)
def test_two_members_read_a_victim_in_small_cells(monkeypatch, guards: tuple[Guard, ...], least: int):
    for guard in guards:
        guard(monkeypatch)
    assert sum(map(wait_for_a_victim, range(FEDERATIONS))) >= least


# --- two members, and an admin that revokes two others ----------------------------------------------------------------


def revoke_the_right_ones(seed: int) -> bool:
    """Two of eight spoil a round after whose order the admin can revoke two others so that one is left with them."""
    play = Play(8, seed)
    for _ in range(6):
        current = play.seal()
        found = next(fitting(current), ()) if not current.apart else ()
        play.play(current, {A} if found else ())
        for client in found:
            play.rounds.members[client] = replace(play.rounds.members[client], approved=False)
        if found:
            return surrounded(play.play(play.seal(), ()), COLLUDERS)
    return False


def fitting(current: RoundRecords) -> Iterator[tuple[int, int]]:
    """Pairs of honest members without whom the order's cells would be such."""
    for gone in combinations(range(3, 9), 2):
        rest = [client for client in range(1, 9) if client not in gone]
        if surrounded(cut_by(current.sealed.order_seed, rest, n=6), COLLUDERS):
            yield gone


def test_an_admin_and_two_members_read_nobody():
    assert not any(map(revoke_the_right_ones, range(FEDERATIONS)))


@pytest.mark.mutants
def test_an_admin_and_two_members_read_a_victim_in_small_cells(monkeypatch):
    without_those_who_are_not_there(monkeypatch)
    without_the_rounds_own_seed(monkeypatch)
    assert all(map(revoke_the_right_ones, range(FEDERATIONS)))


# --- an admin with newcomers of its own -------------------------------------------------------------------------------

HONEST = 300


def surround_by_newcomers(seed: int) -> tuple[set[int], bool]:
    """Newcomers stand behind the member that a cell begins with, by the order that is known.

    Returns that cell's honest members, and whether the attacker meant it to be such.
    """
    play = Play(HONEST, seed)
    current = play.seal()
    play.play(current, {A})
    places = keccak(current.sealed.order_seed + bytes(32))

    def place(address: str) -> bytes:
        return keccak(places + to_canonical_address(address))

    first, more = newcomers()
    (low, victim), (high, _) = sorted((place(account(client)), client) for client in range(1, HONEST + 1))[
        first : first + 2
    ]
    while len(play.rounds.members) < HONEST + more:
        address = to_checksum_address(play.random.bytes(20))
        if low < place(address) < high:
            number = len(play.rounds.members) + 1
            play.rounds.members[number] = Member(number, address, 0, 0, KEY, 0, registered_at=1)
    (cell,) = [each for each in play.play(play.seal(), ()) if victim in each]
    honest = {client for client in cell if client <= HONEST}
    return honest, honest == {victim}


def newcomers() -> tuple[int, int]:
    """The place at which a cell begins that the fewest newcomers fill but for one member, and how many they are."""
    for more in range(1, HONEST):
        for first, end in pairwise(bounds(HONEST + more, HONEST + more)):
            if end - first - 1 <= more:
                return first, more
    raise AssertionError("no number of newcomers suffices")


def test_newcomers_surround_nobody():
    """They are a fifth of all; each cell keeps about its share of honest members."""
    assert newcomers()[1] < 0.25 * HONEST
    for seed in range(3):
        honest, won = surround_by_newcomers(seed)
        assert not won and len(honest) > crowd(HONEST, DEFAULT_ASSUMED) / 2


@pytest.mark.mutants
def test_newcomers_surround_a_member_whose_place_is_known(monkeypatch):
    without_the_rounds_own_seed(monkeypatch)
    assert all(surround_by_newcomers(seed)[1] for seed in range(3))


# --- one spoiler, and honest members that are away now and then -------------------------------------------------------


def stop_alone(n: int, seed: int, rounds: int = 40, absence: float = 0.12) -> bool:
    """One member spoils where no other cell has enough members: its own is then opened, and no model follows."""
    play = Play(n, seed)
    while len(play.rounds.rounds) < rounds and not play.stands_still:
        away = [client for client in range(2, n + 1) if play.random.random() < absence]
        if n - len(away) < play.config.ledger.quorum:
            continue
        current = play.seal(away)
        play.play(current, {A} if all(A in each for each in play.sums(current)) else ())
    return play.stands_still


@pytest.mark.parametrize("n", [8, 12])
def test_one_spoiler_stops_nobody_who_is_away_now_and_then(n):
    assert not any(stop_alone(n, seed) for seed in range(4))


@pytest.mark.mutants
@pytest.mark.parametrize("n", [8, 12])
def test_one_spoiler_stops_a_federation_whose_cells_count_together(monkeypatch, n):
    without_counting_by_cell(monkeypatch)
    assert sum(stop_alone(n, seed) for seed in range(4)) >= 2


# --- one spoiler, and honest members that come later ------------------------------------------------------------------


def stop_those_who_come(seed: int) -> bool:
    """One of eight spoils each sum that it is in, and two more register once cells are cut."""
    play = Play(8, seed)
    for number in range(1, 31):
        if play.stands_still:
            return True
        if number == 3:
            for client in (9, 10):
                play.join(client, block=next(play.blocks))
        play.play(play.seal(), {A})
    return False


def test_one_spoiler_stops_nobody_who_comes_later():
    assert not any(map(stop_those_who_come, range(4)))


@pytest.mark.mutants
def test_one_spoiler_stops_a_federation_whose_cells_grow_too_small(monkeypatch):
    """The mutant: as many are summed together as hide each other now, not when cells were cut."""
    honestly = Cells._groups

    def by_now(self: Cells, current: RoundRecords, partition, tired):
        return honestly(self, current, replace(partition, least=self.crowd(current)), tired)

    monkeypatch.setattr(Cells, "_groups", by_now)
    monkeypatch.setattr(Cells, "_small", small)
    assert all(map(stop_those_who_come, range(4)))


def small(cells: Cells, current: RoundRecords, partition) -> frozenset[int]:
    return frozenset(at for at, cell in enumerate(partition.cells) if len(cell) < cells.crowd(current))


# --- two spoilers with a plan -----------------------------------------------------------------------------------------

Plan = Callable[["Play", RoundRecords, set[int]], Collection[int]]


def always(play: Play, current: RoundRecords, colluders: set[int]) -> Collection[int]:
    """No plan: both spoil each round."""
    return colluders


def foreseeing(play: Play, current: RoundRecords, colluders: set[int]) -> Collection[int]:
    """They spoil a round only if the next cells, were they cut by its order, part them."""
    numbers = [each.number for each in play.cells.partitions(current.number).values() if each is not None]
    following = max(numbers, default=-1) + 1
    if current.apart and following == Openings(play.rounds, play.config).most_partitions(current.number):
        return parted(play, current, colluders)
    cut = cut_by(current.sealed.order_seed, range(1, len(play.rounds.members) + 1), len(play.rounds.members), following)
    parts = bool(cut) and all(colluders & set(cell) for cell in cut)
    return (parted(play, current, colluders) if current.apart else colluders) if parts else ()


def parted(play: Play, current: RoundRecords, colluders: set[int]) -> Collection[int]:
    """They spoil rounds of all, and in cells where each sum has one of them."""
    return colluders if all(colluders & each for each in play.sums(current)) else ()


def leaving(play: Play, current: RoundRecords, colluders: set[int]) -> Collection[int]:
    """As ``parted``; and where cells do not part them one leaves, so that its cell has too few and others are cut."""
    spoilers = {client for client in colluders if not play.rounds.left(client)}
    found = parted(play, current, spoilers)
    if not found and len(spoilers) > 1:
        play.leave(min(spoilers), next(play.blocks))
    return found


def stopped(n: int, plan: Plan) -> int:
    """How many federations two members bring to a standstill."""
    return sum(stop_together(n, seed, plan) for seed in range(FEDERATIONS))


def stop_together(n: int, seed: int, plan: Plan) -> bool:
    play = Play(n, seed)
    colluders = set(map(int, play.random.choice(n, 2, replace=False) + 1))
    while len(play.rounds.rounds) < 30 and not play.stands_still:
        current = play.seal()
        play.play(current, plan(play, current, colluders))
    return play.stands_still


@pytest.mark.parametrize("n", [8, 20])
@pytest.mark.parametrize("plan", [foreseeing, parted, leaving])
def test_a_plan_gains_two_spoilers_nothing(n, plan):
    """What stops a federation is chance: whether each of its few cuts parts the two; other rounds, other chances."""
    assert stopped(n, plan) <= stopped(n, always) + 2
    assert stopped(n, always) <= FEDERATIONS // 2


@pytest.mark.mutants
def test_two_spoilers_that_know_the_next_cells_stop_nearly_every_federation(monkeypatch):
    without_the_rounds_own_seed(monkeypatch)
    assert stopped(8, foreseeing) >= FEDERATIONS - 2
    assert stopped(20, foreseeing) >= 15


@pytest.mark.mutants
def test_who_leaves_takes_the_cells_of_eight_away_where_those_of_the_others_go_with_its_own(monkeypatch):
    honestly = Cells._small

    def all_or_none(self: Cells, current: RoundRecords, partition) -> frozenset[int]:
        return frozenset(range(len(partition.cells)) if honestly(self, current, partition) else ())

    monkeypatch.setattr(Cells, "_small", all_or_none)
    assert stopped(8, leaving) >= FEDERATIONS - 2
