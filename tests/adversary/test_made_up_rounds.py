"""What colluders can do over many rounds, played on rounds that are made without a chain.

Each entry of the table is an attack by members, a coordinator or an admin on what the ledger lists, and the guard that
stops it: with the guard taken out the same attack wins. What is summed, confirmed or refused is asked of the product.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import sqrt
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.records import Judged, Phase, Resumed, Revoked, VrfKeyRotated
from fedgrove.node.masking import survivors
from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.parameters import crowd
from fedgrove.node.methods.kmeans import round_inputs as kmeans_inputs
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.procfl import round_inputs as cluster_inputs
from fedgrove.node.methods.terms import config_of, method_of
from fedgrove.node.protocol import cells, policy
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings, MembershipSettings
from fedgrove.node.roles.client.concluding import ReleaseShares
from tests.adversary.test_isolation import rounds_of, terms
from tests.node.protocol.test_cells import KEY, TABLES, Ledger, account

ROUNDS = 105
NOWHERE = "0x" + 40 * "0"


def sums(ledger: Ledger, current: RoundRecords) -> Iterator[frozenset[int]]:
    """The clients of each sum of updates that the round's releases open."""
    groups, least = ledger.cells.groups(current), ledger.cells.crowd(current)
    graph = current.graph(0, NOWHERE, ledger.config.masking, groups, least)
    for group in survivors.summed_groups(graph, current.positions(current.commits)):
        if group:
            yield frozenset(current.order[position] for position in group)


def rows(opened: set[frozenset[int]], honest: list[int]) -> np.ndarray:
    """The sums, less what the spoilers sent: a row each, of ones and zeros over the honest members."""
    return np.array([[float(client in each) for client in honest] for each in opened])


