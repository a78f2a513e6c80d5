"""Cells: after a round that somebody spoilt, members are summed in cells that stay, so that repeats open little.

A sum hides who put what into it, also who put something impossible into it, shared garbage, or took its update away. A
round of all with enough commitments that did not stand is followed by 2ʲ rounds in cells, at the j-th time: a cell that
one member spoils is left out, the others make the next model. What members could learn from many sums is the rank of
all sets that were ever opened. So cells are cut once, over everybody who is a member when the first of these rounds
opens, away or not, by the seed of that round's order, which nobody knows before. They stay: who leaves, returns or
registers changes no cell. From one model each cell is summed at most ``TIMES``. They are cut anew only where a round in
cells did not stand although each cell had enough survivors or may not be summed again, or a cell has too few members
left and the others suffice for a new cut, and only a few times in a federation's life (``policy.standstill``).

How many hide each other follows from everybody whom the terms name or who ever registered, so that nobody makes cells
smaller by staying away, leaving or revoking others.

All of it follows from the ledger and the terms alone; no reason of anybody is read.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, takewhile

from eth_utils import keccak, to_canonical_address

from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.parameters import Assumed, crowd, with_dropouts
from fedgrove.node.masking.survivors import summed_groups
from fedgrove.node.masking.x_only import is_key
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import PPM, FederationConfig

TIMES = 2
"""How often all together, or one cell, are summed from one model."""
_ANY_LEDGER = "0x" + 40 * "0"


def has_cells(config: FederationConfig) -> bool:
    """Whether rounds that follow one which was spoilt are summed in cells: those of one model, without common noise.

    Clusters and K-means have groups of their own, and the noise of client-level privacy is made for one sum. Where
    updates have bounds, who spoils a sum is taken out of it, and nothing is summed again.
    """
    return config.method.name == "training" and config.mechanism in ("none", "local") and config.bounds is None


def crowd_of(current: RoundRecords, config: FederationConfig) -> int:
    """The fewest that are summed together in a round: as many as hide each other."""
    if current.draws_all:
        return crowd_of_all(current.registered, config)
    return crowd(len(current.order), config.masking.assumed)


def crowd_of_all(registered: int, config: FederationConfig) -> int:
    """The same of a round in which every member may draw, by how many have registered."""
    return crowd(_everybody(registered, config), config.masking.assumed)


def _everybody(registered: int, config: FederationConfig) -> int:
    """How many may be members, by the terms or by the ledger: nobody lowers this by staying away or revoking others."""
    return max(registered, len(config.membership.members))


@dataclass(frozen=True)
class Partition:
    """The members, cut into cells.

    Attributes
    ----------
    number : int
        From 0, in a federation's life.
    cells : tuple of tuple of int
        The clients of each when it was cut, at least two cells; none before the order is sealed whose seed cuts them.
    least : int
        The fewest of a cell that are summed: as many as hid each other when it was cut.
    """

    number: int
    cells: tuple[tuple[int, ...], ...]
    least: int

    @cached_property
    def cell_of(self) -> Mapping[int, int]:
        """The cell of each client that was a member then."""
        return {client: number for number, cell in enumerate(self.cells) for client in cell}


@dataclass
class Cells:
    """The cells of rounds that are not summed as a whole.

    Parameters
    ----------
    rounds : Rounds
        The ledger.
    config : FederationConfig
        The terms.
    """

    rounds: Rounds
    config: FederationConfig

    def groups(self, current: RoundRecords) -> tuple[Group, ...]:
        """The groups of a sealed round's mask graph: those who drew, by their cells; empty where all are in one."""
        partitions = self.partitions(current.number)
        partition = partitions.get(current.number)
        return self._groups(current, partition, self._tired(current, partitions)) if partition is not None else ()

    def partition(self, number: int) -> Partition | None:
        """The cells of a round, or of the next one; None where all are summed in one."""
        return self.partitions(number).get(number)

    def partitions(self, last: int) -> dict[int, Partition | None]:
        """The same of each round up to one, by number, without those that are not to be summed in cells."""
        partitions: dict[int, Partition | None] = {}
        found: Partition | None = None
        kept: Partition | None = None
        following = 0
        for each in self._apart(last):
            at = each.number if each is not None else last
            found = partitions[at] = found or self._cut(each, following) or kept
            if found is None:
                continue
            if each is None or each.sealed is None:
                found = found if found.cells else None
            elif self._fell(each, found, partitions):
                found, kept, following = None, None, found.number + 1
            elif small := self._small(each, found):  # the others stay where those who are left cannot be cut anew
                kept = found if len(small) < len(found.cells) else None
                found, following = None, found.number + 1
        return partitions

    def clients(self, number: int) -> tuple[tuple[int, ...], ...]:
        """The clients of each cell of a round; empty where all are summed in one, or the cells are not cut yet."""
        partition = self.partition(number)
        if partition is None or not partition.cells:
            return ()
        cell_of = {client: self._cell(client, number, partition) for client in self.rounds.members}
        cells = range(len(partition.cells))
        return tuple(tuple(client for client, own in cell_of.items() if own == cell) for cell in cells)

    def opened(self, current: RoundRecords) -> frozenset[int]:
        """The cells of a sealed round whose sum somebody may have read, given that shares were released in it."""
        return self._opened(current, self.groups(current))

    def waiting(self, current: RoundRecords) -> frozenset[int]:
        """The cells of a sealed round in cells that are not summed, as they were often enough from its model."""
        return self._tired(current, self.partitions(current.number))

    def crowd(self, current: RoundRecords) -> int:
        """The fewest that are summed together in a round: as many as hide each other."""
        return crowd_of(current, self.config)

    @property
    def _assumed(self) -> Assumed:
        return self.config.masking.assumed

    def _apart(self, last: int) -> Iterator[RoundRecords | None]:
        """The rounds up to one that are not summed as a whole; None for one that is to be opened."""
        if self.config.bounds is not None:
            return
        for number, each in self.rounds.rounds.items():
            if number <= last and each.apart:
                yield each
        if last not in self.rounds.rounds and self.rounds.is_next_apart():
            yield None

    def _cut(self, current: RoundRecords | None, partition: int) -> Partition | None:
        """Everybody who is a member when a round opens, in as many cells as there can be; None for fewer than two.

        By the seed of its own order: when it opens nobody knows it, so that nobody registers, is revoked or spoils the
        round before because of where it puts somebody.
        """
        number = current.number if current is not None else len(self.rounds.rounds) + 1
        known = current.known if current is not None else self.rounds.known_now()
        registered = current.registered if current is not None else len(self.rounds.members)
        rate = self.config.rate_ppm(number)
        expected = len(known) * rate // PPM
        if expected < 2:
            return None
        least = crowd(max(2, _everybody(registered, self.config) * rate // PPM), self._assumed)
        count = max(expected // with_dropouts(least, self._assumed), min(2, expected // least))
        if count < 2:
            return None
        if current is None or current.sealed is None:
            return Partition(partition, (), least)
        seed = keccak(current.sealed.order_seed + partition.to_bytes(32, "big"))
        ordered = sorted(known, key=lambda client: keccak(seed + self._account(client)))
        cuts = [place * len(ordered) // count for place in range(count + 1)]
        return Partition(partition, tuple(tuple(ordered[first:end]) for first, end in pairwise(cuts)), least)

    def _groups(self, current: RoundRecords, partition: Partition, tired: Collection[int]) -> tuple[Group, ...]:
        """The groups of a round; those of ``tired`` cells have a quota that nobody reaches."""
        drawn: list[list[int]] = [[] for _ in partition.cells]
        for client in current.order:
            cell = self._cell(client, current.number, partition)
            if cell is not None:
                drawn[cell].append(client)
        found: list[Group] = []
        for number, members in enumerate(drawn):
            counted = current.positions(client for client in members if client in partition.cell_of)
            size = self._size(partition, number, current)
            group = Group.of(current.positions(members), partition.least, counted, size)
            found.append(replace(group, quota=len(counted) + 1) if number in tired else group)
        return tuple(found)

    def _tired(self, current: RoundRecords, partitions: Mapping[int, Partition | None]) -> frozenset[int]:
        """The cells of a round that were summed as often as may be from the model that it begins with."""
        partition, model, times = partitions[current.number], current.opened.model_digest, Counter[int]()
        before = (each for each in reversed(self.rounds.rounds.values()) if each.number < current.number)
        same = list(takewhile(lambda each: each.opened.model_digest == model, before))
        for each in reversed(same):
            summed = each.sealed is not None and (each.stands or each.releases)
            if partition is not None and summed and partitions.get(each.number) == partition:
                times.update(self._opened(each, self._groups(each, partition, _at_least(times))))
        return _at_least(times)

    def _opened(self, current: RoundRecords, groups: tuple[Group, ...]) -> frozenset[int]:
        survived = set(current.positions(current.commits))
        if not any(len(survived.intersection(group.counted)) >= group.quota for group in groups):
            return frozenset()
        graph = current.graph(0, _ANY_LEDGER, self.config.masking, groups)
        return frozenset(number for number, group in enumerate(summed_groups(graph, survived)) if group)

    def _cell(self, client: int, number: int, partition: Partition) -> int | None:
        """The cell of a client: that of the cut, or for who came later one that nobody can choose; None before that."""
        if client in partition.cell_of:
            return partition.cell_of[client]
        registered = self.rounds.members[client].registered_at
        sealed = (each.sealed for at, each in self.rounds.rounds.items() if at < number and each.sealed is not None)
        after = next((each for each in sealed if each.at.block > registered), None)
        if after is None:
            return None
        return int.from_bytes(keccak(after.order_seed + self._account(client)), "big") % len(partition.cells)

    def _size(self, partition: Partition, cell: int, current: RoundRecords) -> int:
        """How many were in a cell when it was cut, without those that left by their own signature before a round."""
        opened_at = current.opened.opened_at
        return sum(not self.rounds.left(client, opened_at) for client in partition.cells[cell])

    def _small(self, current: RoundRecords, partition: Partition) -> frozenset[int]:
        """The cells that have too few members left."""
        numbers = range(len(partition.cells))
        return frozenset(each for each in numbers if self._size(partition, each, current) < partition.least)

    def _fell(self, current: RoundRecords, partition: Partition, partitions: Mapping[int, Partition | None]) -> bool:
        """Whether a round did not stand though each cell that may still be summed had enough survivors."""
        if not current.is_spoilt(self.config.ledger.quorum):
            return False
        masking = [client for client in current.commits if is_key(current.draws[client].mask_key)]
        survived = set(current.positions(masking))
        lost = self._tired(current, partitions) | self._small(current, partition)
        groups = self._groups(current, partition, lost)
        enough = (len(survived.intersection(group.counted)) >= group.quota for group in groups)
        return all(had or number in lost for number, had in enumerate(enough))

    def _account(self, client: int) -> bytes:
        return to_canonical_address(self.rounds.members[client].account)


def _at_least(times: Counter[int]) -> frozenset[int]:
    return frozenset(cell for cell, count in times.items() if count >= TIMES)
