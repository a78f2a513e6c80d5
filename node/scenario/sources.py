"""A scenario's task and data: the packed code, which source is whose, and points to cluster."""

from pathlib import Path

import numpy as np

from fedgrove.node.base.files import MARK
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.kmeans.datasets import Points, celltype, covtype, dealt, gaussian, points_of_file
from fedgrove.node.methods.training.task_code import read_code
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.scenario.settings import TaskChoice
from fedgrove.node.tasks.bundle import Bundle

NAMES = ("gaussian", "celltype", "covtype")
TEST = "test"
"""How the name of a source to evaluate on begins, next to the clients'."""


def packed(task: TaskChoice) -> tuple[Bundle | None, TaskSettings]:
    """The bundle of a task's folder, None for a shipped task, and the terms' table ``[task]``.

    Raises
    ------
    InvalidBundle
        The folder cannot be packed.
    InvalidConfig
        It packs to something else than the scenario names, or the table is not right.
    """
    bundle = read_code(Path(task.folder)).bundle if task.folder else None
    name = "" if bundle is None else str(bundle.cid)
    if task.bundle not in ("", name):
        raise InvalidConfig(f"task.bundle is {task.bundle}, and {task.folder} packs to {name}: give the folder of that")
    return bundle, TaskSettings(name, task.keep, dict(task.options), task.shared, task.bases, task.name)


def sources_of(source: Path, clients: int) -> tuple[list[Path], Path | None]:
    """A source for each client, in the order of their names, and one to evaluate on; none where all share one."""
    found = sorted(source.iterdir()) if source.is_dir() else []
    found = [each for each in found if not each.name.endswith(MARK)]  # that clients left next to their data
    tests = [each for each in found if each.name.startswith(TEST)]
    own = [each for each in found if each not in tests]
    return (own, tests[0] if tests else None) if len(own) == clients else ([], None)


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
