"""The clusters over time: similarity, training groups, judgements and their consequences."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from fedgrove.chain.crypto.vrf import proof_to_hash
from fedgrove.common.errors import InvalidContent, Refused
from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.heatmap import Heatmap
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.views.rounds import CheckedRound, all_rounds
from fedgrove.node.masking.parameters import crowd
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.cover import as_threshold
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.leaders import draw_leader
from fedgrove.node.methods.procfl.round_inputs import ballots_in, course_of
from fedgrove.node.methods.procfl.standing import SmallCluster, small_clusters
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import terms_of
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.protocol.cells import crowd_of_all
from fedgrove.node.protocol.terms import PPM, FederationConfig
from fedgrove.node.status.clusters import ClusterScore, Left, config_from, has_clusters, hear

NO_STATE = Left(ClusterState("blind", ()))
_left = lru_cache(maxsize=512)(Left.from_row)


@dataclass(frozen=True)
class ClusterStep:
    """A round: what it began with, and what it left; None while it goes on, or where that is not at hand."""

    row: CheckedRound
    began: ClusterState | None
    left: Left | None = None

    @property
    def number(self) -> int:
        return self.row.round

    @property
    def scores(self) -> tuple[ClusterScore, ...]:
        return self.left.scores if self.left else ()

    @property
    def suspected(self) -> tuple[Case, ...]:
        """Whom it made suspect."""
        return self.left.state.cases if self.left and self.left.state.stage == "show" else ()

    @cached_property
    def trained(self) -> dict[int, int]:
        """The cluster, from 0, with whose members each client trained: its model, or its part of the one model."""
        groups = self.left.state.groups if self.left and self.row.stage == "train" else ()
        return {client: cluster for cluster, group in enumerate(groups) for client in group}

    @property
    def one_model(self) -> bool:
        """Whether all train one model."""
        return self.left is not None and len(self.left.state.models) == 1


def all_steps(index: Index, checks: Checks) -> list[ClusterStep]:
    """All rounds, in order."""
    left = {row["number"]: row for row in index.rows("SELECT number, clusters, scores FROM rounds")}
    found, base = [], NO_STATE
    for row in all_rounds(index, checks):
        kept, own = left.get(row.round), None
        if row.status == "closed" and kept is not None and kept["clusters"] is not None:
            own = _left(kept["clusters"], kept["scores"])
        found.append(ClusterStep(row, base.state if base else None, own))
        base = own if row.status == "closed" else base
    return found


@dataclass(frozen=True)
class Judgement:
    """A suspected cluster before its committee.

    Attributes
    ----------
    case : Case
        With the votes against each member, once they are counted.
    suspected, shown, voted : Step or None
        The rounds after which it was suspected, in which its members showed what they sent, and the judges voted.
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


_BEHIND = (
    "SELECT states.text AS head, model, stated.text AS metrics, terms.text AS terms FROM rounds"
    " JOIN blobs AS states ON states.digest = model JOIN blobs AS stated ON stated.digest = metrics"
    " JOIN blobs AS terms ON terms.digest = config WHERE status = 'closed'"
)


@dataclass(frozen=True)
class Matrix(Heatmap):
    """Similarity of the clients, in the order of the clusters.

    Attributes
    ----------
    stated : Step or None
        The round in which the overlaps were stated.
    """

    sizes: tuple[int, ...]
    stated: ClusterStep | None

    def likest(self, client: int, count: int = 5) -> list[tuple[int, float]]:
        """Clients that have most of a client's data, too, and how much."""
        if client not in self.clients:
            return []
        row = self.ism[self.clients.index(client)]
        others = [(other, share) for other, share in zip(self.clients, row, strict=True) if other != client]
        return sorted(others, key=lambda each: (-each[1], each[0]))[:count]

    def size(self, client: int) -> int | None:
        """Elements of a client's set."""
        return self.sizes[self.clients.index(client)] if client in self.clients else None


