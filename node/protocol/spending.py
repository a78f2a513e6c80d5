"""Privacy budget spent by each client, computed from the ledger alone.

A client has spent in each round in which the ledger lists its upload, and somebody could have read what that was in.
Where nobody is to know who took part (``participation = "secret"``) every client has spent in all of these rounds;
towards readers of the ledger, who do know, a client then spends more, and both figures are kept. A round counts as the
terms say under which it was opened; without noise it costs everything.

**When a sum could have been read.** Masks come off when holders release shares. A holder puts its release on the
ledger first, and into the store when that is confirmed: while none is listed, no honest holder's share has left its
hands. Colluding holders may keep shares to themselves, one below the threshold at most: then a single release of an
honest holder is enough for them. So a round counts from the first release that is listed. It does not count by anything
that colluders alone list where honest holders must refuse (too few survived, or the noise that was lost would exceed a
budget): there it takes as many releases as recover a secret. What is in a release plays no part: whether its bytes can
be had is not the same for everybody, and what was spent must be.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import median_low

from fedgrove.ipfs.store import ContentReader
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.privacy.accountant import AGREEMENT, GaussianRelease, Release, affords, epsilon_of
from fedgrove.node.protocol.accounting import Accounting
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.content import MAX_JSON_BYTES
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

Releases = tuple[Release, ...]

_ANY_LEDGER = "0x" + 40 * "0"


@dataclass(frozen=True)
class SpentToReaders:
    """Privacy spent towards readers of the ledger, for terms that assume secret participation.

    Attributes
    ----------
    client : int
        Who has spent most, as it was drawn most, or the client that was asked about.
    epsilon : float or None
        What it has spent; None where nothing bounds it.
    median : float or None
        What half of the members have not exceeded.
    """

    client: int
    epsilon: float | None
    median: float | None


@dataclass(frozen=True)
class Spent:
    """Spent part of a privacy budget.

    Attributes
    ----------
    mechanism : str
        As in the terms.
    client : int
        Who has spent most, or the client that was asked about; 0 when nobody has uploaded.
    epsilon : float or None
        What it has spent at ``delta``; None where nothing bounds it.
    budget : float or None
        ε that nobody may exceed; None without a limit.
    to_readers : SpentToReaders or None
        Where ``epsilon`` holds only towards those who see the models and cannot read the ledger: what holds for others.
    """

    mechanism: str
    client: int
    epsilon: float | None
    delta: float
    budget: float | None
    to_readers: SpentToReaders | None = None

    def __str__(self) -> str:
        limit = "" if self.budget is None else f" of {self.budget:g}"
        who = f" by client {self.client}" if self.client else ""
        said = f"{_said(self.epsilon)}{limit} at δ = {self.delta:g} spent{who}"
        if self.to_readers is None:
            return said
        most = f"{_said(self.to_readers.epsilon)} by client {self.to_readers.client}"
        return (
            f"{said} towards observers of the models only; towards readers of the ledger {most}, "
            f"{_said(self.to_readers.median)} by the median member"
        )


@dataclass(eq=False, repr=False)
class Spending:
    """Answers questions of one moment.

    Parameters
    ----------
    method : Method
        That of the terms whose budget counts.
    store : ContentReader
        Where the terms of earlier rounds are, if they were others.
    rounds : Rounds
        The ledger.
    parameters : int
        d, of the model.

    Raises
    ------
    ipfs.store.StoreError
        By any method: the terms of an earlier round cannot be fetched.
    """

    method: Method
    store: ContentReader
    rounds: Rounds
    parameters: int

    def __post_init__(self) -> None:
        self._config = self.method.config
        self._own = self.method.accounting
        self._accountings = {cid_of(self._config.to_bytes()).digest: self._own}
        self._listed: dict[tuple[int, bool], Release] = {}
        self._opened: dict[int, bool] = {}

    @property
    def limited(self) -> bool:
        """The terms set a budget."""
        return self._own.budget is not None

    def of(
        self, client: int, through: int, own: Collection[int] = (), unmasking: int = 0, readers: bool = False
    ) -> Releases:
        """Releases about a client up to a round.

        Parameters
        ----------
        through : int
            The last round that counts.
        own : collection of int
            Rounds in which the client knows that it made an upload, also where the ledger does not list it.
        unmasking : int
            A round that counts as if its masks were off.
        readers : bool
            Towards those who can read the ledger.
        """
        self._judge_openings(through)
        entries = [each for number, each in self.rounds.rounds.items() if number <= through]
        listed = [
            self._release_about(each, client, each.number in own, each.number == unmasking, readers) for each in entries
        ]
        forgotten = [self._planned(self._own, number) for number in own if number not in self.rounds.rounds]
        return tuple(release for release in (*listed, *forgotten) if release is not None)

    def epsilon(self, client: int, through: int, own: Collection[int] = ()) -> float:
        """ε that a client has spent, at the δ of the terms; infinite without a mechanism."""
        return _epsilon(_sorted(self.of(client, through, own)), self._own.delta)

    def largest(self, through: int, clients: Iterable[int] | None = None, readers: bool = False) -> tuple[int, float]:
        """The client that has spent most up to a round (of all that uploaded), with its masks removed, and its ε.

        (0, 0.0) if there are none. ``readers``: towards those who can read the ledger.
        """
        chosen = self._uploaders(through) if clients is None else clients
        candidates = {
            _sorted(self.of(client, through, unmasking=through, readers=readers)): client for client in chosen
        }
        if candidates and all(map(_unsampled, candidates)):
            most = max(candidates, key=_cost)
            candidates = {most: candidates[most]}
        spent = ((_epsilon(releases, self._own.delta), client) for releases, client in candidates.items())
        epsilon, client = max(spent, default=(0.0, 0))
        return client, epsilon

    def summary(self, through: int, client: int = 0) -> Spent | None:
        """Privacy spent by a client up to a round (0: by the one that spent most); None without a mechanism."""
        if self._config.privacy is None:
            return None
        who, epsilon = (client, self.epsilon(client, through)) if client else self.largest(through)
        towards = self._to_readers(through, client) if self._own.everybody_spends else None
        return Spent(self._config.mechanism, who, _finite(epsilon), self._own.delta, self._own.budget, towards)

    def _to_readers(self, through: int, client: int) -> SpentToReaders:
        members = {
            member: _epsilon(_sorted(self.of(member, through, readers=True)), self._own.delta)
            for member in self.rounds.members
        }
        who, epsilon = (client, members.get(client, 0.0)) if client else self.largest(through, readers=True)
        median = median_low(members.values()) if members else 0.0
        return SpentToReaders(who, _finite(epsilon), _finite(median))

    def refusal(self, client: int, number: int, own: Collection[int] = ()) -> str:
        """Why a client must not be drawn in a round, in one clause; empty when it may be."""
        return self._own.unfit(number, self._members(number)) or self._unaffordable(client, number, own)

    def _unaffordable(self, client: int, number: int, own: Collection[int] = ()) -> str:
        """Why the budget of a client does not afford a round, in one clause; empty when it does."""
        if not self.limited:
            return ""
        budget, delta = self._own.budget, self._own.delta
        before = self.of(client, number - 1, own)
        after = _sorted((*before, self._planned(self._own, number)))
        if _affords(after, budget, delta):
            return ""
        spent, would = (_epsilon(releases, delta) for releases in (_sorted(before), after))
        return (
            f"its privacy budget is spent: ε = {spent:.4g} of {budget:g} at δ = {delta:g}, "
            f"and round {number} would make it {would:.4g}"
        )

    def overspent(self, current: RoundRecords) -> str:
        """Clause on a client whose budget a round would exceed with the uploaders' noise; empty if there is none.

        A client that drew although its budget forbade it harms itself alone, and keeps no round from closing.
        Machines may differ in the last digits of ε: what is only so far above the budget is within.
        """
        budget = self._own.budget
        if budget is None:
            return ""
        within = [client for client in current.commits if not self._unaffordable(client, current.number)]
        client, epsilon = self.largest(current.number, within)
        if epsilon <= budget * (1 + AGREEMENT):
            return ""
        return (
            f"with the noise of {len(current.commits)} of {len(current.shares)} clients, client {client} has spent "
            f"ε = {epsilon:.4g} of {budget:g} at δ = {self._own.delta:g}"
        )

    def exhausted(self, number: int) -> str:
        """Why no round from ``number`` on can have enough clients, in one clause; empty when one can or none is due."""
        starts, quorum, members = self._starts(number), self._config.ledger.quorum, len(self.rounds.members)
        if not self.limited or not starts or members < quorum:
            return ""
        able = max(len(self._able(start)) for start in starts)
        if able >= quorum:
            return ""
        return (
            f"the privacy budget is spent: {able} of {members} members can afford another round, "
            f"but {quorum} are needed"
        )

    def _able(self, number: int) -> list[int]:
        return [client for client in self.rounds.members if not self._unaffordable(client, number)]

    def _members(self, number: int) -> int:
        """K, of a round, or of the next."""
        current = self.rounds.rounds.get(number)
        return current.members if current is not None else len(self.rounds.members)

    def _starts(self, number: int) -> list[int]:
        """Rounds from ``number`` on that differ from those before them in what they cost."""
        rounds = self._config.rounds_to_close + self._config.federation.repeats
        return [start for start in (number, *self._own.later_phases(number)) if start <= rounds]

    def _uploaders(self, through: int) -> list[int]:
        entries = (each for number, each in self.rounds.rounds.items() if number <= through)
        return sorted({client for each in entries for client in each.commits})

    def _release_about(
        self, current: RoundRecords, client: int, made: bool, unmasking: bool, readers: bool
    ) -> Release | None:
        """Release of a round about a client; ``made``: it knows of an upload that the ledger may not list."""
        accounting = self._accounting_of(current) if current.commits or made else None
        if accounting is None:
            return None
        if client in current.order and not accounting.is_summed(current, client):
            return None
        listed = client in current.commits or (accounting.everybody_spends and not readers and current.commits)
        if not listed:
            return self._planned(accounting, current.number) if made else None
        if accounting.counts_when_opened and not unmasking and not self._opened[current.number]:
            return None
        if (current.number, readers) not in self._listed:
            release = accounting.release_to_readers if readers else accounting.release
            self._listed[current.number, readers] = release(current, self.parameters)
        return self._listed[current.number, readers]

    def _judge_openings(self, through: int) -> None:
        """Find out, round by round, whose sum somebody could have read: each depends on what was spent before it."""
        for number, each in self.rounds.rounds.items():
            if number <= through and number not in self._opened:
                self._opened[number] = each.stands  # known before more is asked, which may ask for it
                if each.commits and each.releases and not each.stands:
                    self._opened[number] = len(each.releases) >= self._enough(each)

    def _enough(self, current: RoundRecords) -> int:
        """How many releases must be listed before a round counts."""
        accounting = self._accounting_of(current)
        # Each member holds as many shares on every chain.
        groups = self.method.codec.groups(Cells(self.rounds, accounting.config), current)
        graph = current.graph(0, _ANY_LEDGER, accounting.config.masking, groups)
        try:
            needed_secrets(graph, current.positions(current.shares), current.positions(current.commits))
        except MaskingRefused:
            return graph.threshold
        return graph.threshold if accounting is self._own and self.overspent(current) else 1

    def _planned(self, accounting: Accounting, number: int) -> Release:
        return accounting.planned_release(number, self.parameters)

    def _accounting_of(self, current: RoundRecords) -> Accounting:
        digest = current.opened.config_digest
        if digest not in self._accountings:
            terms = self.store.fetch(digest, MAX_JSON_BYTES)
            self._accountings[digest] = self.method.read_terms(terms).accounting
        return self._accountings[digest]


def _said(epsilon: float | None) -> str:
    return "unbounded ε" if epsilon is None else f"ε = {epsilon:.4g}"


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _sorted(releases: Iterable[Release]) -> Releases:
    """The same releases in one order, so that equal spending is computed once."""
    return tuple(sorted(releases, key=repr))


def _unsampled(releases: Releases) -> bool:
    return all(
        isinstance(release, GaussianRelease) and release.rate == 1 and release.noise_multiplier > 0
        for release in releases
    )


def _cost(releases: Releases) -> float:
    """The quantity that ε grows with, for Gaussian noise without sampling."""
    gaussian = (release for release in releases if isinstance(release, GaussianRelease))
    return math.fsum(release.count / release.noise_multiplier**2 for release in gaussian)


@lru_cache(maxsize=4096)
def _epsilon(releases: Releases, delta: float) -> float:
    return epsilon_of(releases, delta)


@lru_cache(maxsize=4096)
def _affords(releases: Releases, epsilon: float, delta: float) -> bool:
    return affords(releases, epsilon, delta)
