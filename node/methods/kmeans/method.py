"""Federated K-means with exact unlearning, as a method of federations."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.kmeans.codec import CountCodec
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.datasets import points_from_file
from fedgrove.node.methods.kmeans.prediction import CENTRES, NearestCentre
from fedgrove.node.methods.kmeans.round_inputs import groups_of, state_before
from fedgrove.node.methods.kmeans.schedule import OnRequest
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import terms_of
from fedgrove.node.protocol.accounting import NoMechanism
from fedgrove.node.protocol.cells import crowd_of
from fedgrove.node.protocol.local_work import LocalWork
from fedgrove.node.protocol.method import Aides, Method, Workplace
from fedgrove.node.protocol.prediction import ModelChoice, OpenTask, Predictor
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig


class KMeans(Method[KMeansState, BinCounts, np.ndarray]):
    """Members' points, counted in bins; whoever takes points back is forgotten exactly."""

    def __init__(self, config: FederationConfig, read_terms: Callable[[bytes], Method]) -> None:
        super().__init__(config, read_terms)
        self.codec = CountCodec(config)
        self.accounting = NoMechanism(config)
        self.schedule = OnRequest(config)

    def first_model(self) -> bytes:
        return KMeansState.empty(terms_of(self.config).dimensions).to_bytes()

    def read_model(self, data: bytes, layout: Layout | None = None) -> KMeansState:
        return KMeansState.from_bytes(data, terms_of(self.config))

    def model_bytes(self, model: KMeansState) -> bytes:
        return model.to_bytes()

    def layout_of(self, model: KMeansState) -> None:
        return None

    def inputs(
        self,
        rounds: Rounds,
        current: RoundRecords,
        ledger: tuple[int, str],
        store: ContentReader,
        model: KMeansState | None = None,
    ) -> RoundInputs[KMeansState]:
        state = state_before(rounds, current, self.config, store, model)
        groups = groups_of(rounds, current, state, self.config)
        least = crowd_of(current, self.config)
        graph = current.graph(*ledger, self.config.masking, groups, least)
        return RoundInputs(rounds, current, graph, self.config, store, lambda: state)

    def member_data(self, path: Path) -> np.ndarray:
        return points_from_file(path, terms_of(self.config).grid)

    def one_model(self, model: KMeansState, choice: ModelChoice) -> Tensors:
        if choice:
            raise InvalidConfig("there are centres for everybody: leave out which cluster's")
        if not len(model.centres):
            raise InvalidConfig("no round has found centres yet")
        return {CENTRES: model.centres.astype(np.float32)}

    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None = None) -> Predictor:
        return NearestCentre(self.config, tensors)

    def work(self, workplace: Workplace[KMeansState, np.ndarray]) -> LocalWork[BinCounts]:
        from fedgrove.node.methods.kmeans.client_work import LocalClustering

        own = (self.config, workplace.data, workplace.journal)
        return LocalClustering(*own, workplace.rounds, workplace.inputs)

    def aides(self, keys: Keys | None, test: np.ndarray | None) -> Aides[KMeansState]:
        return Aides()
