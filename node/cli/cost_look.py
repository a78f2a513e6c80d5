"""Costs in ``fedgrove status``: of the federation and of an account, in ether and in a currency."""

from dataclasses import dataclass

from fedgrove.chain.records.deployment import Deployment
from fedgrove.node.status.costs import Costs
from fedgrove.node.status.price import ETHER, Price


@dataclass(frozen=True)
class CostSight:
    """Result of one look.

    Attributes
    ----------
    costs : Costs
    deployment : Deployment
        Of the federation: the coordinator's part is shown, and what a practice chain took is said to be practice.
    account : str
        Whose part is shown as well; empty for nobody's.
    price : Price or None
        Of one ether; None shows ether only.
    """

    costs: Costs
    deployment: Deployment
    account: str
    price: Price | None

    def to_dict(self) -> dict:
        """A JSON-ready form, in wei; with a price also in the currency."""
        parts = {"all": "", "coordinator": self.deployment.coordinator}
        parts |= {"account": self.account} if self.account else {}
        return {name: self._part(who) for name, who in parts.items()} | {"unknown": self.costs.unknown}

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of what people are shown."""
        lacking = f"; the node has lost {self.costs.unknown} receipts" if self.costs.unknown else ""
        coordinators = self._money(self.costs.whole(self.deployment.coordinator))
        ours = f"{self._described('')}; of it the coordinator {coordinators}{lacking}"
        return [("cost so far", ours)] + ([("your cost so far", self._described(self.account))] if self.account else [])

    def _part(self, account: str) -> dict:
        whole, rounds = self.costs.whole(account), self.costs.rounds(account)
        price = self._asked
        priced = {"cost": whole * price.amount / ETHER, "currency": price.currency} if price else {}
        return {"wei": whole, "rounds": {str(number): cost for number, cost in rounds.items()}} | priced

    def _described(self, account: str) -> str:
        whole, rounds = self._money(self.costs.whole(account)), self.costs.rounds(account)
        if not rounds:
            return whole
        mean = self._money(sum(rounds.values()) / len(rounds))
        latest = max(rounds)
        return f"{whole}; a round {mean} on average, round {latest} {self._money(rounds[latest])}"

    def _money(self, amount: float) -> str:
        ether = amount / ETHER
        if self.deployment.practice:
            return f"{ether:.4g} practice ether"
        price = self._asked
        return f"{ether:.4g} ether" + (f" ({ether * price.amount:,.2f} {price.currency})" if price else "")

    @property
    def _asked(self) -> Price | None:
        """The price that applies: nobody would buy a practice chain's coins."""
        return None if self.deployment.practice else self.price
