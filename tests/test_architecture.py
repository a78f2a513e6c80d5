"""The folders show the architecture: who may import whom (the rules stand in pyproject.toml, [tool.importlinter])."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
sys.modules["sklearn"] = None
import chain.history, chain.ledger, chain.networks, ipfs.disk, ipfs.kubo
import node.auditor, node.auditing.archive, node.coordinator, node.masking.aggregate
import node.cli.main
"""


def test_import_rules_hold():
    linter = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_everything_but_learning_runs_without_torch():
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
