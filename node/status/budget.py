"""For how many rounds an account can pay."""

from dataclasses import asdict, dataclass

from fedgrove.chain.face.ledger import SEAL_GAS, SEAL_GAS_PER_CLIENT, Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.records import (
    Closed,
    Committed,
    Drawn,
    MemberRecord,
    Record,
    Recovered,
    Released,
    RoundOpened,
    SeedFixed,
    Shared,
)
from fedgrove.node.protocol.rounds import Rounds

ROUNDS = 3


@dataclass(frozen=True)
class Budget:
    """Balance of an account, and the balance that it needs.

    Attributes
    ----------
    balance, price : int
        Balance, and what a unit of gas costs now; in wei.
    gas : int
        Gas that a round takes.
    measured : int
        Rounds whose receipts that is the most of; 0 when it is the sum of the limits that are sent along.
    """

    balance: int
    price: int
    gas: int
    measured: int

    @property
    def rounds(self) -> int:
        """Rounds that the balance pays for at the present price."""
        return self.balance // (self.gas * self.price)

    def to_dict(self) -> dict:
        return asdict(self) | {"rounds": self.rounds}


class Purse:
    """An account's means; what a past round cost is read once."""

    def __init__(self, network: Network, ledger: Ledger, account: str) -> None:
        self._network = network
        self._ledger = ledger
        self._account = account
        self._is_coordinator = account == ledger.deployment.coordinator
        self._known: tuple[int, int, int] = (-1, 0, 0)

    def budget(self, rounds: Rounds) -> Budget:
        """Balance, price and need as they are now."""
        ended = len(rounds.ended())
        if self._known[0] != ended:
            self._known = (ended, *self._gas(rounds))
        _, gas, measured = self._known
        return Budget(self._network.balance(self._account), self._network.price(), gas, measured)

    def _gas(self, rounds: Rounds) -> tuple[int, int]:
        """The most gas that one of this account's latest rounds took, and of how many; or the limits, and zero."""
        member = rounds.member(self._account)
        paid = self._paid(member.client if member else 0, {each.number for each in rounds.ended()})
        costs = [cost for number in sorted(paid, reverse=True)[:ROUNDS] if (cost := self._cost(paid[number]))]
        return (max(costs), len(costs)) if costs else (self._limits(len(rounds.members)), 0)

    def _paid(self, client: int, ended: set[int]) -> dict[int, set[bytes]]:
        """Transactions of this account in rounds that have ended, as far as records show their senders."""
        paid: dict[int, set[bytes]] = {}
        others: set[bytes] = set()
        number = 0
        for record in self._ledger.records():
            number = record.round if isinstance(record, RoundOpened) else number
            if number in ended and self._sent(record, client):
                paid.setdefault(number, set()).add(record.at.transaction)
            elif isinstance(record, Drawn):
                others.add(record.at.transaction)  # a batch of draws, or a draw that fixed the seed on its way
        return {number: hashes - others for number, hashes in paid.items() if hashes - others}

    def _sent(self, record: Record, client: int) -> bool:
        if isinstance(record, MemberRecord):
            return record.client == client
        return self._is_coordinator and record.COORDINATES

    def _cost(self, transactions: set[bytes]) -> int:
        """Gas of these transactions; 0 when the node has lost one's receipt."""
        receipts = [self._network.mined(transaction) for transaction in transactions]
        known = [receipt.gas_used for receipt in receipts if receipt is not None]
        return sum(known) if len(known) == len(receipts) else 0

    def _limits(self, members: int) -> int:
        if self._is_coordinator:
            calls = (RoundOpened, SeedFixed, Recovered, Closed)
            return sum(kind.GAS for kind in calls) + SEAL_GAS + SEAL_GAS_PER_CLIENT * members
        return sum(kind.GAS for kind in (Drawn, Shared, Committed, Released))
