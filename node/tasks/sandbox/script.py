"""An entry point for jobs that are one function of one file of a task: what the tests of the sandbox run, too."""

import importlib.util
from pathlib import Path
from typing import Any

from fedgrove.node.base.tensors import Tensors


def run(header: dict[str, Any], tensors: Tensors, task: Path, data: Path | None) -> tuple[dict[str, Any], Tensors]:
    """Call ``header["function"]`` of ``header["file"]`` with the header, the tensors and the path of the data."""
    path = task / header["file"] if task.is_dir() else task
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, header["function"])(header, tensors, data)
