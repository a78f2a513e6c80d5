"""The clusters over time: similarity, training groups, judgements and their consequences."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fedgrove.chain.crypto.vrf import InvalidProof, proof_to_hash
from fedgrove.common.errors import InvalidContent, Refused
from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.heatmap import Heatmap
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.terms import latest_config
from fedgrove.node.explorer.views.cluster_steps import NO_STATE, ClusterStep, all_steps
from fedgrove.node.explorer.views.judgements import Judgement, all_judgements
from fedgrove.node.methods.procfl.cover import as_threshold
from fedgrove.node.methods.procfl.leaders import draw_leader
from fedgrove.node.methods.procfl.round_inputs import course_of
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import terms_of
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.clusters import config_from, has_clusters, hear

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
    sizes : tuple of int
        Of the clients' sets.
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
    """All that the index has of the clusters of one federation, as it is now.

    Parameters
    ----------
    index : Index
    checks : Checks
    config : FederationConfig
        Terms with clusters.
    """

    def __init__(self, index: Index, checks: Checks, config: FederationConfig) -> None:
        self._index = index
        self._checks = checks
        self.terms = terms_of(config)
        self.course = course_of(config)

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
        """Who is summed apart in a round, by cluster; nobody where it has no masks, or what it began with is unknown.

        Parameters
        ----------
        stated : mapping
            The number that each drawn client stated.
        """
        if step.row.stage not in ("labels", "train"):
            return ()
        before = "SELECT max(number) FROM rounds WHERE number < ? AND status = 'closed'"
        state = self._whole(f"number = ({before})", step.number)
        try:
            return self.course.groups(state, stated) if state else ()
        except (ValueError, LookupError, ArithmeticError, InvalidContent, Refused):
            return ()  # a state that the audit does not let pass

    def leaders(self, step: ClusterStep, groups: Sequence[Cluster]) -> dict[int, int]:
        """Who leads each cluster in a round of training, by the draws of those who uploaded.

        Parameters
        ----------
        groups : sequence of Cluster
            Who is summed apart, as ``groups`` has it.
        """
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
    config = latest_config(index)
    return ClustersView(index, checks, config) if has_clusters(config) else None


@lru_cache(maxsize=1 << 12)
def _output(proof: str) -> bytes | None:
    """β of a proof in hex; None for what is no proof, which no contract of ours took."""
    try:
        return proof_to_hash(bytes.fromhex(proof))
    except (InvalidProof, ValueError, InvalidContent, Refused):
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
