"""K-means on this machine: points that are split among the clients, who cluster them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.method import MethodRunner, check_untrained
from fedgrove.node.devnet.subject import ArraysSubject
from fedgrove.node.devnet.windows import windows
from fedgrove.node.methods.kmeans.datasets import Points, celltype, covtype, dealt, gaussian, points_of_file
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.kmeans.vector import stated_bound
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings
from fedgrove.node.scenario.kmeans import KMeansChoice
from fedgrove.node.scenario.method import TrainingChoice
from fedgrove.node.scenario.scenario import Scenario

NAMES = ("gaussian", "celltype", "covtype")
_CLUSTERING_SECONDS = 1.0  # seeding and a sum of counts, all clients together
_GATHER_SECONDS = 5.0  # for which a testnet gathers requests to forget: people are looking on


class PointsSubject(ArraysSubject):
    """Points that the clients cluster.

    Parameters
    ----------
    points : Points
    gather_blocks : int, optional
        Blocks for which a round gathers requests; None: as the terms have it.
    """

    def __init__(self, points: Points, gather_blocks: int | None = None) -> None:
        self._points = points
        self._pace = {} if gather_blocks is None else {"gather_blocks": gather_blocks}

    def found(self, scenario: Scenario, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """As ``Subject`` says."""
        points, federation = self._points, scenario.federation
        k, dimensions, iterations = points.k, points.parts[0].shape[1], choice_of(scenario).iterations
        ledger = replace(windows(len(points.parts)), max_samples=max(stated_bound(len(part)) for part in points.parts))
        terms = FederationConfig(
            federation=FederationSettings(name=federation.name, rounds=federation.rounds, seed=federation.seed),
            method=KMeansTerms(k=k, dimensions=dimensions, step=points.step, iterations=iterations, **self._pace),
            ledger=ledger,
        )
        config = with_first_model(terms)
        return config, method_of(config).first_model()

    def parts(self, config: FederationConfig) -> Sequence[Any]:
        """Each client's points."""
        return self._points.parts

    def test(self, config: FederationConfig) -> None:
        """Nobody evaluates."""
        return

    def seconds(self, config: FederationConfig, first: bytes) -> float:
        """As ``Subject`` says."""
        return _CLUSTERING_SECONDS

    def arrays(self, data: np.ndarray, use: str) -> dict[str, np.ndarray]:
        """A client's points, as ``member_data`` of the method reads them."""
        return {"points": data}


class PointsRunner(MethodRunner):
    """Points are clustered, and members can have theirs forgotten."""

    def check(self, scenario: Scenario) -> None:
        check_untrained(scenario)

    def subject(
        self, scenario: Scenario, stack: ExitStack, say: Callable[[str], None], remedy: str = ""
    ) -> PointsSubject:
        return PointsSubject(points_of(scenario), max(1, round(_GATHER_SECONDS / scenario.run.block_seconds)))


def choice_of(scenario: Scenario) -> KMeansChoice:
    """The scenario's table ``[kmeans]``; InvalidConfig if it has none."""
    if isinstance(scenario.method, KMeansChoice):
        return scenario.method
    if type(scenario.method) is TrainingChoice:
        raise InvalidConfig("kmeans is missing: give a scenario with a table [kmeans]")
    raise InvalidConfig(f"{scenario.method.name} is for models: leave it out with kmeans")


def points_of(scenario: Scenario) -> Points:
    """Load the points and split them among the clients, for a scenario with a table ``[kmeans]``.

    Raises
    ------
    InvalidConfig
        There are none of this name, or nobody knows how many clusters to look for.
    DatasetError
        The file cannot be used, or there are too few points.
    """
    cast, choice = scenario.cast, choice_of(scenario)
    found, known = _found(cast.dataset, Path(scenario.run.data_dir or "data"), choice.k, scenario.federation.seed)
    name, count, seed = Path(cast.dataset).stem, cast.train_samples, scenario.federation.seed
    return dealt(name, found, known, cast.clients, clusters_each=choice.clusters_each, count=count, seed=seed)


def _found(name: str, directory: Path, k: int, seed: int) -> tuple[np.ndarray, int]:
    """The points of that name, and the number of clusters to look for."""
    if Path(name).suffix in (".npz", ".safetensors"):
        if not k:
            raise InvalidConfig("kmeans.k is missing: give the number of clusters, --k")
        return points_of_file(Path(name)), k
    if name not in NAMES:
        raise InvalidConfig(
            f"scenario.dataset must be one of {', '.join(NAMES)}, or a .npz or .safetensors file, not {name!r}"
        )
    points = gaussian(seed=seed) if name == "gaussian" else {"celltype": celltype, "covtype": covtype}[name](directory)
    return points.points, k or points.k
