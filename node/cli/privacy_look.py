"""What ``fedgrove status`` shows of a privacy budget: read off the ledger, and the model's size off the store."""

from ipfs.store import ContentStore, StoreError
from node.config import FederationConfig
from node.content import fetch_model
from node.rounds import Rounds
from node.tensors import InvalidModel, Layout
from node.uploads.spending import Spending, Spent


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

    def look(self, rounds: Rounds, account: str | None) -> tuple[Spent | str | None, str]:
        """What was spent by an account's client, without one by whom it was most; why no further round is affordable.

        The first is None before there is a round, and a sentence when the store does not tell; the second is empty
        while a round runs or another can be held.
        """
        latest = rounds.latest
        if latest is None:
            return None, ""
        try:
            spending = Spending(self._terms, self._store, rounds, self._size(latest.opened.model_digest))
            member = rounds.member(account) if account else None
            spent = spending.summary(latest.number, member.client if member else 0)
            return spent, spending.exhausted(latest.number + 1) if latest.end is not None else ""
        except (StoreError, InvalidModel) as fault:
            return f"cannot be told, the store has no model to go by: {fault}", ""

    def _size(self, model: bytes) -> int:
        """Number of parameters of the federation's model, which no round changes."""
        if not self._parameters:
            self._parameters = Layout.of(fetch_model(self._store, model, self._terms)).length
        return self._parameters
