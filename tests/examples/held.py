"""A federation on an example's folder: packed, trained in sandboxes under masks, audited."""

import shutil
from pathlib import Path

from fedgrove.node.scenario.reading import scenario
from tests.node.conftest import run_task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def copied(name: str, tmp_path: Path) -> Path:
    """The example's folder, where a test may add files to it."""
    return Path(shutil.copytree(EXAMPLES / name, tmp_path / name))


def held(folder: Path, source: Path, named: dict, out: Path) -> dict:
    """Hold a federation, audit it, and leave it in ``out`` as ``fedgrove demo --out`` does; its report."""
    return run_task(out, scenario(task=str(folder), data=str(source), **named)).report
