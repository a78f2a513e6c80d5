"""ProCFL (Xu et al. 2025): a model for each of several clusters, as a method of federations."""

from collections.abc import Callable
from typing import Any

from fedgrove.chain.crypto.keys import Keys
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.methods.procfl.codec import ClusterCodec, ClusterUpdate
from fedgrove.node.methods.procfl.round_inputs import accepted, course_of, groups_of, seated, state_after, state_before
from fedgrove.node.methods.procfl.schedule import ClusterSchedule
from fedgrove.node.methods.procfl.state import MAX_HEAD_BYTES, ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.training.learner import LearnedData, ModelMethod
from fedgrove.node.protocol.accounting import NoMechanism
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Metrics
from fedgrove.node.protocol.local_work import LocalWork
from fedgrove.node.protocol.method import Aides, Method, Workplace
from fedgrove.node.protocol.prediction import ModelChoice
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig


class ProCfl(ModelMethod[ClusterState, ClusterUpdate]):
    """Members find out who is like whom, train in two stages, and judge clusters whose models fell."""

    def __init__(self, config: FederationConfig, read_terms: Callable[[bytes], Method]) -> None:
        super().__init__(config, read_terms)
        self.codec = ClusterCodec(config)
        self.accounting = NoMechanism(config)
        self.schedule = ClusterSchedule(config)

    def first_from(self, tensors: Tensors) -> bytes:
        return ClusterState.first(tensors).to_bytes()

    def read_model(self, data: bytes, layout: Layout | None = None) -> ClusterState:
        return ClusterState.from_bytes(data, layout)

    def model_bytes(self, model: ClusterState) -> bytes:
        return model.to_bytes()

    def layout_of(self, model: ClusterState) -> Layout:
        return model.layout

    def inputs(
        self,
        rounds: Rounds,
        current: RoundRecords,
        ledger: tuple[int, str],
        store: ContentReader,
        model: ClusterState | None = None,
    ) -> RoundInputs[ClusterState]:
        config = self.config
        state = state_before(rounds, current, config, store, model)

        def trained() -> RoundInputs[ClusterState]:
            return self.inputs(rounds, rounds.base_before(current.number), ledger, store)

        state = seated(rounds, current, config, state, trained)
        graph = current.graph(*ledger, config.masking, groups_of(rounds, current, state, config))
        return RoundInputs(rounds, current, graph, config, store, lambda: state)

    def statement_fault(self, model: ClusterState, metrics: Metrics) -> str:
        state = model.to_bytes()
        try:
            accepted(self.config, model, cid_of(state).digest, Stated.of(metrics.stated))
        except InvalidContent as fault:
            return str(fault)
        sizes = (
            ("they take", len(metrics.to_bytes()), MAX_JSON_BYTES, "clients"),
            ("the state's clusters take", len(model.head()), MAX_HEAD_BYTES, "clusters"),
            ("its models take", len(state), self.config.max_blob_bytes, "clusters"),
        )
        faults = (
            f"{what} {size} bytes, but at most {most} are read: there are too many {several}"
            for what, size, most, several in sizes
            if size > most
        )
        return next(faults, "")

    def work(self, workplace: Workplace[ClusterState, LearnedData]) -> LocalWork[ClusterUpdate]:
        from fedgrove.node.methods.procfl.client_work import LocalClusters

        return LocalClusters(self.config, workplace)

    def aides(self, keys: Keys | None, test: LearnedData | None) -> Aides[ClusterState]:
        from fedgrove.node.methods.procfl.aides import aides

        return aides(self.config, keys, test)

    def one_model(self, model: ClusterState, choice: ModelChoice) -> Tensors:
        return model.model_of(self._cluster(model, choice))

    def _cluster(self, state: ClusterState, choice: ModelChoice) -> int:
        """The place of the chosen cluster; the first one's where there is one model for all."""
        count = len(state.clusters)
        if choice.cluster is not None and choice.client is not None:
            raise InvalidConfig("give the cluster or the client, not both")
        if choice.cluster is not None:
            if not 1 <= choice.cluster <= count:
                raise InvalidConfig(f"there are {count} clusters, so the cluster must be a number from 1 to {count}")
            return choice.cluster - 1
        if choice.client is not None:
            trained = [place for place, group in enumerate(state.groups) if choice.client in group]
            known = choice.client in state.rows
            own = trained or (course_of(self.config).options(state, choice.client) if known else ())
            if not own:
                raise InvalidConfig(f"client {choice.client} is in no cluster: name a cluster, from 1 to {count}")
            return own[0]
        if len(state.models) > 1:
            raise InvalidConfig(
                f"there is a model for each of {count} clusters: say which cluster's, or whose client's"
            )
        return 0

    def report(self, rounds: Rounds, store: ContentReader) -> dict[str, Any]:
        """``clusters``: who is in which at the end, what follows from whom they are like, and who was expelled."""
        base = rounds.base
        state = state_after(base, self.config, store) if base else self.fetch_model(store, rounds.model_digest)
        found = {
            "members": [list(members) for members in state.clusters],
            "clients": list(state.clients),
            "overlaps": [list(row) for row in state.overlaps],
            "expelled": sorted(state.expelled),
        }
        return {"clusters": found}