class ClustersView:
    """All that the index has of the clusters of one federation, as it is now."""

    def __init__(self, index: Index, checks: Checks, config: FederationConfig) -> None:
        self._index = index
        self._checks = checks
        self.terms = terms_of(config)
        self.course = course_of(config)
        self._config = config

    @cached_property
    def steps(self) -> list[ClusterStep]:
        """All rounds, in order."""
        return all_steps(self._index, self._checks)

    def step(self, number: int) -> ClusterStep | None:
        """The round with a number."""
        return next((step for step in self.steps if step.number == number), None)

    @cached_property
    def now(self) -> ClusterState:
        """What the last round that is known left."""
        return next((step.left.state for step in reversed(self.steps) if step.left), NO_STATE.state)

    @cached_property
    def matrix(self) -> Matrix | None:
        """Similarity of the clients; None before all have compared."""
        state = self._whole("clusters IS NOT NULL")
        if state is None or not state.overlaps:
            return None
        order = sorted(state.clients, key=lambda client: (self._home(client), client))
        rows = [state.rows[client] for client in order]
        alike = state.similarity.at_least(as_threshold(self.terms.alpha))[rows][:, rows]
        return Matrix(
            clients=tuple(order),
            homes=tuple(map(self._home, order)),
            ism=state.similarity.ism[rows][:, rows].tolist(),
            alike=alike.tolist(),
            sizes=tuple(state.sizes[client] for client in order),
            stated=self._stated(),
        )

    def groups(self, step: ClusterStep, stated: Mapping[int, int]) -> tuple[Cluster, ...]:
        """Who is summed apart in a round, by cluster; nobody without masks, or where what it began with is unknown."""
        if step.row.stage not in ("labels", "train"):
            return ()
        before = "SELECT max(number) FROM rounds WHERE number < ? AND status = 'closed'"
        state = self._whole(f"number = ({before})", step.number)
        try:
            return self.course.groups(state, stated, self._least(step)) if state else ()
        except (ValueError, LookupError, ArithmeticError, InvalidContent, Refused):
            return ()  # a state that the audit does not let pass

    def _least(self, step: ClusterStep) -> int:
        """Groups of fewer are not summed in a round (``procfl.round_inputs.least_of``)."""
        if self._config.rate_ppm(step.number) < PPM:
            return crowd(len(step.row.drawn_clients), self._config.masking.assumed)
        first = min([step.number, *(each.number for each in self.steps if each.row.closed)])
        before = "SELECT count(*) FROM members WHERE record < (SELECT opened FROM rounds WHERE number = ?)"
        return crowd_of_all(self._index.value(before, first), self._config)

    def leaders(self, step: ClusterStep, groups: Sequence[Cluster]) -> dict[int, int]:
        """Who leads each cluster in a round of training, by the draws of those who uploaded."""
        if step.row.stage != "train" or step.began is None:
            return {}
        clusters = step.began.clusters if self.course.is_global(step.began) else groups
        outputs = self._outputs(step.number)
        try:
            found = {cluster: draw_leader(members, outputs) for cluster, members in enumerate(clusters)}
        except OverflowError:
            return {}  # no ledger has clients of these numbers
        return {cluster: leader for cluster, leader in found.items() if leader is not None}

    def _outputs(self, number: int) -> dict[int, bytes]:
        """What the draws of those came to who committed in a round."""
        query = (
            "SELECT parts.client, fields FROM parts JOIN records ON records.id = parts.drawn"
            " WHERE parts.round = ? AND parts.committed IS NOT NULL"
        )
        proofs = {row["client"]: json.loads(row["fields"])["proof"] for row in self._index.rows(query, number)}
        outputs = {client: _output(proof) for client, proof in proofs.items()}
        return {client: output for client, output in outputs.items() if output is not None}

    def _whole(self, condition: str, *values: object) -> ClusterState | None:
        """What a round left, with the overlaps of all pairs; ``condition`` is of our own making."""
        row = self._index.row(f"{_BEHIND} AND {condition} ORDER BY number DESC LIMIT 1", *values)
        return _after_statement(*row) if row else None

    def _stated(self) -> ClusterStep | None:
        """The round after which all knew the clusters."""
        ended = (step for step in self.steps if step.row.stage == "answer")
        return next((step for step in ended if step.left and step.left.state.clusters), None)

    def _home(self, client: int) -> int:
        """The first cluster that a client is in, or was in before it was expelled."""
        state = self.now
        own = (k for k, members in enumerate(state.clusters) if client in members)
        return state.expelled.get(client, next(own, len(state.clusters)))

    @property
    def small(self) -> tuple[SmallCluster, ...]:
        """The clusters that have too few members for a sum; none when all rounds have closed."""
        if not self.steps or sum(step.row.closed for step in self.steps) >= self._config.rounds_to_close:
            return ()
        rows = self._index.rows("SELECT client, approved AND NOT has_left AS present FROM members")
        present = frozenset(row["client"] for row in rows if row["present"])
        return small_clusters(self.now, present, self._least(self.steps[-1]))

    @cached_property
    def judgements(self) -> list[Judgement]:
        """All suspected clusters, in order."""
        return all_judgements(self._index, self.steps, self.terms.rule)

    def of(self, client: int) -> list[int]:
        """The clusters that a client is in, from 0."""
        return [cluster for cluster, members in enumerate(self.now.clusters) if client in members]

    def judged_in(self, step: ClusterStep) -> list[Judgement]:
        """What was shown, or judged, in a round."""
        steps = [(each, (each.shown, each.voted)) for each in self.judgements]
        return [each for each, own in steps if any(other and other.number == step.number for other in own)]

    def expelled_from(self, cluster: int) -> list[int]:
        """Who was expelled from a cluster."""
        return [client for client, home in self.now.expelled.items() if home == cluster]

    def expelled_in(self, client: int) -> Judgement | None:
        """How a client came to be expelled."""
        return next((each for each in self.judgements if client in each.case.expelled), None)


def clusters_of(index: Index, checks: Checks) -> ClustersView | None:
    """What the index has of the clusters; None where the terms have none."""
    config = index.latest_config()
    return ClustersView(index, checks, config) if has_clusters(config) else None


@lru_cache(maxsize=1 << 12)
def _output(proof: str) -> bytes | None:
    """β of a proof in hex; None for what is no proof, which no contract of ours took."""
    try:
        return proof_to_hash(bytes.fromhex(proof))
    except (InvalidContent, ValueError):
        return None


@lru_cache(maxsize=4)
def _after_statement(
    head: bytes | None, digest: bytes | None, metrics: bytes | None, terms: bytes | None
) -> ClusterState | None:
    """A state as a whole, out of the columns of ``_BEHIND``."""
    if head is None or digest is None or metrics is None or terms is None:
        return None
    config = config_from(terms)
    left = hear(head, digest, metrics, config) if has_clusters(config) else None
    return left.state if left else None
