"""Terms drafted from a member's file, as a job of a process with bounds: its author may have meant it to be a bomb."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.image_drafting import draft_image_terms
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.drafting import draft_terms
from fedgrove.node.learning.tables.files import InvalidTable
from fedgrove.node.learning.tables.formats import TableFormat


def draft(header: Mapping[str, Any], tensors: Tensors, source: Path, data: Path | None) -> tuple[dict, Tensors]:
    """The ``text`` of terms for a table (with ``target`` and ``format``) or for images, or a ``fault``."""
    try:
        if "target" in header:
            return {"text": draft_terms(source, header["target"], TableFormat.of(header["format"]))}, {}
        return {"text": draft_image_terms(source)}, {}
    except (InvalidTable, DatasetError) as fault:
        return {"fault": str(fault)}, {}
