"""The folders show the architecture: who may import whom (the rules stand in pyproject.toml, [tool.importlinter])."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fedgrove", "chain", "ipfs", "node")
IGNORED = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")

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
    """The product's wheel, unpacked as an installation has it."""
    source = tmp_path_factory.mktemp("wheel") / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=IGNORED)
    return _install(source)


@pytest.fixture(scope="module")
def installed_lab(tmp_path_factory) -> Path:
    """The lab's wheel."""
    source = tmp_path_factory.mktemp("lab") / "source"
    shutil.copytree(ROOT / "lab", source, ignore=IGNORED)
    return _install(source)


def _install(source: Path) -> Path:
    """Build a wheel of a copy, so that nothing is left in the repository, and unpack it."""
    folder = source.parent
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source], folder)
    _run([*pip, "install", "--no-deps", "--target", folder / "site", *folder.glob("*.whl")], folder)
    return folder / "site"


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


def test_the_wheel_of_the_lab_brings_every_module_of_it(installed_lab):
    here = {path.relative_to(ROOT / "lab") for path in (ROOT / "lab").rglob("*.py")}
    assert {path.relative_to(installed_lab / "fedgrove_lab") for path in installed_lab.rglob("*.py")} == here


def test_import_rules_hold(installed, installed_lab):
    linter = Path(sys.executable).parent / "lint-imports"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (installed, installed_lab)))}
    _run([linter, "--no-cache", "--config", ROOT / "pyproject.toml"], installed, env=paths)


def test_everything_but_learning_runs_without_torch():
    _run([sys.executable, "-c", WITHOUT_TORCH], ROOT)
