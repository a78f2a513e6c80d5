"""What may be opened: how often sums of the same members may be read before nobody takes part any more.

Each sum that is opened tells something; what many of them tell together is the rank of all sets that were summed. Two
sums of the same updates that differ in one client are that client's. So from one model all together, and each partition
into cells, are opened at most twice, and only a few partitions are opened in a federation's life. Then it stands
still until people act: who spoils can be revoked, or another federation continues this one without it.

A round was *opened* when somebody may have read its sum: it closed, or a release of shares is listed and the lists are
those at which honest holders release. A chain can drop a release that it listed, so a client goes by its own
journal, too.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.protocol.cells import TIMES, Cells, Partition
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig

_ANY_LEDGER = "0x" + 40 * "0"
_CLIENTS_PER_PARTITION = 8


@dataclass
class Openings:
    """Answers questions of one moment.

    Parameters
    ----------
    rounds : Rounds
        The ledger.
    config : FederationConfig
        The terms, of a federation whose updates are summed without noise.
    released : collection of int
        Rounds in which whoever asks published shares itself, whatever the ledger lists by now.
    """

    rounds: Rounds
    config: FederationConfig
    released: Collection[int] = ()

    @cached_property
    def _cells(self) -> Cells:
        return Cells(self.rounds, self.config)

    def refusal(self, number: int) -> str:
        """Why nobody should take part in a round, or open it, in one clause; empty where nothing is in the way.

        It names the clients of each cell, so that people can look among them.
        """
        if not self.rounds.rounds:
            return ""
        cells = self._cells.partitions(number)
        partition = cells.get(number)
        opened = [(each, cells.get(each.number)) for each in self._opened_before(number)]
        if partition is None:
            model = self._model_of(number)
            times = sum(earlier is None and each.opened.model_digest == model for each, earlier in opened)
            return "all its members together have a member that spoils" if times >= TIMES else ""
        cut = {earlier.number: earlier for _, earlier in opened if earlier is not None}
        if partition.number in cut or len(cut) < self.most_partitions(number):
            return ""
        last, cuts = self._said(cut[max(cut)]), f"{len(cut)} cut{'s' if len(cut) != 1 else ''}"
        return f"{last} a member that spoils, and members are not cut into other cells after {cuts}"

    def are_repeated(self, current: RoundRecords) -> bool:
        """Whether somebody may know a sum of words that say the same of a round's model each time, as metrics do.

        The difference of two of these sums, one of them without some member, is exactly that member's. So nobody sends
        any again.
        """
        digest = current.opened.model_digest
        before = (each for at, each in self.rounds.rounds.items() if at < current.number)
        return any(each.opened.model_digest == digest and self.was_opened(each) for each in before)

    def most_partitions(self, number: int) -> int:
        """How many partitions may be opened before a round: more where members were revoked that had taken part."""
        current = self.rounds.rounds.get(number)
        known = current.known if current is not None else self.rounds.known_now()
        base = self.config.masking.partitions or max(1, len(known) // _CLIENTS_PER_PARTITION)
        revoked = sum(not self.rounds.members[client].approved for client in self._took_part())
        return min(2 * base, base + revoked)

    def was_opened(self, current: RoundRecords) -> bool:
        """Whether somebody may have read what a round summed."""
        if current.number in self.released:
            return True
        if current.stands or not (current.commits and current.releases):
            return current.stands
        if self.config.bounds is not None:
            return True  # whose sum it is follows from more than these lists
        groups = self._cells.groups(current)
        if groups:
            return bool(self._cells.opened(current))
        graph = current.graph(0, _ANY_LEDGER, self.config.masking, least=self._cells.crowd(current))
        try:
            needed_secrets(graph, current.positions(current.shares), current.positions(current.commits))
        except MaskingRefused:
            return len(current.releases) >= graph.threshold
        return True

    def _opened_before(self, number: int) -> list[RoundRecords]:
        return [each for at, each in self.rounds.rounds.items() if at < number and self.was_opened(each)]

    def _model_of(self, number: int) -> bytes:
        current = self.rounds.rounds.get(number)
        return current.opened.model_digest if current is not None else self.rounds.model_digest

    def _took_part(self) -> set[int]:
        """Who committed in a round that stands, before rounds were summed in cells for the first time."""
        first = next((at for at, each in self.rounds.rounds.items() if each.apart), 0)
        before = (each for at, each in self.rounds.rounds.items() if at < first and each.stands)
        return {client for each in before for client in each.commits}

    @staticmethod
    def _said(partition: Partition) -> str:
        cells = ", ".join("{" + ", ".join(map(str, sorted(cell))) + "}" for cell in partition.cells)
        return f"each of the cells {cells} holds"
