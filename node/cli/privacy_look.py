"""Privacy budget in ``fedgrove status``: read from the ledger, and the model's size from the store."""

from dataclasses import asdict, dataclass

from fedgrove.ipfs.store import ContentStore, StoreError
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.spending import Spending, Spent
from fedgrove.node.protocol.terms import FederationConfig


@dataclass(frozen=True)
class PrivacySight:
    """Result of one look.

    Attributes
    ----------
    spent : Spent or None
        By an account's client, without an account by the client that has spent most; None before the first round.
    refusal : str
        Why the account's client will not draw in the next round, in one clause; empty when it will.
    over : str
        Why no further round can be held, in one clause; empty while a round runs or another can be held.
    fault : str
        Why nothing of this can be told, in one sentence.
    """

    spent: Spent | None = None
    refusal: str = ""
    over: str = ""
    fault: str = ""

    def to_dict(self) -> dict | None:
        """A JSON-ready form."""
        return asdict(self.spent) | {"refusal": self.refusal} if self.spent else None

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of what people are shown."""
        rows = [("privacy", self.fault or str(self.spent))] if self.fault or self.spent else []
        return rows + ([("your next round", f"none, {self.refusal}")] if self.refusal else [])


class PrivacyLook:
    """Looks again and again; what was fetched once is not fetched again.

    Parameters
    ----------
    terms : FederationConfig
        With a privacy mechanism.
    store : ContentStore
        Of this member.
    """

    def __init__(self, terms: FederationConfig, store: ContentStore) -> None:
        self._terms = terms
        self._store = store
        self._parameters = 0

    def look(self, rounds: Rounds, account: str | None) -> PrivacySight:
        """Look up the spent budget, and whether enough is left for another round."""
        latest = rounds.latest
        if latest is None:
            return PrivacySight()
        try:
            spending = Spending(method_of(self._terms), self._store, rounds, self._size(latest.opened.model_digest))
            member = rounds.member(account) if account else None
            client, ended = member.client if member else 0, latest.end is not None
            following = latest.number + (ended or client in latest.draws)
            due = client and following <= self._terms.federation.rounds
            refusal = spending.refusal(client, following) if due else ""
            over = spending.exhausted(following) if ended else ""
            return PrivacySight(spending.summary(latest.number, client), refusal, over)
        except (StoreError, InvalidModel) as fault:
            return PrivacySight(fault=f"unknown, because the model cannot be read: {fault}")

    def _size(self, model: bytes) -> int:
        """Number of parameters of the federation's model, which no round changes."""
        if not self._parameters:
            method = method_of(self._terms)
            self._parameters = method.parameters_of(method.fetch_model(self._store, model))
        return self._parameters
