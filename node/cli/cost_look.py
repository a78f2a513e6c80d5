"""Costs in ``fedgrove status``: of the federation and of an account, in ether and in a currency."""

from dataclasses import dataclass

from fedgrove.node.status.budget import ETHER
from fedgrove.node.status.costs import Costs


@dataclass(frozen=True)
class CostSight:
    """Result of one look.

    Attributes
    ----------
    costs : Costs
    coordinator, account : str
        Addresses whose parts are shown; no account: empty.
    price : float
        Of one ether in a currency; 0 shows ether only.
    """

    costs: Costs
    coordinator: str
    account: str
    price: float

    def to_dict(self) -> dict:
        """A JSON-ready form, in wei; with a price also in the currency."""
        parts = {"all": "", "coordinator": self.coordinator} | ({"account": self.account} if self.account else {})
        return {name: self._part(who) for name, who in parts.items()} | {"unknown": self.costs.unknown}

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of what people are shown."""
        lacking = f"; the node has lost {self.costs.unknown} receipts" if self.costs.unknown else ""
        ours = f"{self._told('')}; of it the coordinator {self._money(self.costs.whole(self.coordinator))}{lacking}"
        return [("cost so far", ours)] + ([("your cost so far", self._told(self.account))] if self.account else [])

    def _part(self, account: str) -> dict:
        whole, rounds = self.costs.whole(account), self.costs.rounds(account)
        priced = {"currency": whole * self.price / ETHER} if self.price else {}
        return {"wei": whole, "rounds": {str(number): cost for number, cost in rounds.items()}} | priced

    def _told(self, account: str) -> str:
        whole, rounds = self._money(self.costs.whole(account)), self.costs.rounds(account)
        if not rounds:
            return whole
        mean = self._money(sum(rounds.values()) / len(rounds))
        latest = max(rounds)
        return f"{whole}; a round {mean} on average, round {latest} {self._money(rounds[latest])}"

    def _money(self, amount: float) -> str:
        ether = amount / ETHER
        return f"{ether:.4g} ether" + (f" ({ether * self.price:,.2f})" if self.price else "")
