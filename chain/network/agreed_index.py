"""A federation's records as several endpoints state them, for chains whose headers cannot be recomputed.

Weaker than ``log_index``: that endpoints that agree leave out nothing, and put every record into the right block,
is their word. They can invent nothing in a member's name: a record must follow from a transaction that its author
signed. Used only on request (``network.proofs``).
"""

from itertools import groupby

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.blocks import decoded_transaction, records_in
from fedgrove.chain.network.record_index import RecordIndex
from fedgrove.chain.records import Record
from fedgrove.chain.records.deployment import Deployment

KEPT_HEADS = 1_000


class AgreedIndex(RecordIndex):
    """Records on which ``Network.quorum`` endpoints agree; see ``RecordIndex``.

    ``_heads`` are the latest blocks of past readings, with their hashes: by them abandoned blocks are found.
    """

    def __init__(self, network: Network, deployment: Deployment) -> None:
        super().__init__(network, deployment)
        self._heads: list[tuple[int, bytes]] = []
        self._facts: dict[int, tuple[bytes, bytes]] = {}

    @property
    def head(self) -> int:
        return self._heads[-1][0] if self._heads else self._deployment.block - 1

    @property
    def head_hash(self) -> bytes:
        return self._heads[-1][1] if self._heads else b""

    def block_hash(self, number: int) -> bytes:
        return self._block(number)[0]

    def randomness(self, number: int) -> bytes:
        return self._block(number)[1]

    def _read_on(self) -> None:
        latest, latest_hash = self._network.agreed_head()
        if latest < self._deployment.block:
            return
        self._drop_abandoned(latest, latest_hash)
        start = self.head + 1
        if start > latest:
            return
        self._records += self._read(start, latest)
        self._heads = [*self._heads[1 - KEPT_HEADS :], (latest, latest_hash)]

    def _read(self, first: int, last: int) -> list[Record]:
        addresses = (self._deployment.registry, self._deployment.ledger)
        logs = self._network.agreed_logs(first, last, addresses)
        found: list[Record] = []
        for at, of_transaction in groupby(logs, key=lambda log: log.at[:2]):
            number, transaction = at
            if not first <= number <= last:
                raise BadHistory(number, f"it is not among blocks {first} to {last}, whose records were asked for")
            signed = decoded_transaction(number, self._network.signed_transaction(transaction))
            found += records_in(number, signed, list(of_transaction), self._deployment)
        return found

    def _drop_abandoned(self, latest: int, latest_hash: bytes) -> None:
        """Go back to the last head that the chain still has, unless the node is merely behind that one."""
        heads = [head for head in self._heads if head[0] <= latest]
        if heads and self._is_behind(latest) and self._stands(*heads[-1], latest, latest_hash):
            return
        while heads and not self._stands(*heads[-1], latest, latest_hash):
            heads.pop()
        if len(heads) < len(self._heads):
            self._keep(heads[-1][0] if heads else self._deployment.block - 1)

    def _stands(self, number: int, block_hash: bytes, latest: int, latest_hash: bytes) -> bool:
        if number >= latest:
            return (number, block_hash) == (latest, latest_hash)
        return self._network.agreed_block(number)[0] == block_hash

    def _keep(self, last: int) -> None:
        self._heads = [(number, block_hash) for number, block_hash in self._heads if number <= last]
        self._facts = {number: facts for number, facts in self._facts.items() if number <= last}
        self._keep_records(last)

    def _block(self, number: int) -> tuple[bytes, bytes]:
        self._check_read(number)
        if number not in self._facts:
            self._facts[number] = self._network.agreed_block(number)
        return self._facts[number]
