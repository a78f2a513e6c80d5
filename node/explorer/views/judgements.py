"""Suspected clusters before their committees: who showed what it sent, who voted how, who was expelled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.views.cluster_steps import ClusterStep
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.round_inputs import ballots_in
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.status.clusters import ClusterScore


@dataclass(frozen=True)
class Judgement:
    """A suspected cluster before its committee.

    Attributes
    ----------
    case : Case
        With the votes against each member, once they are counted.
    suspected, shown, voted : Step or None
        The rounds after which it was suspected, in which its members showed what they sent, and the judges voted.
    showed : Cluster
        Members that did show something, so far.
    ballots : mapping of int to Ballot
        By judge; who is missing sent none whose evidence opens, or none yet.
    """

    case: Case
    suspected: ClusterStep | None
    shown: ClusterStep | None = None
    voted: ClusterStep | None = None
    showed: Cluster = ()
    ballots: Mapping[int, Ballot] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Of the cluster, from 1."""
        return self.case.cluster + 1

    @property
    def needed(self) -> int:
        """Votes that expel: more than half of all seats."""
        return self.case.needed

    @property
    def awaited(self) -> bool:
        """Whether members may still show what they sent."""
        return self.shown is None or self.shown.row.status == "running"

    @property
    def score(self) -> ClusterScore | None:
        """That which made it suspect."""
        scores = self.suspected.scores if self.suspected else ()
        return next((each for each in scores if each.cluster == self.case.cluster and each.fell), None)

    @property
    def lines(self) -> list[tuple[int, list[str], int | None, bool]]:
        """Of each member: its number, what each judge says of it, the votes against it, and whether it is expelled."""
        against = self.case.against or (None,) * len(self.case.members)
        expelled = frozenset(self.case.expelled)
        return [
            (member, [self._said(judge, place) for judge in self.case.committee], votes, member in expelled)
            for place, (member, votes) in enumerate(zip(self.case.members, against, strict=False))
        ]

    def votes_against(self, member: int) -> int | None:
        """Of the committee; None before they are counted."""
        return dict(zip(self.case.members, self.case.against, strict=False)).get(member)

    def accused_by(self, judge: int) -> list[int]:
        """Whom a judge that voted calls malicious."""
        votes = zip(self.case.members, self.ballots[judge].against, strict=True)
        return [member for member, against in votes if against]

    def _said(self, judge: int, place: int) -> str:
        ballot = self.ballots.get(judge)
        return "none" if ballot is None else "against" if ballot.against[place] else "for"


def all_judgements(index: Index, steps: Sequence[ClusterStep], rule: Rule) -> list[Judgement]:
    """All suspected clusters, in order; ``rule`` is that of the terms."""
    found: list[Judgement] = []
    suspected = shown = None
    for step in steps:
        closed = step.row.status == "closed"
        if step.row.stage == "vote" and step.left and closed:
            found += _judged(index, step.left.state.cases, suspected, shown, step, rule)
            suspected = shown = None
        if step.row.stage == "show" and step.row.status in ("closed", "running"):
            shown = step
        if step.suspected:
            suspected = step
    if suspected:
        last = steps[-1]
        votes = last.row.stage == "vote" and last.row.status == "running"
        drawn = shown.left.state.cases if shown and shown.left else suspected.suspected
        found += _judged(index, drawn, suspected, shown, last if votes else None, rule)
    return found


def _judged(
    index: Index,
    cases: Iterable[Case],
    suspected: ClusterStep | None,
    shown: ClusterStep | None,
    voted: ClusterStep | None,
    rule: Rule,
) -> list[Judgement]:
    showed = frozenset(_spoke(index, shown.number)) if shown else frozenset()
    ballots: dict[int, dict[int, Ballot]] = {case.cluster: {} for case in cases}
    for client, data in _uploads(index, voted.number).items() if voted else ():
        for cluster, ballot in ballots_in(data, cases, client, rule).items():
            ballots[cluster][client] = ballot
    return [
        Judgement(case, suspected, shown, voted, tuple(m for m in case.members if m in showed), ballots[case.cluster])
        for case in cases
    ]


def _uploads(index: Index, number: int) -> dict[int, bytes]:
    """Small uploads of a round that are at hand, by client."""
    query = (
        "SELECT client, text FROM records JOIN named ON named.record = records.id JOIN blobs USING (digest)"
        " WHERE records.round = ? AND kind = 'Committed' AND named.role = 'update' AND text IS NOT NULL"
    )
    return {row["client"]: row["text"] for row in index.rows(query, number)}


def _spoke(index: Index, number: int) -> list[int]:
    """Who committed to anything in a round, rather than to nothing."""
    query = (
        "SELECT client FROM records JOIN named ON named.record = records.id JOIN blobs USING (digest)"
        " WHERE records.round = ? AND kind = 'Committed' AND named.role = 'update' AND size > 0"
    )
    return [row["client"] for row in index.rows(query, number)]
