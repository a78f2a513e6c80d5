"""``fedgrove task base``: name a frozen base by its content; what the commands of tasks have in common."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.frozen_base import FrozenBase
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.options import JsonFlag
from fedgrove.node.cli.output import CommandError, answer, note, print_json
from fedgrove.node.cli.stores import open_for_writing
from fedgrove.node.tasks.base_content import BaseContent, content_of, publish_base
from fedgrove.node.tasks.bundle import Bundle

StoreOption = Annotated[str | None, typer.Option("--store", help="disk:PATH, or the URL of a Kubo API.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A federation's TOML file, whose store is used if --store is not given.")
]


def describe_base(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the task's code calls it.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder, with a pretrained model.")],
    store: StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Compute a frozen base's CID and size, as terms name it, and put it into a store if one is given.

    Prints the table for the task's terms.toml and for the federation's file.

    Example: fedgrove task base minilm models/minilm >> mine/terms.toml
    """
    place = store_name(store, config, needed=False)
    content = content_of(path)
    base = _named(name, content)
    if place:
        publish_base(path, base, open_for_writing(place))
    if as_json:
        print_json({**asdict(base), "store": place})
    else:
        note(f"{path}: {'in ' + place if place else 'not put into a store'}")
        answer(f'[[task.bases]]\nname = "{base.name}"\ncid = "{base.cid}"\nsize = {base.size}')
    return 0


def bases_of(bundle: Bundle) -> tuple[FrozenBase, ...]:
    """The frozen bases that the bundle's author names in its terms; none where these cannot be read."""
    from fedgrove.node.methods.training.suggestion import TERMS, read_suggestion  # brings every method

    try:
        return read_suggestion(bundle.contents.get(TERMS), f"{TERMS} of the task").task.bases
    except InvalidConfig as fault:
        note(f"no federation can take the terms that the task suggests: {fault}")
        return ()


def base_line(base: FrozenBase) -> str:
    """A base in one line."""
    return f"base {base.name} {base.cid}: {base.size} bytes"


def _named(name: str, content: BaseContent) -> FrozenBase:
    try:
        return FrozenBase(name, str(content.cid), content.size)
    except (ValueError, InvalidInput) as fault:
        raise CommandError(f"{name}: {fault}") from None


def store_name(store: str | None, config: Path | None, needed: bool) -> str:
    """What ``--store`` says, or the store of the federation's file; empty where there is neither."""
    name = store or (_store_of(config) if config else "")
    if needed and not name:
        raise CommandError("give --store (disk:PATH or the URL of a Kubo API), or --config with a file that has one")
    return name


def _store_of(config: Path) -> str:
    from fedgrove.node.methods.terms import load_config  # brings every method, which the other options do without

    return load_config(config)[1].store
