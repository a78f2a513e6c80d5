"""``fedgrove predict``: a federation's model applied to somebody's own data, and scored where these are labelled."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedgrove.api.saving import write_new
from fedgrove.common.errors import InvalidContent, Refused
from fedgrove.node.base.spreadsheets import csv_text
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.histories import FromBlock, Kept, LedgerAddress, Rpc, Store, opened_history, place_of
from fedgrove.node.cli.options import (
    BaseOptions,
    ClusterMember,
    ClusterNumber,
    JsonFlag,
    Sandbox,
    TableFormatOptions,
    given_bases,
    given_format,
)
from fedgrove.node.cli.output import CommandError, answer, answer_with, or_say, print_json, refuse_existing
from fedgrove.node.learning.scores import ClassScores, NumberScores, Scores
from fedgrove.node.learning.settings import MAX_CONFUSED
from fedgrove.node.tasks.sandbox.modes import AUTO

if TYPE_CHECKING:
    from fedgrove.api.predicting import Predictor
    from fedgrove.node.protocol.prediction import Predictions


def predict(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A file of `fedgrove model save`; or a run's directory, a CAR file, a federation's TOML file, or a "
            "ledger's address with --rpc and --store.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="What to predict for, as training reads it; it needs no target.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file for the predictions; it must not exist.")] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="The data are labelled: say how good the predictions are.")
    ] = False,
    pictures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --evaluate, a new folder for the figures as SVG.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--round", min=1, help="Of a run: the round that closed with it.")
    ] = None,
    cluster: ClusterNumber = None,
    client: ClusterMember = None,
    task: Annotated[
        Path | None, typer.Option(help="Folder of a task of your own, whose code predicts; shipped tasks need none.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Or a client's directory, in which its account approved the task.")
    ] = None,
    account: Annotated[str, typer.Option(help="That account, where several approved it there.")] = "",
    base: BaseOptions = None,
    sandbox: Sandbox = AUTO,
    table_format: TableFormatOptions = None,
    rpc: Rpc = None,
    ledger: LedgerAddress = None,
    store: Store = None,
    from_block: FromBlock = 0,
    as_json: JsonFlag = False,
) -> int:
    """Predict with a federation's model: classes by name with probabilities, or numbers in the target's unit.

    A file of `fedgrove model save` is enough: it holds the terms, and no ledger is asked. Data that training would
    refuse are refused.

    Example: fedgrove predict model.safetensors --data new.csv --out predictions.csv

    Example: fedgrove predict runs/first --data test.csv --evaluate --pictures figures
    """
    require("learning", "`fedgrove predict`, which applies a model,")
    from fedgrove.api.predicting import scores_of  # brings torch

    if data is None:
        raise CommandError("give --data: the file to predict for")
    if out is None and not evaluate:
        raise CommandError("give --out: the CSV file for the predictions; or --evaluate for labelled data")
    if pictures is not None and not evaluate:
        raise CommandError("--pictures shows how good predictions are: add --evaluate, and give labelled data")
    refuse_existing([out, pictures], "give another name")
    if not data.exists():
        raise CommandError(f"there is no {data}: give --data what to predict for")
    options = {
        "cluster": cluster,
        "client": client,
        "task": task,
        "directory": directory,
        "account": account,
        "bases": given_bases(base),
        "sandbox": sandbox,
    }
    form = given_format(table_format)
    options["table_format"] = form.to_table() if form is not None else None
    predictor = _loaded(model, number, options, rpc, ledger, store, from_block)
    try:
        found = predictor.labelled(data) if evaluate else predictor.predict(data)
    except InvalidContent as fault:
        raise CommandError(f"the model cannot be applied: {fault}") from None
    except Refused as fault:
        raise CommandError(str(fault)) from None  # what was given cannot be read: nothing ran that failed
    scores = scores_of(found) if evaluate else None
    _write(found, scores, out, pictures)
    _report(found, scores, predictor, out, as_json)
    return 0


def _loaded(
    model: str | None,
    number: int | None,
    options: dict,
    rpc: list[str] | None,
    ledger: str | None,
    store: str | None,
    from_block: int,
) -> "Predictor":
    """The predictor of a file or of a history; what is wrong with it becomes one sentence."""
    from fedgrove.api.predicting import is_model_file, load

    place = place_of(model, rpc, ledger, store, from_block)
    with or_say(f"cannot read {model}"):
        if isinstance(place, Kept) and is_model_file(place.path):
            return load(place.path, number=number, **options)
        with opened_history(place) as history:
            return load(history, number=number, **options)


def _write(found: "Predictions", scores: Scores | None, out: Path | None, pictures: Path | None) -> None:
    advice = "name a place in a folder that is there"
    if out is not None:
        with or_say(f"cannot write {out}", advice):
            write_new(out, csv_text(found.columns, found.table()).encode())
    if pictures is not None and scores is not None:
        with or_say(f"cannot write {pictures}", advice):
            pictures.mkdir(parents=True)
            for name, picture in pictures_of(scores, found).items():
                write_new(pictures / f"{name}.svg", picture.encode())


def _report(
    found: "Predictions", scores: Scores | None, predictor: "Predictor", out: Path | None, as_json: bool
) -> None:
    if as_json:
        counts = {name: found.labels.count(name) for name in found.classes}
        document = {"predictions": len(found), "predicted": counts, "model": predictor.about}
        document |= {"file": str(out) if out is not None else None}
        print_json(document | ({"scores": scores.to_figures()} if scores is not None else {}))
        return
    if scores is not None:
        print_scores(scores)
    left_out = "; rows with a missing value have none" if int(found.rows[-1]) > len(found) else ""
    where = f" to {out}" if out is not None else ""
    answer(f"{'wrote ' if out else ''}{len(found)} predictions of {found.name}{where}{left_out}")


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
