"""A task's code as a node is to run it: a folder's bundle, or a shipped task, whose code is fedgrove's own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedgrove.ipfs.store import ContentStore
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.training.suggestion import TERMS, SuggestedTerms, suggested_by
from fedgrove.node.tasks.bundle import Bundle, draft, pack, publish
from fedgrove.node.tasks.folder import write_folder


@dataclass(frozen=True)
class TaskCode:
    """A task's code, and the terms that its author suggests; ``bundle`` is None for a shipped task."""

    bundle: Bundle | None
    suggestion: SuggestedTerms

    @property
    def name(self) -> str:
        """The bundle's CID, or the name of the shipped task."""
        return self.suggestion.task.name if self.bundle is None else str(self.bundle.cid)

    @property
    def settings(self) -> TaskSettings:
        return replace(self.suggestion.task, bundle="" if self.bundle is None else str(self.bundle.cid))

    def publish(self, store: ContentStore) -> None:
        if self.bundle is not None:
            publish(self.bundle, store)


def read_code(source: Path, changes: Mapping[str, Any] | None = None) -> TaskCode:
    """The task of a folder, or of one Python file; the lock is written where it is missing.

    Parameters
    ----------
    changes : mapping, optional
        Tables with keys of its ``terms.toml`` that get other values.

    Raises
    ------
    InvalidBundle
        It cannot be packed.
    InvalidConfig
        Its ``terms.toml`` is not right.
    """
    suggestion = suggested_by(source, changes)
    return TaskCode(None if _ships(source, suggestion) else pack(source), suggestion)


def draft_code(source: Path) -> TaskCode:
    """As ``read_code``, and nothing is written."""
    suggestion = suggested_by(source)
    return TaskCode(None if _ships(source, suggestion) else draft(source), suggestion)


def write_code(folder: Path, bundle: Bundle | None) -> None:
    """Make the read-only folder that a sandbox shows; of a shipped task it is empty."""
    write_folder(folder, {} if bundle is None else bundle.contents)


def _ships(source: Path, suggestion: SuggestedTerms) -> bool:
    """Whether a folder names a shipped task; InvalidConfig if it has code as well."""
    name = suggestion.task.name
    if name and any(source.glob("*.py")):
        raise InvalidConfig(f"{source / TERMS} names the shipped task {name}, and the folder has code: remove one")
    return bool(name)
