"""How good predictions are, as tables in the terminal and as pictures."""

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from fedgrove.node.cli.output import answer, answer_with
from fedgrove.node.learning.scores import ClassScores, NumberScores, Scores
from fedgrove.node.learning.settings import MAX_CONFUSED

if TYPE_CHECKING:
    from fedgrove.node.protocol.prediction import Predictions

_MOST_CLASSES = 12  # a terminal shows no larger matrix


def print_scores(scores: Scores) -> None:
    """Print the figures, and of classes the confusion matrix and the calibration, to stdout."""
    for name, value in _figures(scores):
        answer(f"{name:<28}{value}")
    if not isinstance(scores, ClassScores):
        return
    if len(scores.classes) <= _MOST_CLASSES:
        answer_with(_matrix(scores))
    answer_with(_calibration(scores))


def _figures(scores: Scores) -> list[tuple[str, str]]:
    if isinstance(scores, NumberScores):
        return [
            ("samples", str(scores.samples)),
            ("R²", _number(scores.r2, "all targets are equal")),
            ("mean absolute error", f"{scores.mae:.6g}"),
            ("root mean squared error", f"{scores.rmse:.6g}"),
        ]
    counts = scores.confusion
    several = (
        " (mean of each class against the rest)"
        if len(scores.classes) > 2
        else f" (of {', '.join(scores.classes[1:])})"
    )
    auc = _number(scores.auc, "a class has no samples") + (several if scores.auc is not None else "")
    found = [
        ("samples", str(counts.samples)),
        ("accuracy", _number(counts.accuracy)),
        ("balanced accuracy", _number(counts.balanced_accuracy)),
        ("AUC", auc),
        ("Brier score", _number(scores.brier)),
        ("log loss", _number(scores.log_loss)),
        ("expected calibration error", _number(scores.calibration_error)),
    ]
    only = counts.only_class
    if only is not None:
        found.append(("warning", f"the model predicts {scores.classes[only]} for every sample"))
    return found


def _matrix(scores: ClassScores) -> Table:
    table = Table("is \\ predicted", title="confusion matrix")
    for name in scores.classes:
        table.add_column(Text(name), justify="right")
    for name, row in zip(scores.classes, scores.confusion.matrix.tolist(), strict=True):
        table.add_row(Text(name), *map(str, row))
    return table


def _calibration(scores: ClassScores) -> Table:
    table = Table("probability", "samples", "stated", "right", title="calibration of the predicted class")
    for each in scores.calibration:
        span = f"{each.low:.1f} to {each.high:.1f}"
        table.add_row(span, str(each.count), f"{each.stated:.3f}", f"{each.right:.3f}")
    return table


def _number(value: float | None, why: str = "") -> str:
    return f"{value:.4f}" if value is not None else f"none: {why}"


def pictures_of(scores: Scores, found: "Predictions") -> dict[str, str]:
    """Pictures by name, as SVG that stands alone; of many classes, that of the calibration only."""
    from fedgrove.node.explorer.score_drawings import calibration, confusion, receiver, scatter, standalone

    if isinstance(scores, NumberScores):
        assert found.truth is not None  # the scores are of it
        return {"predictions": standalone(scatter(found.truth, found.values, found.name))}
    drawn = {"calibration": calibration(scores.calibration)}
    if len(scores.classes) <= MAX_CONFUSED:  # more grow to gigabytes, and nobody can tell them apart
        drawn["confusion"] = confusion(scores.classes, scores.confusion.matrix)
        if scores.roc:
            drawn["roc"] = receiver(scores.classes, scores.roc)
    return {name: standalone(picture) for name, picture in drawn.items()}
