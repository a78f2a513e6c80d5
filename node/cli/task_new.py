"""``fedgrove task new``: a folder to begin a task with, of code or of terms for a table."""

from pathlib import Path
from typing import Annotated

import typer
from fedgrove.node.cli.output import CommandError, answer, print_json
from fedgrove.node.cli.table_format import TableFormatOptions, given_format
from fedgrove.node.cli.values import words
from fedgrove.node.learning.image_drafting import draft_image_terms
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.drafting import draft_terms
from fedgrove.node.learning.tables.files import InvalidTable
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.training.suggestion import TERMS
from fedgrove.node.tasks.beginning import KINDS, begin, write_new


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    kind: Annotated[str, typer.Option(help="Kind of data.", **words(*KINDS))] = "tabular",
    table: Annotated[
        Path | None, typer.Option(help="A table (CSV, Parquet, npz, xlsx): write terms for it, and no code.")
    ] = None,
    target: Annotated[str, typer.Option(help="With --table, the column that is to be learned.")] = "",
    table_format: TableFormatOptions = None,
    images: Annotated[
        Path | None,
        typer.Option(help="A folder with a folder of images for each class, or an npz: write terms, and no code."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print to stdout as JSON.")] = False,
) -> int:
    """Write a folder that runs: a task with model and data, a test, example data, a README.

    With --table and --target, or --images, the folder holds only terms.toml: shipped tasks need no code.

    Example: fedgrove task new readmission --kind tabular
    Example: fedgrove task new readmission --table train.csv --target readmitted
    Example: fedgrove task new moles --images pictures/train
    """
    if table is not None and images is not None:
        raise CommandError("--table and --images are for two kinds of data: give one of them")
    if table is not None:
        return _draft_table(folder, table, target, given_format(table_format), as_json)
    if images is not None:
        return _draft_images(folder, images, as_json)
    if kind not in KINDS:
        raise CommandError(f"--kind must be one of {', '.join(KINDS)}, not {kind!r}")
    names = begin(folder, kind)
    if as_json:
        print_json({"folder": str(folder), "kind": kind, "files": names})
    else:
        answer(f"wrote {', '.join(names)} to {folder}: start with README.md")
    return 0


def _draft_table(folder: Path, table: Path, target: str, form: TableFormat | None, as_json: bool) -> int:
    if not target:
        raise CommandError("--table needs --target: name the column that is to be learned")
    try:
        text = draft_terms(table, target, form or TableFormat())
    except InvalidTable as fault:
        raise CommandError(str(fault)) from None
    advice = "make its ranges and categories hold for every member's table, and read it before others do"
    return _write(folder, text, "table", f"drafted from {table.name}: {advice}", as_json)


def _draft_images(folder: Path, images: Path, as_json: bool) -> int:
    try:
        text = draft_image_terms(images)
    except DatasetError as fault:
        raise CommandError(str(fault)) from None
    advice = "make its classes and shape hold for every member's images"
    return _write(folder, text, "images", f"drafted from {images.name}: {advice}", as_json)


def _write(folder: Path, text: str, kind: str, how: str, as_json: bool) -> int:
    """Make a folder of terms only."""
    names = write_new(folder, {TERMS: text.encode()})
    if as_json:
        print_json({"folder": str(folder), "kind": kind, "files": names})
    else:
        answer(f"wrote {TERMS} to {folder}, {how}")
    return 0
