"""Runs what tests and checks the contracts outside Python: hardhat, forge, its gas snapshots, slither.

Slither's global exceptions stand in ``slither.config.json``, which has no room for reasons. They are: ``assembly``,
which is in use deliberately, in short blocks that are documented where they stand; ``low-level-calls``, for the one
call to EIP-2935's history contract, which has no ABI; ``pragma`` and ``solc-version``, because interfaces and the
library accept any recent compiler on purpose while contracts fix the one that made the artifacts. All others are
explained beside the code.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "node_modules"
HARDHAT = MODULES / ".bin" / "hardhat"
FORGE = MODULES / "@foundry-rs" / "forge-linux-amd64" / "bin" / "forge"
GAS_TESTS = "GasTest|LargeOrdersTest"
TIME_LIMIT = 600  # seconds; a first run compiles everything with a WebAssembly compiler


@pytest.fixture(autouse=True)
def node_modules() -> None:
    if not MODULES.is_dir():
        if os.environ.get("FEDGROVE_NO_NODE") == "1":
            pytest.skip("NOT CHECKED: the Solidity tools are missing, and FEDGROVE_NO_NODE=1 allows that")
        pytest.fail("The Solidity tools are missing: run `npm ci`, or set FEDGROVE_NO_NODE=1 to go without them.")


def tool(path: Path | str | None, hint: str) -> str:
    """The tool's path, or a failure that says how to get it."""
    if path is None or not Path(path).exists():
        pytest.fail(f"A tool is missing: {hint}.")
    return str(path)


def run(*command: str, **environment: str) -> str:
    """Output of a command in the repository; a failure with all of it when the command fails."""
    path = os.pathsep.join([str(FORGE.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-20_000:]}"
    return done.stdout


@pytest.fixture
def forge() -> str:
    return tool(FORGE, "forge comes with `npm ci` on Linux on x86-64; elsewhere install Foundry 1.7.1")


def test_hardhat_plays_a_round():
    output = run(tool(HARDHAT, "hardhat comes with `npm ci`"), "test", "--no-compile")
    assert "passing" in output and "failing" not in output


def test_forge_tests_pass_and_transactions_cost_what_the_snapshot_says(forge):
    run(forge, "test", "--gas-snapshot-check=true")


def test_the_gas_snapshot_is_current(forge):
    run(forge, "snapshot", "--check", "--match-contract", GAS_TESTS)


def test_slither_has_nothing_to_report(forge):
    slither = tool(
        shutil.which("slither", path=str(Path(sys.executable).parent)), "install fedgrove with its test extra"
    )
    assert " 0 result(s) found" in run(slither, ".", FOUNDRY_PROFILE="analysis")