def spoils_every_round(n: int, spoilers: int = 2) -> bool:
    """Spoilers make each round fail behind its releases, so that others of the same updates are summed next.

    They win where they open more sums than the partitions have, or read half of what is a member's own in its update:
    the correlation of what they read best with what it sends beside what all send, over all honest members.
    """
    ledger, opened, partitions = Ledger(n), set(), {}
    honest = list(range(spoilers + 1, n + 1))
    for number in range(1, ROUNDS + 1):
        if policy.standstill(ledger.rounds, ledger.config, number):
            break
        current = ledger.hold()
        opened |= set(sums(ledger, current))
        found = ledger.cells.partition(number)
        if found is not None:
            partitions[found.number] = len(found.cells)
        most = max(1, n // 8)
        rank = np.linalg.matrix_rank(rows(opened, honest))
        own = sqrt((rank - 1) / (len(honest) - 1))
        if own >= 0.5 or rank > 1 + most * (max(partitions.values(), default=1) - 1):
            return True
    return False


def sums_metrics_again(n: int) -> bool:
    """A spoiler in every cell, and one more round without some member: metrics say the same each time."""
    ledger, opened = Ledger(n), set()
    openings = Openings(ledger.rounds, ledger.config)
    honest = list(range(3, n + 1))
    for number in range(1, ROUNDS + 1):
        if policy.standstill(ledger.rounds, ledger.config, number):
            break
        current = ledger.hold(away=(honest[0],) if number == 4 else ())
        if not openings.are_repeated(current):
            opened |= set(sums(ledger, current))
    found = rows(opened, honest)
    kept = found.T @ np.linalg.pinv(found.T)
    return bool(np.isclose(np.diag(kept), 1).any())


def chooses_its_cell(change: Callable[[Ledger, int], None]) -> bool:
    """Two spoilers do something just before rounds are summed in cells, to stand in a cell of their choice."""
    there = set()
    for doing in (lambda *_: None, change):
        ledger = Ledger(24)
        ledger.hold(closes=True)
        ledger.hold()
        for client in (1, 2):
            doing(ledger, client)
        ledger.hold(closes=True)
        there.add(ledger.cells.partition(3).cells)
    return len(there) > 1


def rotates(ledger: Ledger, client: int) -> None:
    block = next(ledger.blocks)
    ledger.rounds.add(VrfKeyRotated(ledger.at(block), account(client), client, 0, 0, block + 1000, b""))


def returns(ledger: Ledger, client: int) -> None:
    block = next(ledger.blocks)
    ledger.rounds.add(Resumed(ledger.at(block), account(client), client, block + 1000))


def registers_late() -> bool:
    """Spoilers register when a cell has become the smallest, to get into that one, all of them."""
    ledger, late = Ledger(24), range(25, 29)
    ledger.hold()
    first = ledger.hold(closes=True)
    ledger.leave(ledger.cells.partition(first.number).cells[0][0], next(ledger.blocks))
    current = holds_apart_with(ledger, late)
    smallest = ledger.cells.groups(current)[0]
    return {current.order.index(client) for client in late} <= set(smallest.positions)


def holds_apart_with(ledger: Ledger, late: range) -> RoundRecords:
    """The next round in cells behind a round with these members, who register now."""
    for client in late:
        ledger.join(client, next(ledger.blocks))
    ledger.hold(closes=True)
    while not ledger.rounds.is_next_apart():
        ledger.hold()
    return ledger.hold(closes=True)


def into_the_smallest(cells: Cells, client: int, number: int, partition) -> int | None:
    """A rule that late members could make use of."""
    left = [sum(not cells.rounds.left(each) for each in cell) for cell in partition.cells]
    return partition.cell_of.get(client, left.index(min(left)))


def fills_a_cell() -> bool:
    """An admin revokes all of a cell but one, most others, and approves puppets until enough for a sum stand in it."""
    ledger = Ledger(24)
    ledger.hold()
    ledger.hold(closes=True)
    (victim, *others), elsewhere = ledger.cells.partition(2).cells
    for client in (*others, *elsewhere[:8]):
        ledger.rounds.add(Revoked(ledger.at(next(ledger.blocks)), account(client)))
    current = holds_apart_with(ledger, range(25, 49))
    assert ledger.cells.partition(current.number).number == 0
    return any(victim in each for each in sums(ledger, current))


def all_count(positions, least, counted=None, size=0) -> Group:
    """A group in which members that came later count as much as those who were there."""
    return Group.of(positions, least)


def revokes_for_more_partitions() -> bool:
    """An admin approves and revokes accounts, each time for one more partition."""
    ledger = Ledger(16)
    openings, before = Openings(ledger.rounds, ledger.config), 2
    ledger.hold(closes=True)
    assert openings.most_partitions(2) == before
    for client in range(17, 40):
        ledger.join(client, next(ledger.blocks))
        ledger.rounds.add(Revoked(ledger.at(next(ledger.blocks)), account(client)))
    puppets = openings.most_partitions(2)
    for client in range(1, 12):
        ledger.rounds.add(Revoked(ledger.at(next(ledger.blocks)), account(client)))
    return puppets > before or openings.most_partitions(2) > 2 * before


def keeps_most_away(n: int = 100) -> bool:
    """Colluders keep members out of a round, so that fewer are enough to be summed than hide each other."""
    ledger = Ledger(n)
    current = ledger.hold(away=tuple(range(10, n + 1)))
    return ledger.cells.crowd(current) < crowd(n, ledger.config.masking.assumed)


def is_most_of_a_thin_round(n: int) -> bool:
    """As many colluders as the terms assume are most of those that commit in a round of the quorum, and decide it."""
    config, _ = config_of({**TABLES, "ledger": {"max_clients": 1000}})
    config = config.with_members([account(client) for client in range(1, n + 1)])
    colluders, rules = config.masking.assumed.colluders_of(n), config.ledger
    return 2 * colluders > rules.quorum and colluders >= rules.judges


def of_half(config: FederationConfig, accounts) -> FederationConfig:
    """Terms in which half of the members and one are a quorum, and most of those that committed decide."""
    return replace(config, ledger=replace(config.ledger, quorum=len(accounts) // 2 + 1, judges=1))


def vanishes() -> bool:
    """Five strangers take part once and vanish, so that the four others are less than half of all that are known."""
    members = tuple(f"account {client}" for client in range(1, 5))
    rounds, current = rounds_of([set(range(1, 10))], (1, 2, 3, 4), 9)
    return bool(policy.attendance_fault(rounds, current, terms(0.5, members)))


def known_by_commits(rounds, current, config) -> set[str]:
    """Whoever was there once is counted on."""
    return {rounds.members[client].account for each in rounds.rounds.values() for client in each.commits}


def comes_with_sybils() -> bool:
    """Two of eight bring fifty accounts that never took part, and keep all but one of the others out."""
    rounds, current = rounds_of([set(range(1, 9))], (1, 2, 3, *range(9, 59)), 58)
    return not policy.attendance_fault(rounds, current, terms(0.5, mode="approved"))


def isolates_in_the_first_round() -> bool:
    """An admin's coordinator keeps five of eight out before anything closed, when nobody is known by its commits."""
    rounds, current = rounds_of([], (1, 2, 3), 8)
    return not policy.attendance_fault(rounds, current, terms(0.5, mode="approved"))


def reads_a_trio(groups_of: Callable[[RoundRecords], tuple[Group, ...]], n: int = 10) -> bool:
    """Two colluders are with one other all that survives of a group."""
    ledger = Ledger(n)
    current = ledger.hold(closes=True)
    groups = groups_of(current)
    graph = current.graph(0, NOWHERE, ledger.config.masking, groups)
    return any(
        bool(found)
        for group in graph.groups
        for found in survivors.summed_groups(graph, group.positions[:3])
        if len(group.positions) >= 3
    )


def of_kmeans(current: RoundRecords) -> tuple[Group, ...]:
    before = replace(KMeansState.empty(2), groups=4)
    config = FederationConfig(KMeansTerms(k=2, dimensions=2, step=0.25, smallest_group=3), masking=MaskingSettings())
    return kmeans_inputs.groups_of(Rounds(), current, before, config)


def stops_clusters() -> bool:
    """Fifty accounts register when clusters are found, so that these seem too few to hide each other."""
    ledger = Ledger(10)
    ledger.hold(closes=True)
    for client in range(11, 61):
        ledger.join(client, next(ledger.blocks))
    current = ledger.hold(away=tuple(range(11, 61)))
    config = SimpleNamespace(masking=MaskingSettings(), membership=MembershipSettings())
    between = cluster_inputs.least_of(ledger.rounds, None, config)  # what people are told when no round runs
    return between > 5 or not all(group.positions for group in of_clusters(current, ledger.rounds))


def of_clusters(current: RoundRecords, rounds: Rounds | None = None) -> tuple[Group, ...]:
    """Two clusters of five, of which each member chose its own."""
    course = SimpleNamespace(groups=lambda state, stated, least: divided(sorted(stated), least))
    config = SimpleNamespace(masking=MaskingSettings(), membership=MembershipSettings())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_inputs, "course_of", lambda config: course)
        patch.setattr(cluster_inputs, "is_key", lambda key: True)
        found = cluster_inputs.groups_of(rounds or Rounds(), current, None, config)
        return found or (Group.of((), 1),)


def divided(clients: list[int], least: int) -> tuple[tuple[int, ...], ...]:
    half = len(clients) // 2
    return tuple(tuple(group) for group in (clients[:half], clients[half:]) if len(group) >= least)


class Company:
    """Members that look at each other's closings, on a ledger without a chain."""

    def __init__(self, n: int, seed: int = 0):
        self.ledger, self.looked, self.lies = Ledger(n), [], set()
        self.members = {client: self._member(client, seed) for client in range(1, n + 1)}
        self.checkers = self.ledger.config.federation.checkers

    def _member(self, client: int, seed: int) -> Closings:
        def lot(end) -> float:
            return Random(f"{seed} {client} {end.round}").random()

        def recompute(current: RoundRecords, end) -> str:
            self.looked.append(current.number)
            return "it is a lie" if current.number in self.lies else ""

        config = self.ledger.config
        found = Closings(None, method_of(config), None, 0.0, lot, bytes, lambda: self.ledger.rounds)
        found._recompute = recompute
        return found

    def say(self, client: int, current: RoundRecords, right: bool) -> None:
        """A judgement of a closing: that it is right, or something else."""
        end, block = current.result, current.result.at.block
        digests = (end.model_digest, end.metrics_digest) if right else (bytes(31) + bytes([client % 256]), KEY)
        judged = Judged(self.ledger.at(block), current.number, client, Phase.CLOSED, *digests)
        self.ledger.rounds.add(judged)

    def play(self, current: RoundRecords, honest: list[int], blocks: int = 48) -> list[int]:
        """What honest members do about a closing until shares of the next round are released; who rely on it then."""
        said = current.judgements(Phase.CLOSED)
        for block in range(current.result.at.block, current.result.at.block + blocks, 4):
            for client in honest:
                closings = self.members[client]
                fault = closings.fault(current, client, block=block)
                told = client in said or (not fault and closings.is_confirmed(current))
                if not told and (fault or closings.is_found_right(current)):
                    self.say(client, current, right=not fault)
        return [client for client in honest if self.relies(client, current, block)]

    def relies(self, client: int, current: RoundRecords, block: int) -> bool:
        unit = ReleaseShares(SimpleNamespace(closings=self.members[client]))
        return unit._relies_on(SimpleNamespace(client=client, block=block), current)


def judges_junk(n: int) -> bool:
    """In each round another member says that a right closing came to something else, to have everybody look.

    It wins where more than four times the checkers recompute a closing on average, before all release on it.
    """
    company, held = Company(n), 15
    for liar in range(1, held + 1):
        current = company.ledger.hold(closes=True)
        company.say(liar, current, right=False)
        honest = [client for client in company.members if client != liar]
        assert company.play(current, honest) == honest
    return len(company.looked) / held > 4 * company.checkers


def confirms_its_lie(n: int = 100, tries: int = 10) -> bool:
    """As many colluders as the terms assume confirm a liar's closing at once, so that others release shares on it.

    It wins where that is so more than once in ten rounds; once in thirty nobody of the others looks.
    """
    won = 0
    for seed in range(tries):
        company = Company(n, seed)
        company.lies = {1}
        current = company.ledger.hold(closes=True)
        colluders = company.ledger.config.masking.assumed.colluders_of(n)
        for client in range(1, colluders + 1):
            company.say(client, current, right=True)
        won += bool(company.play(current, list(range(colluders + 1, n + 1))))
    return won > 1


def everybody_looks(closings: Closings, current: RoundRecords, block: int) -> float:
    return 1.0


NO_DOUBTS = (Rounds, "doubts", lambda rounds, current: 0)
SMALLEST = (Cells, "_cell", into_the_smallest)
ABLE = (Rounds, "known_now", lambda rounds: tuple(n for n, each in rounds.members.items() if not each.active_from))
OF_THREE = 3
Guard = tuple[object, str, object]
ATTACKS: dict[str, tuple[Callable[[], bool], Guard]] = {
    **{
        f"frozen_{n}": (partial(spoils_every_round, n), (Openings, "refusal", lambda openings, number: ""))
        for n in (8, 20, 64, 100)
    },
    "frozen_metrics": (partial(sums_metrics_again, 20), (Openings, "are_repeated", lambda openings, current: False)),
    "cells_by_rotating": (partial(chooses_its_cell, rotates), ABLE),
    "cells_by_returning": (partial(chooses_its_cell, returns), ABLE),
    "cells_by_registering_late": (registers_late, SMALLEST),
    "puppets_in_a_cell": (fills_a_cell, (cells, "Group", SimpleNamespace(of=all_count))),
    "puppets_revoked": (
        revokes_for_more_partitions,
        (Openings, "_took_part", lambda openings: openings.rounds.members),
    ),
    "members_kept_away": (keeps_most_away, (cells, "crowd_of", lambda current, _: len(current.order) // 3)),
    **{
        f"thin_round_{n}": (partial(is_most_of_a_thin_round, n), (FederationConfig, "with_members", of_half))
        for n in (20, 100)
    },
    "erosion": (vanishes, (policy, "known_members", known_by_commits)),
    "sybil": (comes_with_sybils, (policy, "known_members", lambda *_: {"account 1", "account 2", "account 3"})),
    "tail_before_the_first_closing": (isolates_in_the_first_round, (policy, "known_members", known_by_commits)),
    "trio_of_a_group": (partial(reads_a_trio, of_kmeans), (kmeans_inputs, "crowd_of", lambda *_: OF_THREE)),
    "trio_of_a_cluster": (partial(reads_a_trio, of_clusters), (cluster_inputs, "crowd_of", lambda *_: OF_THREE)),
    "newcomers_stop_clusters": (
        stops_clusters,
        (cluster_inputs, "least_of", lambda rounds, current, config: cells.crowd_of(current or rounds.last, config)),
    ),
    **{f"junk_judgement_{n}": (partial(judges_junk, n), (Closings, "_chance", everybody_looks)) for n in (60, 100)},
    "release_on_a_lie": (confirms_its_lie, NO_DOUBTS),
}
"""By name: the attack, which says whether it won, and the guard with what takes its place."""


@pytest.mark.parametrize("name", ATTACKS)
def test_it_fails(name):
    attack, _ = ATTACKS[name]
    assert not attack()


@pytest.mark.parametrize("name", ATTACKS)
def test_it_wins_without_its_guard(name, monkeypatch):
    attack, guard = ATTACKS[name]
    monkeypatch.setattr(*guard)
    assert attack()
