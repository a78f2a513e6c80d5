"""Clients of a demonstration that drop out of each round, and whether rounds can close without them."""

import random

from fedgrove.ipfs.store import ContentStore
from fedgrove.node.protocol.rounds import RoundRecords, shares_of_round
from fedgrove.node.protocol.step import Step
from fedgrove.node.protocol.terms import MaskingSettings

_AFTER = ("drew", "shared", "published its masked update")
_LOOKED_AT = 32  # clients, up to which what a round needs is quickly known


class Silence:
    """The clients that drop out of each round, and from which step on; a function of the seed.

    Parameters
    ----------
    clients : int
    drop : float
        Fraction of the clients that fall silent in each round, rounded down.
    seed : int
    """

    def __init__(self, clients: int, drop: float, seed: int) -> None:
        self._clients, self._drop, self._seed = clients, drop, seed
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
        chosen = chooser.sample(range(1, self._clients + 1), silent_of(self._clients, self._drop))
        return {client: chooser.choice(_AFTER) for client in chosen}


def silent_of(clients: int, drop: float) -> int:
    """How many clients fall silent in a round."""
    return int(drop * clients)


def check_drop(clients: int, drop: float) -> str:
    """Why no round can close with this fraction of drop-outs, and what to give instead; empty where rounds can close.

    The mask of a client comes off the sum if enough of the others are left that hold shares of its secret.
    """
    silent = silent_of(clients, drop)
    if _closes(clients, silent):
        return ""
    shares = shares_of_round(clients, MaskingSettings())
    most = max((count for count in range(silent) if _closes(clients, count)), default=0)
    more = range(clients + 1, _LOOKED_AT + 1)
    enough = next((count for count in more if _closes(count, silent_of(count, drop))), 0)
    advice = f"give {enough} clients, or let" if enough else "let"
    needed = f"{shares.threshold} of the {shares.holders} clients that hold shares of another's secret"
    return (
        f"{drop:g} leaves {clients - silent} of {clients} clients, and no round can close: the sum of a round needs "
        f"shares from {needed}; {advice} at most {most} drop out"
    )


def _closes(clients: int, silent: int) -> bool:
    """Whether enough holders of a client's shares are left, on average, when others have fallen silent."""
    shares = shares_of_round(clients, MaskingSettings())
    others = clients - 1
    return shares.holders * (others - silent) >= shares.threshold * others
