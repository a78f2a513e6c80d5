"""``fedgrove task new``: a folder to begin a task with, of code or of terms for a table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedgrove.node.base.memory import memory_limit
from fedgrove.node.cli.options import JsonFlag, TableFormatOptions, given_format
from fedgrove.node.cli.output import CommandError, report
from fedgrove.node.cli.values import words
from fedgrove.node.learning.drafting import draft
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.training.suggestion import TERMS
from fedgrove.node.tasks.beginning import KINDS, begin, write_new
from fedgrove.node.tasks.sandbox.faults import JobFailed, JobOutOfMemory, JobTimedOut
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.modes import contained_fault
from fedgrove.node.tasks.sandbox.settings import Mode, Visible
from fedgrove.node.tasks.sandbox.worker import Worker

_DRAFT = "fedgrove.node.learning.drafting:draft"
_DRAFT_SECONDS, _DRAFT_BYTES, _DRAFT_MEMORY = 1800.0, 4 << 20, 2 << 30


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
    as_json: JsonFlag = False,
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
    document = {"folder": str(folder), "kind": kind, "files": names}
    report(document, f"wrote {', '.join(names)} to {folder}: start with README.md", as_json)
    return 0


def _draft_table(folder: Path, table: Path, target: str, form: TableFormat | None, as_json: bool) -> int:
    if not target:
        raise CommandError("--table needs --target: name the column that is to be learned")
    text = _drafted(table, {"target": target, "format": (form or TableFormat()).to_table()})
    advice = "make its ranges and categories hold for every member's table, and read it before others do"
    return _write(folder, text, "table", f"drafted from {table.name}: {advice}", as_json)


def _draft_images(folder: Path, images: Path, as_json: bool) -> int:
    text = _drafted(images, {})
    advice = "make its classes and shape hold for every member's images"
    return _write(folder, text, "images", f"drafted from {images.name}: {advice}", as_json)


def _drafted(source: Path, header: dict[str, Any]) -> str:
    """The text of terms for a file or a folder, which is read in a process with bounds."""
    if not source.exists():
        raise CommandError(draft(header, {}, source, None)[0]["fault"])
    # The code is fedgrove's own: where nothing contains it, the limits of memory and time still hold.
    mode = Mode.CONTAINED if contained_fault() is None else Mode.OFF
    limits = JobLimits(seconds=_DRAFT_SECONDS, header=_DRAFT_BYTES, memory=min(_DRAFT_MEMORY, memory_limit()))
    try:
        with Worker(mode, Visible(source), limits) as worker:
            found = worker.run(_DRAFT, header).header
    except JobOutOfMemory:
        raise CommandError(f"{source.name} takes more than {_DRAFT_MEMORY >> 30} GiB of memory to read") from None
    except JobTimedOut:
        raise CommandError(f"{source.name} takes more than {_DRAFT_SECONDS / 60:g} minutes to read") from None
    except JobFailed as fault:
        raise CommandError(f"{source.name} cannot be read: {fault}") from None
    if not isinstance(found.get("text"), str):
        raise CommandError(str(found.get("fault")))
    return found["text"]


def _write(folder: Path, text: str, kind: str, how: str, as_json: bool) -> int:
    """Make a folder of terms only."""
    names = write_new(folder, {TERMS: text.encode()})
    report({"folder": str(folder), "kind": kind, "files": names}, f"wrote {TERMS} to {folder}, {how}", as_json)
    return 0
