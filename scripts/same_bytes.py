"""Compare what runs of every kind compute with what they computed before: ``python scripts/same_bytes.py``.

Each case is a command with a seed. Its models, losses and terms are kept in ``tests/golden/runs.json``, made with
``portable = true``, so any x86-64 processor with AVX2 has the same. Runs in which members' secret keys choose samples
or noise (``--held-out``, procfl, privacy) are in no case: they are never the same. ``--write`` writes them anew, which
is right only when the changelog says why bytes changed. ``--only WORD`` limits the run to cases whose names contain the
word.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fedgrove.node.learning.settings import STRATEGIES

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "runs.json"
TABLE = "age,dose,group,outcome\n" + "".join(
    f"{20 + row * 7 % 60},{row * 3 % 11 / 10},{'abc'[row % 3]},{'yes' if row * 5 % 7 > 3 else 'no'}\n"
    for row in range(60)
)
TASK = """
import numpy as np
from torch import nn

import fedgrove as fg


class Line(fg.Task):
    def model(self):
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def data(self, source):
        inputs = np.random.default_rng(7).normal(size=(96, 4)).astype("float32")
        return fg.Data((inputs[:72], np.arange(72) % 3), held_out=(inputs[72:], np.arange(24) % 3))
"""
DEMO = ("demo", "--seed", "5", "--portable", "--workers", "1", "--out", "{out}")
SMALL = ("--clients", "4", "--rounds", "2")
SIMULATE = ("simulate", "--executor", "processes", "--workers", "1", "--set", "training.portable=true", "--json")


def cases() -> dict[str, tuple[str, ...]]:
    """Commands by the case's name; ``{out}``, ``{task}`` and ``{table}`` stand for folders and files."""
    made: dict[str, tuple[str, ...]] = {}
    for name in sorted(STRATEGIES):
        made[f"demo {name}"] = (*DEMO, *SMALL, "--strategy", name)
        made[f"simulate {name}"] = (*SIMULATE, "--clients", "12", "--rounds", "3", "--strategy", name, "--seeds", "5")
    made["demo pairwise, drop-outs"] = (
        *DEMO,
        "--clients",
        "6",
        "--rounds",
        "2",
        "--masking",
        "pairwise",
        "--drop",
        "0.25",
    )
    for name in ("fedavg", "fedprox", "moon"):
        of_task = ("--task", "{task}", "--data", "{data}", "--strategy", name)
        made[f"demo task {name}"] = (*DEMO, "--clients", "3", "--rounds", "2", *of_task)
        made[f"simulate task {name}"] = (*SIMULATE, "--clients", "3", "--rounds", "2", *of_task, "--seeds", "5")
    made["demo table"] = (*DEMO, "--clients", "3", "--rounds", "2", "--task", "{tabular}", "--data", "{table}")
    made["kmeans"] = ("kmeans", "--simulate", "--points", "300", "--clients", "4", "--k", "3", "--seed", "5", "--json")
    for plan in ("clusters", "skewed"):
        made[f"simulate {plan}.toml"] = (*SIMULATE, "--plan", str(ROOT / "docs" / "plans" / f"{plan}.toml"))
    return made


def computed(command: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Run a command below ``folder`` and return the part of its answer that a seed determines."""
    (folder / "task").mkdir()
    (folder / "task" / "task.py").write_text(TASK)
    (folder / "data.bin").touch()
    (folder / "table.csv").write_text(TABLE)
    named = {"task": folder / "task", "data": folder / "data.bin", "table": folder / "table.csv"}
    if "{tabular}" in command:
        named["tabular"] = folder / "tabular"
        run(("task", "new", str(named["tabular"]), "--table", str(named["table"]), "--target", "outcome"), folder)
    printed = run(tuple(word.format(out=folder / "out", **named) for word in command), folder)
    if command[0] == "demo":
        return of_report(json.loads((folder / "out" / "report.json").read_text()))
    return json.loads(printed) if command[0] == "kmeans" else of_simulation(json.loads(printed))


def run(command: tuple[str, ...], folder: Path) -> str:
    """What ``fedgrove COMMAND`` prints; a command that fails ends the comparison with its words."""
    done = subprocess.run(
        [sys.executable, "-m", "fedgrove.node.cli", *command], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def of_report(report: dict[str, Any]) -> dict[str, Any]:
    """A federation's terms, with how many members they name, and, by round, its model and what it scores."""
    terms = report["config"]
    terms["membership"]["members"] = len(terms["membership"]["members"])  # their keys are new each time
    kept = ("round", "status", "accuracy", "loss", "drawn", "committed", "model_cid", "model")
    return {
        "terms": terms,
        "rounds": [{key: each[key] for key in kept if key in each} for each in report["rounds"]],
        "bytes": report.get("bytes"),
    }


def of_simulation(answer: dict[str, Any]) -> dict[str, Any]:
    """The rounds and the models of a simulation's runs, without their times and the places of their files."""
    return {"runs": [{key: each["record"][key] for key in ("model_digest", "rounds")} for each in answer["runs"]]}


def main() -> int:
    """Compare, or write; 1 if a case computes something else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    wanted = {name: command for name, command in cases().items() if given.only in name}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        places = [Path(folder) / str(number) for number in range(len(wanted))]
        for place in places:
            place.mkdir()
        found = dict(zip(wanted, pool.map(computed, wanted.values(), places), strict=True))
    before = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if given.write:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(before | found, indent=1, sort_keys=True) + "\n")
        return 0
    other = [name for name, each in found.items() if before.get(name) != each]
    for name in other:
        print(f"{name}: other bytes")
    print(f"{len(found) - len(other)} of {len(found)} cases compute the same as before")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
