"""What a federation has cost so far, by the receipts of the transactions that left records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network, Paid
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
