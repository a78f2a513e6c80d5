"""The nearest centre of each of somebody's points."""

from pathlib import Path

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.methods.kmeans.clustering import nearest
from fedgrove.node.methods.kmeans.datasets import points_from_file
from fedgrove.node.methods.kmeans.terms import terms_of
from fedgrove.node.protocol.prediction import Predictions
from fedgrove.node.protocol.terms import FederationConfig

CENTRES = "centres"


class NearestCentre:
    """Predicts the nearest centre, counted from 1, and the distance to it; no labels, as points have none."""

    def __init__(self, config: FederationConfig, tensors: Tensors) -> None:
        terms = terms_of(config)
        centres = tensors.get(CENTRES)
        fine = centres is not None and centres.ndim == 2 and 1 <= len(centres) <= terms.k
        if centres is None or not fine or centres.shape[1] != terms.dimensions:
            raise InvalidContent(f"these are not 1 to {terms.k} centres of {terms.dimensions} coordinates")
        self._centres, self._grid = centres.astype(np.float64), terms.grid

    def predict(self, source: Path, labelled: bool = False) -> Predictions:
        """As ``Predictor`` says."""
        if labelled:
            raise InvalidConfig("points have no labels, so nothing can be evaluated: predict without")
        points = points_from_file(source, self._grid)
        found = nearest(points, self._centres)
        distances = np.sqrt(np.square(points - self._centres[found]).sum(1))
        rows = np.arange(1, len(points) + 1)
        return Predictions("cluster", (), np.stack([found + 1, distances], 1), rows, numbers=("cluster", "distance"))
