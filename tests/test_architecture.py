"""The folders show the architecture: who may import whom (the rules stand in pyproject.toml, [tool.importlinter])."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fedgrove", "chain", "ipfs", "node")

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
sys.modules["sklearn"] = None
import fedgrove.chain.network.history, fedgrove.chain.face.ledger, fedgrove.chain.face.networks
import fedgrove.ipfs.disk, fedgrove.ipfs.kubo
import fedgrove.node.audit.auditor, fedgrove.node.audit.archive, fedgrove.node.roles.coordinator
import fedgrove.node.masking.aggregate
import fedgrove.node.cli.main
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel, unpacked as an installation has it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, _copy(folder / "source")], folder)
    site = folder / "site"
    _run([*pip, "install", "--no-deps", "--target", site, *folder.glob("*.whl")], folder)
    return site


def _copy(folder: Path) -> Path:
    """The sources, so that building leaves nothing in the repository."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        folder.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _run(command: list, cwd: Path, **options) -> subprocess.CompletedProcess:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def test_the_wheel_brings_one_import_name_and_every_file(installed):
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} - {"bin"} == {"fedgrove"}
    here = {
        Path("fedgrove") / (path.relative_to(ROOT / "fedgrove") if name == "fedgrove" else path.relative_to(ROOT))
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path.relative_to(installed) for path in (installed / "fedgrove").rglob("*") if path.is_file()}
    assert {path for path in there if "__pycache__" not in path.parts} == here


def test_import_rules_hold(installed):
    linter = Path(sys.executable).parent / "lint-imports"
    paths = {**os.environ, "PYTHONPATH": str(installed)}
    _run([linter, "--no-cache", "--config", ROOT / "pyproject.toml"], installed, env=paths)


def test_everything_but_learning_runs_without_torch():
    _run([sys.executable, "-c", WITHOUT_TORCH], ROOT)
