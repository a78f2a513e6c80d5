"""Cells: after a round that somebody spoilt, members are summed in cells that stay, so that repeats open little.

A sum hides who put what into it, also who put something impossible into it, shared garbage, or took its update away. A
round of all with enough commitments that did not stand is followed by 2ʲ rounds in cells, at the j-th time: a cell that
one member spoils is left out, the others make the next model. What members could learn from many sums is the rank of
all sets that were ever opened. So cells are cut once, by the ledger's randomness, over everybody who is a member at the
time, away or not, and stay: who leaves, returns or registers changes no cell. They are cut anew only where a round in
cells did not stand although each cell had enough survivors, or a cell has too few members left, and only a few times in
a federation's life (``policy.opening_refusal``).

All of it follows from the ledger alone; no reason of anybody is read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from eth_utils import keccak, to_canonical_address

from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.keys import is_low_order
from fedgrove.node.masking.parameters import Assumed, crowd, with_dropouts
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import PPM, FederationConfig


def has_cells(config: FederationConfig) -> bool:
    """Whether rounds that follow one which was spoilt are summed in cells: those of one model, without common noise.

    Clusters and K-means have groups of their own, and the noise of client-level privacy is made for one sum.
    """
    return config.method.name == "training" and config.mechanism in ("none", "local")


def crowd_of(current: RoundRecords, assumed: Assumed) -> int:
    """The fewest that are summed together in a round: as many as hide each other."""
    n = len(current.known) if current.draws_all else len(current.order)
    return crowd(n, assumed)


@dataclass(frozen=True)
class Partition:
    """The members, cut into cells.

    Attributes
    ----------
    number : int
        From 0, in a federation's life.
    cells : tuple of tuple of int
        The clients of each when it was cut, at least two cells.
    """

    number: int
    cells: tuple[tuple[int, ...], ...]

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
        partition = self.partition(current.number)
        return self._groups(current, partition) if partition is not None else ()

    def partition(self, number: int) -> Partition | None:
        """The cells of a round, or of the next one; None where all are summed in one."""
        return self.partitions(number).get(number)

    def partitions(self, last: int) -> dict[int, Partition | None]:
        """The same of each round up to one, by number, without those that are not to be summed in cells."""
        cells: dict[int, Partition | None] = {}
        found: Partition | None = None
        used_up = True
        for each in self._apart(last):
            at = each.number if each is not None else last
            if used_up:
                found = self._cut(at, found.number + 1 if found else 0)
            cells[at] = found
            if each is not None and each.sealed is not None:
                used_up = found is None or self._is_used_up(each, found)
            else:
                used_up = found is None
        return cells

    def clients(self, number: int) -> tuple[tuple[int, ...], ...]:
        """The clients of each cell of a round, or of the next one; empty where all are summed in one."""
        partition = self.partition(number)
        if partition is None:
            return ()
        cell_of = {client: self._cell(client, number, partition) for client in self.rounds.members}
        cells = range(len(partition.cells))
        return tuple(tuple(client for client, own in cell_of.items() if own == cell) for cell in cells)

    def crowd(self, current: RoundRecords) -> int:
        """The fewest that are summed together in a round: as many as hide each other."""
        return crowd_of(current, self._assumed)

    @property
    def _assumed(self) -> Assumed:
        return self.config.masking.assumed

    def _apart(self, last: int) -> Iterator[RoundRecords | None]:
        """The rounds up to one that are not summed as a whole; None for one that is to be opened."""
        for number, each in self.rounds.rounds.items():
            if number <= last and each.apart:
                yield each
        if last not in self.rounds.rounds and self.rounds.is_next_apart():
            yield None

    def _cut(self, number: int, partition: int) -> Partition | None:
        """Everybody who is a member when a round opens, in as many cells as there can be; None for fewer than two."""
        current = self.rounds.rounds.get(number)
        known = current.known if current is not None else self.rounds.known_now()
        expected = len(known) * self.config.rate_ppm(number) // PPM
        if expected < 2:
            return None
        least = crowd(expected, self._assumed)
        count = max(expected // with_dropouts(least, self._assumed), min(2, expected // least))
        if count < 2:
            return None
        seed = keccak(self._order_seed_before(number) + partition.to_bytes(32, "big"))
        ordered = sorted(known, key=lambda client: keccak(seed + self._account(client)))
        cuts = [place * len(ordered) // count for place in range(count + 1)]
        return Partition(partition, tuple(tuple(ordered[first:end]) for first, end in pairwise(cuts)))

    def _groups(self, current: RoundRecords, partition: Partition) -> tuple[Group, ...]:
        drawn: list[list[int]] = [[] for _ in partition.cells]
        for client in current.order:
            cell = self._cell(client, current.number, partition)
            if cell is not None:
                drawn[cell].append(client)
        least = self.crowd(current)
        return tuple(
            Group.of(
                current.positions(members),
                least,
                current.positions(client for client in members if client in partition.cell_of),
                self._size(partition, number, current),
            )
            for number, members in enumerate(drawn)
        )

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

    def _is_used_up(self, current: RoundRecords, partition: Partition) -> bool:
        """Whether others follow after a round: it fell though each cell had enough, or one has too few members left."""
        least = self.crowd(current)
        if any(self._size(partition, number, current) < least for number in range(len(partition.cells))):
            return True
        if not current.is_spoilt(self.config.ledger.quorum):
            return False
        masking = [client for client in current.commits if not is_low_order(current.draws[client].mask_key)]
        survived = set(current.positions(masking))
        groups = self._groups(current, partition)
        return all(len(survived.intersection(group.counted)) >= group.quota for group in groups)

    def _order_seed_before(self, number: int) -> bytes:
        earlier = (each.sealed for at, each in reversed(self.rounds.rounds.items()) if at < number)
        return next(each.order_seed for each in earlier if each is not None)

    def _account(self, client: int) -> bytes:
        return to_canonical_address(self.rounds.members[client].account)
