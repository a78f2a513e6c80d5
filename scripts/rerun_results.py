"""Does stored results again: of each folder of results the cheapest run on a data set, by the command that it states.

The run is made in a folder without runs, so that no stored one is used, and compared with the stored one: the digest of
the last model, and every round. A record that is older than some setting states fewer of them, so plans are not
compared.

    python scripts/rerun_results.py --data-dir DIR --minutes 30
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from measured_page import write_results

from fedgrove_lab.made import read_made

RESULTS = Path(__file__).parents[1] / "docs" / "results"
CHOICES = ("--only", "--seeds", "--arms")
"""Options that say which runs of an experiment are made; the others say what a run is."""
ALL_SAMPLES = 60000

PAGE = (
    "Reruns of stored results",
    "One run of each folder, the cheapest on its data set, by the command that the folder states, on another day. "
    "Where nothing differs, the model is the same to the bit, and so are clients, accuracy and losses of every round. "
    "Processors of other kinds round otherwise unless a plan is `portable`, which these are not; the accuracies after "
    "the last round stand beside each other.\n",
    "folder | run | rounds | what differs | accuracy stored, % | accuracy now, %",
    lambda run: (
        f"[{run['folder']}](../{run['folder']}/README.md) | {run['run']} | {run['rounds']} | "
        f"{', '.join(run['differing']) or 'nothing'} | {run['stored']} | {run['now']}"
    ),
)


class Run(NamedTuple):
    """A stored run, and about how many samples all its rounds train on."""

    path: Path
    record: Mapping[str, Any]
    samples: float

    @property
    def label(self) -> str:
        """The name of its arm."""
        return self.path.stem.rpartition("-seed")[0]

    @property
    def rounds(self) -> int:
        """The rounds of its scenario."""
        return self.record["scenario"]["federation"]["rounds"]

    @property
    def seed(self) -> int:
        """The seed of its plan."""
        return self.record["scenario"]["federation"]["seed"]


def stored(folder: Path, dataset: str) -> Iterator[Run]:
    """The runs of a folder that are records of simulations on a data set, and did not diverge."""
    for path in sorted((folder / "runs").glob("*-seed*.json")):
        record = json.loads(path.read_bytes())
        if "model_digest" not in record or len(record["rounds"]) < record["scenario"]["federation"]["rounds"]:
            continue
        made = record["scenario"]
        if made["scenario"]["dataset"] == dataset:
            samples = made["scenario"].get("train_samples") or ALL_SAMPLES
            passes = made["federation"]["sampling_rate"] * made["training"]["epochs"]
            yield Run(path, record, len(record["rounds"]) * samples * passes)


def command_of(folder: Path, run: Run) -> list[str] | None:
    """The stated command that made a run, without its choice of runs; None where no stated one can have."""
    for made in read_made(folder):
        _, kind, name, *words = shlex.split(made.command)
        options = dict(zip(words[::2], words[1::2], strict=True)) if kind == "experiment" else {}
        patterns = options.get("--only", "*").split(",")
        rounds = options.get("--rounds", str(run.rounds))
        if any(fnmatch(run.label, each) for each in patterns) and rounds == str(run.rounds):
            kept = [word for key, value in options.items() if key not in CHOICES for word in (key, value)]
            return ["experiment", name, *kept, "--only", run.label, "--seeds", str(run.seed)]
    return None


def again(command: list[str], run: Run, data_dir: Path) -> Mapping[str, Any]:
    """The record that a command makes in a folder without runs."""
    with tempfile.TemporaryDirectory() as name:
        out, work = Path(name, "results", "again"), Path(name, "work")
        for path in RESULTS.glob("*/summary.json"):  # the comparison reads there which trials were best
            shutil.copytree(
                path.parent, out.with_name(path.parent.name), ignore=shutil.ignore_patterns("runs", "*.png")
            )
        options = ["--out", out, "--work", work, "--data-dir", data_dir]
        subprocess.run(
            [sys.executable, "-m", "fedgrove.node.cli", *command, *map(str, options)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return json.loads((out / "runs" / run.path.name).read_bytes())


def compared(run: Run, record: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of the page says."""
    return {
        "run": run.path.stem,
        "rounds": len(record["rounds"]),
        "differing": differing(run.record, record),
        "stored": last_accuracy(run.record),
        "now": last_accuracy(record),
    }


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What is not the same to the bit: ``model``, and keys of rounds that both have."""
    pairs = list(zip(one["rounds"], other["rounds"], strict=True))
    keys = {key for left, right in pairs for key in left.keys() & right.keys() if left[key] != right[key]}
    return ["model"] * (one["model_digest"] != other["model_digest"]) + sorted(keys)


def last_accuracy(record: Mapping[str, Any]) -> float:
    """The accuracy after the last round that was tested, in percent."""
    tested = [each["accuracy"] for each in record["rounds"] if each["accuracy"] is not None]
    return round(100 * tested[-1], 2)


def main() -> None:
    """Do one run of each folder again, the cheapest folder first, as long as time is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--dataset", default="mnist", help="data set of the runs")
    parser.add_argument("--only", default="*", help="pattern of folders")
    parser.add_argument("--minutes", type=float, default=60, help="begin no run after this many minutes")
    parser.add_argument("--out", type=Path, default=RESULTS / "reruns", help="folder of the page")
    options = parser.parse_args()
    begun = time.monotonic()
    folders = [path.parent for path in sorted(RESULTS.glob(f"{options.only}/made.json"))]
    cheapest = [
        min(runs, key=lambda run: run.samples) for each in folders if (runs := [*stored(each, options.dataset)])
    ]
    for run in sorted(cheapest, key=lambda run: run.samples):
        folder = run.path.parents[1]
        command = command_of(folder, run)
        if command is None:
            sys.exit(f"no command in {folder / 'made.json'} makes {run.path.name}")
        if time.monotonic() - begun > 60 * options.minutes:
            break
        found = compared(run, again(command, run, options.data_dir))
        write_results(options.out, folder.name, {"folder": folder.name}, found, PAGE)
        print(folder.name, found, flush=True)


if __name__ == "__main__":
    main()
