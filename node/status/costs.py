"""What a federation has cost so far, by the receipts of the transactions that left records."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedgrove.chain.face.ledger import SEAL_GAS, SEAL_GAS_PER_CLIENT, Ledger
from fedgrove.chain.network.access import Network, Paid
from fedgrove.chain.records import (
    Closed,
    Committed,
    Drawn,
    MemberRecord,
    Record,
    Released,
    RoundOpened,
    SeedFixed,
    Shared,
)
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.price import ETHER, Price

FOUNDING = 0
"""Stands for a round's number where a transaction belongs to no round."""


@dataclass(frozen=True)
class Costs:
    """Costs in wei; transactions that failed left no record and are not among them.

    Attributes
    ----------
    by_round : mapping
        What each account paid for each round, by the round's number and the account's address.
    unknown : int
        Transactions whose receipts the node does not have any more: what they cost is missing in the figures.
    """

    by_round: Mapping[int, Mapping[str, int]]
    unknown: int = 0

    def whole(self, account: str = "") -> int:
        """Of one account, or of all."""
        return sum(self._of(paid, account) for paid in self.by_round.values())

    def rounds(self, account: str = "") -> dict[int, int]:
        """For each round that an account, or any, paid for."""
        of_rounds = {number: self._of(paid, account) for number, paid in self.by_round.items() if number != FOUNDING}
        return {number: cost for number, cost in sorted(of_rounds.items()) if cost}

    def to_dict(self, accounts: Mapping[str, str], price: Price | None) -> dict[str, Any]:
        """JSON-ready: wei of accounts (empty: of all) by a name, in all and by round; with a price its worth."""
        return {name: self._part(account, price) for name, account in accounts.items()} | {"unknown": self.unknown}

    def _part(self, account: str, price: Price | None) -> dict[str, Any]:
        whole = self.whole(account)
        priced = {"cost": whole * price.amount / ETHER, "currency": price.currency} if price else {}
        return {"wei": whole, "rounds": {str(number): cost for number, cost in self.rounds(account).items()}} | priced

    def _of(self, paid: Mapping[str, int], account: str) -> int:
        return paid.get(account, 0) if account else sum(paid.values())


class CostReader:
    """Adds up what records cost; each receipt is read once."""

    def __init__(self, network: Network, ledger: Ledger) -> None:
        self._network, self._ledger = network, ledger
        self._known: dict[bytes, Paid] = {}

    def read(self) -> Costs:
        """Costs up to the latest record. Raises ChainError."""
        round_of: dict[bytes, int] = {}
        for record in self._ledger.records():
            round_of.setdefault(record.at.transaction, getattr(record, "round", FOUNDING))
        self._fetch([transaction for transaction in round_of if transaction not in self._known])
        by_round: dict[int, dict[str, int]] = {}
        for transaction, number in round_of.items():
            if (paid := self._known.get(transaction)) is not None:
                of_round = by_round.setdefault(number, {})
                of_round[paid.sender] = of_round.get(paid.sender, 0) + paid.fee
        return Costs(by_round, len(round_of.keys() - self._known.keys()))

    def _fetch(self, transactions: list[bytes]) -> None:
        found = zip(transactions, self._network.paid(transactions), strict=True)
        self._known |= {transaction: paid for transaction, paid in found if paid is not None}


ROUNDS = 3


@dataclass(frozen=True)
class Budget:
    """Balance of an account, and the balance that it needs.

    Attributes
    ----------
    balance, price : int
        Balance, and what a unit of gas costs now; in wei.
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
            calls = (RoundOpened, SeedFixed, Closed)
            return sum(kind.GAS for kind in calls) + SEAL_GAS + SEAL_GAS_PER_CLIENT * members
        return sum(kind.GAS for kind in (Drawn, Shared, Committed, Released))
