"""Which clients of a demonstration drop out of each round, and from which step on."""

import random

from fedgrove.ipfs.store import ContentStore
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step

_AFTER = ("drew", "shared", "published its masked update")


class Silence:
    """The clients that drop out; a function of the seed.

    Parameters
    ----------
    drop : float
        Fraction of the clients that fall silent in each round.
    clients, seed : int
        Of the demonstration.
    """

    def __init__(self, drop: float, clients: int, seed: int) -> None:
        self._drop, self._clients, self._seed = drop, clients, seed
        self._last: dict[tuple[int, int], set[str]] = {}

    def of(self, number: int, client: int) -> bool:
        """Whether the client is silent by now in this round."""
        last_words = self._schedule(number).get(client)
        return last_words is not None and last_words in self._last.get((number, client), ())

    def note(self, number: int, client: int, step: Step) -> None:
        """Remember what the client did."""
        if step.acted:
            self._remember(number, client, step.acted)

    def recall(self, current: RoundRecords | None, store: ContentStore) -> None:
        """Remember what was done in a round before an interruption, by ledger and store."""
        if current is None:
            return
        published = [client for client, commit in current.commits.items() if store.has(commit.digest)]
        for word, clients in zip(_AFTER, (current.draws, current.shares, published), strict=True):
            for client in clients:
                self._remember(current.number, client, word)

    def _remember(self, number: int, client: int, word: str) -> None:
        self._last.setdefault((number, client), set()).add(word)

    def _schedule(self, number: int) -> dict[int, str]:
        chooser = random.Random(f"{self._seed}/{number}")
        count = int(self._drop * self._clients)
        chosen = chooser.sample(range(1, self._clients + 1), count)
        return {client: chooser.choice(_AFTER) for client in chosen}
