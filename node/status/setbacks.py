"""Rounds that left no model, and who was missing in them: what logs, metrics, ``status`` and ``doctor`` warn of.

A sealed round that failed uses up one of the terms' ``federation.repeats``; a skipped one does not, and one that waits
for its quorum waits. Where rounds leave no model in a row, the next one is opened later and later, so that a member
that is away for a while does not use up the repeats; people must hear of it while there are some left.
"""

from collections.abc import Collection
from dataclasses import dataclass

from fedgrove.chain.crypto.tree import EVERYONE
from fedgrove.chain.records import Phase
from fedgrove.chain.records.deployment import Terms
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.step import name_clients

MOST_NAMED = 10
"""Missing clients that a sentence names."""
_IN_A_ROW = 2
_WORTH_A_WARNING, _URGENT = 0.5, 0.8


@dataclass(frozen=True)
class Absentee:
    """A client that has not done its part since a round, and the block in which that was opened."""

    client: int
    round: int
    block: int


@dataclass(frozen=True)
class Setbacks:
    """How many rounds left no model, and who was missing.

    Attributes
    ----------
    rounds, repeats : int
        Rounds that the terms want to close, and sealed ones that may fail before none can follow.
    closed, in_vain : int
        Rounds that closed and stand, and the others that have ended.
    failed : int
        Of these, the sealed ones that failed: each uses up a repeat.
    in_a_row : int
        Rounds that failed or were skipped since the last one that stands.
    opens_after : int
        The block up to which the next opening waits because of these; 0 where it does not wait.
    missing : tuple of Absentee
        Who did not do their part in the latest round that has ended. In a round with a sample, only clients that drew:
        nobody can tell who else was in it.
    """

    rounds: int
    repeats: int
    closed: int
    in_vain: int
    failed: int
    in_a_row: int
    opens_after: int
    ended: bool
    missing: tuple[Absentee, ...]

    @property
    def left(self) -> int:
        """How many more sealed rounds may fail."""
        return max(0, self.repeats - self.failed)

    @property
    def without_result(self) -> bool:
        """No round can follow, and none has closed."""
        return self.ended and not self.closed

    @property
    def is_urgent(self) -> bool:
        """Most of the repeats are used up, or there is no result."""
        return self.without_result or self._used_up(_URGENT)

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
            waits = f", so the next one is not opened before block {self.opens_after}" if self.opens_after else ""
            found.append(f"the last {self.in_a_row} rounds left no model{waits}{self._who}")
        if self._used_up(_WORTH_A_WARNING):
            found.append(self._spent())
        return tuple(found)

    def _used_up(self, share: float) -> bool:
        return self.failed > 0 and self.failed >= share * self.repeats

    def _spent(self) -> str:
        many = "most" if self._used_up(_URGENT) else "half"
        count = "1 sealed round" if self.failed == 1 else f"{self.failed} sealed rounds"
        left = f"{self.left} repeats are left" if self.left != 1 else "1 repeat is left"
        spent = f"{many} of federation.repeats is used up: {count} failed, and {left} of {self.repeats}"
        return f"{spent}; one failure more than that ends it with {self.closed} of {self.rounds} rounds{self._who}"

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


def setbacks(rounds: Rounds, terms: Terms, draw_window: int) -> Setbacks:
    """Count the rounds that left no model, and find who was missing; ``draw_window`` in blocks."""
    ended, over = rounds.ended(), rounds.all_held(terms.rounds, terms.repeats)
    pause = rounds.pause(draw_window)
    waits = pause > 0 and not over and rounds.last.end is not None
    return Setbacks(
        rounds=terms.rounds,
        repeats=terms.repeats,
        closed=rounds.closed,
        in_vain=len(ended) - rounds.closed,
        failed=rounds.failed,
        in_a_row=rounds.in_vain,
        opens_after=rounds.last.ending.at.block + pause if waits else 0,
        ended=over,
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
        # Who judges that nothing may be summed releases nothing.
        return {*current.releases, *current.judgements(Phase.RECOVER)} or current.commits
    if current.sealed is None:
        return current.draws
    return current.commits or current.shares or current.draws
