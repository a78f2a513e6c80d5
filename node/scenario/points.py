"""Points that a scenario's clients cluster: a data set, or somebody's file, split among them."""

from pathlib import Path

import numpy as np

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.kmeans.datasets import Points, celltype, covtype, dealt, gaussian, points_of_file
from fedgrove.node.scenario.scenario import Scenario

NAMES = ("gaussian", "celltype", "covtype")


def points_of(scenario: Scenario) -> Points:
    """Load the points and split them among the clients, for a scenario with a table ``[kmeans]``.

    Raises
    ------
    InvalidConfig
        There are none of this name, or nobody knows how many clusters to look for.
    DatasetError
        The file cannot be used, or there are too few points.
    """
    cast, choice = scenario.cast, scenario.kmeans
    if choice is None:
        raise InvalidConfig("kmeans is missing: give a scenario with a table [kmeans]")
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
