"""Compile the contracts into the artifacts that the package ships: ``python scripts/compile.py [--check]``.

The compiler is the npm package ``solc`` behind ``scripts/solc``; ``npm ci`` must have run.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import solcx

ROOT = Path(__file__).resolve().parent.parent
COMPILER = ROOT / "scripts" / "solc"
ARTIFACTS = ROOT / "chain" / "artifacts"
SHIPPED = {
    "ClientRegistry": "contracts/ClientRegistry.sol",
    "TrainingLedger": "contracts/TrainingLedger.sol",
    "ECVRFGauge": "contracts/tools/ECVRFGauge.sol",
}
MAX_CODE_BYTES = 24_576
"""The most that a chain deploys (EIP-170)."""
SETTINGS = {
    "viaIR": True,
    "optimizer": {"enabled": True, "runs": 500},
    "evmVersion": "cancun",
    # The bytecode then depends on the code alone, not on comments or paths.
    "metadata": {"appendCBOR": False, "bytecodeHash": "none"},
    "outputSelection": {"*": {"": ["ast"], "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode"]}},
}


def compile_contracts() -> dict[str, dict]:
    """Compile every contract and return the artifacts of the shipped ones by name.

    Raises
    ------
    SystemExit
        When the npm packages are missing.
    solcx.exceptions.SolcError
        When the sources do not compile; the message is the compiler's.
    """
    if not (ROOT / "node_modules" / "solc").is_dir():
        sys.exit("The Solidity compiler is not installed: run `npm ci` in the repository first.")
    sources = {
        path.relative_to(ROOT).as_posix(): {"content": path.read_text("utf-8")}
        for path in sorted((ROOT / "contracts").rglob("*.sol"))
    }
    output = solcx.compile_standard(
        {"language": "Solidity", "sources": sources, "settings": SETTINGS}, solc_binary=COMPILER
    )
    immutables = dict(_immutables([source["ast"] for source in output["sources"].values()]))
    return {name: _artifact(name, output["contracts"][path][name], immutables) for name, path in SHIPPED.items()}


def _artifact(name: str, compiled: dict, immutables: dict[str, str]) -> dict:
    evm = compiled["evm"]
    references = evm["deployedBytecode"]["immutableReferences"]
    places = {immutables[number]: references[number] for number in sorted(references, key=immutables.__getitem__)}
    assert len(places) == len(references), f"two immutables of {name} have the same name"
    settings = {key: value for key, value in SETTINGS.items() if key != "outputSelection"}
    return {
        "contractName": name,
        "abi": compiled["abi"],
        "bytecode": "0x" + evm["bytecode"]["object"],
        "deployedBytecode": "0x" + evm["deployedBytecode"]["object"],
        # Where the deployed code holds each immutable, by its name; the compiler says it by a number of its own.
        "immutableReferences": places,
        "compiler": {"name": "solc", "version": _compiler_version(), "settings": settings},
    }


def _immutables(tree: Any) -> Iterator[tuple[str, str]]:
    """The number and the name of every immutable variable in the compiler's syntax trees."""
    if isinstance(tree, dict):
        if tree.get("mutability") == "immutable":
            yield str(tree["id"]), tree["name"]
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _immutables(branch)


def _compiler_version() -> str:
    return json.loads((ROOT / "node_modules" / "solc" / "package.json").read_text("utf-8"))["version"]


def code_bytes(artifact: dict) -> int:
    """The length of the code that a deployment leaves on the chain."""
    return len(artifact["deployedBytecode"]) // 2 - 1


def dump(artifact: dict) -> str:
    """The text of an artifact's file."""
    return json.dumps(artifact, indent=1) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compile the contracts into chain/artifacts.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a shipped artifact differs")
    check = parser.parse_args(arguments).check
    different = []
    for name, artifact in compile_contracts().items():
        path, text = ARTIFACTS / f"{name}.json", dump(artifact)
        if not path.exists() or path.read_text("utf-8") != text:
            different.append(path.name)
            if not check:
                path.write_text(text, "utf-8")
        print(f"{name}: {code_bytes(artifact)} of at most {MAX_CODE_BYTES} bytes deployed", file=sys.stderr)
    if check and different:
        print(f"Not what the sources compile to: {', '.join(different)}. Run scripts/compile.py.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
