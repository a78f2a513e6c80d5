"""A small ResNet that learns four of CIFAR-10's classes in minutes: ``python examples/vision/learn.py --data-dir DIR``.

Four clients train real rounds under masks, without a GPU. Writes docs/results/vision/learning.md.
"""

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Samples

ROOT = Path(__file__).resolve().parents[2]
HERE, RESULT = ROOT / "examples" / "vision", ROOT / "docs" / "results" / "vision" / "learning.md"
CLASSES = {"airplane": 0, "automobile": 1, "frog": 6, "horse": 7}
TERMS = """
[task.options]
width = 8
blocks = 1
classes = 4

[training]
epochs = 2
batch_size = 20
learning_rate = 0.05
learning_rate_decay = 1.0
momentum = 0.9
"""
PAGE = """# A small ResNet that learns
Written by `python examples/vision/learn.py --data-dir cache`: a ResNet of {parameters} parameters with group
normalisation (`width = 8`, `blocks = 1` of [the example](../../../examples/vision/README.md)) on four of CIFAR-10's
classes ({classes}). {clients} clients have {images} images each, and train two epochs a round on a processor; the
coordinator evaluates on {test} images of the test set. Chance is 0.25.

| round | {numbers} |
| --- | {dashes} |
| accuracy | {accuracy} |
| loss | {loss} |

The audit says *{verdict}*; an upload has {upload} bytes. The run took {seconds:.0f} seconds; the load of the {cores}
cores was {load:.0f} when it ended. Seed 0, one run. Commit {commit}; torch {torch}, numpy {numpy}, python {python}.

    fedgrove demo --task TASK --data SOURCES --clients {clients} --rounds {rounds}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with CIFAR-10")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--images", type=int, default=400, help="of each client")
    parser.add_argument("--test", type=int, default=400)
    options = parser.parse_args()
    data = load_dataset("cifar10", options.data_dir)
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as place:
        task, sources = _prepared(Path(place), data.train(), data.test(), options)
        command = ["fedgrove", "demo", "--task", task, "--data", sources, "--clients", options.clients]
        began = time.monotonic()
        subprocess.run([*map(str, [*command, "--rounds", options.rounds, "--out", f"{place}/run"])], check=True)
        seconds, report = time.monotonic() - began, json.loads(Path(place, "run", "report.json").read_text())
    RESULT.write_text(_page(report, seconds, options))


def _prepared(place: Path, train: Samples, test: Samples, options: argparse.Namespace) -> tuple[Path, Path]:
    """The task with terms for a small model, and a source for each client and the coordinator."""
    task, sources = place / "pictures", place / "sources"
    task.mkdir()
    sources.mkdir()
    (task / "task.py").write_bytes((HERE / "task.py").read_bytes())
    (task / "terms.toml").write_text(TERMS)
    images, labels = _of_classes(train, options.clients * options.images)
    for number in range(options.clients):
        own = slice(number * options.images, (number + 1) * options.images)
        np.savez(sources / f"{number}.npz", x=images[own], y=labels[own])
    held_out, answers = _of_classes(test, options.test)
    np.savez(sources / "test.npz", x=held_out[:1], y=answers[:1], x_test=held_out, y_test=answers)
    return task, sources


def _of_classes(samples: Samples, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 3, 32, 32) as bytes and labels from 0 of the classes, in an order of their own."""
    known = np.flatnonzero(np.isin(samples.y, list(CLASSES.values())))
    chosen = np.random.default_rng(0).permutation(known)[:count]
    places = {label: place for place, label in enumerate(CLASSES.values())}
    return np.rint(samples.x[chosen] * 255).astype(np.uint8), np.array(
        [places[int(each)] for each in samples.y[chosen]]
    )


def _page(report: dict, seconds: float, options: argparse.Namespace) -> str:
    rounds = report["rounds"]
    upload = max(size for each in report["bytes"].values() for size in each.values())
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return PAGE.format(
        parameters=f"{round(upload / 4000)},000",
        classes=", ".join(CLASSES),
        clients=options.clients,
        images=options.images,
        test=options.test,
        rounds=options.rounds,
        numbers=" | ".join(str(each["round"]) for each in rounds),
        dashes=" | ".join("--:" for _ in rounds),
        accuracy=" | ".join(f"{each['accuracy']:.3f}" for each in rounds),
        loss=" | ".join(f"{each['loss']:.3f}" for each in rounds),
        verdict=report["audit"]["verdict"],
        upload=upload,
        seconds=seconds,
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        commit=commit[:12],
        torch=version("torch"),
        numpy=version("numpy"),
        python=platform.python_version(),
    )


if __name__ == "__main__":
    main()
