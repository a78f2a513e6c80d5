"""How good a round's models are: the coordinator's figures, and the members' confusion matrix."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from fedgrove.common.errors import InvalidContent
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.score_drawings import confusion
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.protocol.terms import FederationConfig

_NAMES = {
    "auc": "AUC",
    "balanced_accuracy": "Balanced accuracy",
    "brier": "Brier score",
    "calibration_error": "Calibration error",
    "r2": "R²",
    "mae": "Mean absolute error",
    "rmse": "Root mean squared error",
}


@dataclass(frozen=True)
class RoundScores:
    """Figures by their captions, and confusion matrices, of the closed model and of the one that the round began with.

    Attributes
    ----------
    own, members : Markup or None
        The coordinator's matrix, and that of all members' held-out samples together, which the audit recomputes.
    """

    figures: Sequence[tuple[str, str]]
    own: Markup | None
    members: Markup | None


def scores_of(index: Index, number: int) -> RoundScores | None:
    """What the metrics of a closed round say of its models; None where they say nothing, or are none."""
    text = index.value("SELECT text FROM rounds JOIN blobs ON digest = metrics WHERE number = ?", number)
    if text is None:
        return None
    try:
        found = Metrics.from_bytes(text)
    except InvalidContent:
        return None
    config = index.config_of(number)
    stated = found.scores.to_table() if found.scores is not None else {}
    own = confusion_of(stated.get("confusion"), config)
    summed = found.members.confusion if isinstance(found.members, MembersMetrics) else None
    members = confusion_of(summed.matrix.tolist() if summed is not None else None, config)
    if not stated and members is None:
        return None
    figures = [(name, f"{stated[key]:.4g}") for key, name in _NAMES.items() if key in stated]
    return RoundScores(figures, own, members)


def confusion_of(matrix: Sequence[Sequence[int]] | None, config: FederationConfig | None) -> Markup | None:
    """A matrix drawn with the names of the terms' classes, or with numbers where these are not at hand."""
    if not matrix:
        return None
    known = config.classes if config is not None else ()
    names = known if len(known) == len(matrix) else tuple(map(str, range(len(matrix))))
    return confusion([inert(name, 60) for name in names], np.array(matrix, np.int64))
