"""Check the product's types with pyright: ``scripts/typecheck.py [PYRIGHT OPTIONS]``.

An editable install maps chain/, ipfs/ and node/ to ``fedgrove.*``, and lab/ to ``fedgrove_lab``, by an import hook,
which pyright does not run. So it checks a copy of the tree in the installed layout. Findings name the files of the
repository.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYRIGHT = ROOT / "node_modules" / ".bin" / "pyright"
STUBS = ROOT / "scripts" / "stubs"
INSIDE = ("chain", "ipfs", "node")
LAB = "fedgrove_lab"
# Rules beyond pyright's basic mode: those that find mistakes here and call for no ignores.
RULES = (
    "reportConstantRedefinition",
    "reportDuplicateImport",
    "reportImportCycles",
    "reportIncompleteStub",
    "reportInconsistentConstructor",
    "reportMissingParameterType",
    "reportUnnecessaryCast",
    "reportUnnecessaryContains",
    "reportUnnecessaryTypeIgnoreComment",
    "reportUntypedBaseClass",
    "reportUntypedClassDecorator",
    "reportUntypedFunctionDecorator",
    "reportUntypedNamedTuple",
    "reportUnusedClass",
    "reportUnusedFunction",
    "reportUnusedVariable",
    "strictListInference",
    "strictSetInference",
)
# Packages that are held to these rules as well. Those of the libraries' missing stubs are not among them.
STRICT = (
    "fedgrove/api",
    "fedgrove/chain/face",
    "fedgrove/chain/records",
    "fedgrove/common",
    "fedgrove/ipfs",
    "fedgrove/node/masking",
    "fedgrove/node/privacy",
    "fedgrove/node/tasks",
)
STRICT_RULES = (
    "reportMatchNotExhaustive",
    "reportMissingTypeArgument",
    "reportPrivateUsage",
    "reportUnknownArgumentType",
    "reportUnknownLambdaType",
    "reportUnknownMemberType",
    "reportUnknownParameterType",
    "reportUnknownVariableType",
    "reportUnnecessaryComparison",
    "reportUnnecessaryIsInstance",
)


def lay_out(folder: Path) -> None:
    """Copy the product below ``folder`` as it is installed, with a configuration of pyright."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fedgrove", folder / "fedgrove", ignore=ignored)
    for name in INSIDE:
        shutil.copytree(ROOT / name, folder / "fedgrove" / name, ignore=ignored)
    shutil.copytree(ROOT / "lab", folder / LAB, ignore=ignored)
    environment = Path(sys.prefix)
    config = {
        "include": ["fedgrove", LAB],
        "stubPath": str(STUBS),
        "venvPath": str(environment.parent),
        "venv": environment.name,
        "pythonVersion": "3.11",
        "typeCheckingMode": "basic",
        # eth_utils re-exports without __all__.
        "reportPrivateImportUsage": False,
        "executionEnvironments": [
            {"root": each, "extraPaths": ["."]} | dict.fromkeys(STRICT_RULES, True) for each in STRICT
        ],
    } | dict.fromkeys(RULES, True)
    (folder / "pyrightconfig.json").write_text(json.dumps(config, indent=2))


def main() -> int:
    """Run pyright, print what it found and return its exit code."""
    if not PYRIGHT.exists():
        print("pyright is not installed: run 'npm ci' first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        lay_out(folder)
        command = [str(PYRIGHT), "--project", str(folder), *sys.argv[1:]]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    found = done.stdout
    for inside in INSIDE:
        found = found.replace(f"{folder}/fedgrove/{inside}/", f"{inside}/")
    found = found.replace(f"{folder}/{LAB}/", "lab/")
    print(found.replace(f"{folder}/", ""), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
