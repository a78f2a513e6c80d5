"""Rounds that did not close, and who was missing in them: what logs, metrics, ``status`` and ``doctor`` warn of.

A federation may open ``federation.repeats`` rounds more than it wants to close. Rounds without quorum are opened again
at once, so that one member that hangs can use up all of them; people must hear of it while there are some left.
"""

from collections.abc import Collection
from dataclasses import dataclass

from fedgrove.chain.crypto.tree import EVERYONE
from fedgrove.chain.records.deployment import Terms
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.step import name_clients

MOST_NAMED = 10
"""Missing clients that a sentence names."""
_IN_A_ROW = 2


@dataclass(frozen=True)
class Absentee:
    """A client that has not done its part since a round, and the block in which that was opened."""

    client: int
    round: int
    block: int


@dataclass(frozen=True)
class Setbacks:
    """How many rounds did not close, and who was missing.

    Attributes
    ----------
    rounds, repeats : int
        Rounds that the terms want to close, and how many more may be opened.
    closed, in_vain : int
        Rounds that closed and were not voided, and the others that have ended.
    in_a_row : int
        Rounds that did not close since the last one that closed.
    missing : tuple of Absentee
        Who did not do their part in the latest round that has ended. In a round with a sample, only clients that drew:
        nobody can tell who else was in it.
    """

    rounds: int
    repeats: int
    closed: int
    in_vain: int
    in_a_row: int
    ended: bool
    missing: tuple[Absentee, ...]

    @property
    def without_result(self) -> bool:
        """No round can follow, and none has closed."""
        return self.ended and not self.closed

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people must know now, each in one sentence."""
        if self.without_result:
            advice = "deploy the federation again, with longer windows or more federation.repeats"
            return (f"all rounds have ended and none closed, so that there is no result: {advice}{self._who}",)
        if self.ended:
            used_up = "federation.repeats is used up"
            few = self.closed < self.rounds
            sentence = f"all rounds have ended, and only {self.closed} of {self.rounds} closed: {used_up}{self._who}"
            return (sentence,) if few else ()
        found = []
        if self.in_a_row >= _IN_A_ROW:
            found.append(f"the last {self.in_a_row} rounds did not close{self._who}")
        if self.in_vain and 2 * self.in_vain >= self.repeats:
            found.append(self._half_gone())
        return tuple(found)

    def _half_gone(self) -> str:
        count = "1 round" if self.in_vain == 1 else f"{self.in_vain} rounds"
        spent = f"{count} did not close, and the terms allow for {self.repeats} (federation.repeats)"
        left = self.repeats - self.in_vain
        then = f"after {left} more" if left > 0 else "with each one more"
        return f"{spent}: {then} the federation closes fewer than its {self.rounds} rounds{self._who}"

    @property
    def _who(self) -> str:
        """Who was missing since when, as the end of a sentence."""
        if not self.missing:
            return ""
        since: dict[tuple[int, int], list[int]] = {}
        for each in self.missing[:MOST_NAMED]:
            since.setdefault((each.round, each.block), []).append(each.client)
        named = [
            f"{name_clients(clients)} since round {number} (block {block})"
            for (number, block), clients in since.items()
        ]
        more = len(self.missing) - MOST_NAMED
        return f"; missing: {', '.join([*named, f'and {more} more'] if more > 0 else named)}"


def setbacks(rounds: Rounds, terms: Terms) -> Setbacks:
    """Count the rounds that did not close, and find who was missing."""
    ended = rounds.ended()
    row = next((at for at, each in enumerate(reversed(ended)) if each.stands), len(ended))
    return Setbacks(
        rounds=terms.rounds,
        repeats=terms.repeats,
        closed=rounds.closed,
        in_vain=len(ended) - rounds.closed,
        in_a_row=row,
        ended=rounds.all_held(terms.rounds, terms.repeats),
        missing=_missing(rounds, ended),
    )


def _missing(rounds: Rounds, ended: list[RoundRecords]) -> tuple[Absentee, ...]:
    """Who was missing in the last of these rounds, and since which of them in a row."""
    since: dict[int, RoundRecords] = {}
    open_ends: Collection[int] | None = None
    for each in reversed(ended):
        absent = _absent(rounds, each)
        open_ends = absent if open_ends is None else [client for client in open_ends if client in absent]
        if not open_ends:
            break
        since.update(dict.fromkeys(open_ends, each))
    return tuple(Absentee(client, each.number, each.opened.opened_at) for client, each in sorted(since.items()))


def _absent(rounds: Rounds, current: RoundRecords) -> set[int]:
    """Clients that did not do their part in the last phase that a round reached."""
    expected = set(current.draws)
    if current.opened.sampling_rate == EVERYONE:
        expected.update(current.able)
    return expected.difference(_did_their_part(rounds, current))


def _did_their_part(rounds: Rounds, current: RoundRecords) -> Collection[int]:
    if current.is_spoilt(rounds.quorum):
        return current.releases
    if current.sealed is None:
        return current.draws
    return current.commits or current.shares or current.draws
