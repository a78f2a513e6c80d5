"""Points that a command names: a dataset, or somebody's file, split among clients."""

from pathlib import Path

import numpy as np

from fedgrove.node.cli.output import CommandError
from fedgrove.node.methods.kmeans.datasets import Points, celltype, covtype, dealt, gaussian, points_of_file

NAMES = ("gaussian", "celltype", "covtype")


def points_by_name(
    name: str, directory: Path, clients: int, k: int, clusters_each: int = 0, count: int = 0, seed: int = 0
) -> Points:
    """Load and deal.

    Parameters
    ----------
    name : str
        One of NAMES, or a .npz or .safetensors file with the array ``points``.
    directory : Path
        Folder that holds the files of celltype and covtype.
    k : int
        Clusters; 0: the number known for the dataset.
    clusters_each, count, seed
        As of ``dealt``.

    Raises
    ------
    CommandError
        There is none of this name, its file cannot be used, or nobody knows how many clusters to look for.
    """
    found, known = _found(name, directory, k, seed)
    return dealt(Path(name).stem, found, known, clients, clusters_each, count, seed)


def _found(name: str, directory: Path, k: int, seed: int) -> tuple[np.ndarray, int]:
    """The points of that name, and the number of clusters to look for."""
    if Path(name).suffix in (".npz", ".safetensors"):
        if not k:
            raise CommandError("give the number of clusters: --k")
        return points_of_file(Path(name)), k
    if name not in NAMES:
        raise CommandError(f"points come from {', '.join(NAMES)}, or a .npz or .safetensors file, not from {name!r}")
    points = gaussian(seed=seed) if name == "gaussian" else {"celltype": celltype, "covtype": covtype}[name](directory)
    return points.points, k or points.k
