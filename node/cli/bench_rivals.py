"""What `fedgrove bench engine` compares itself with: a plain training loop, and Flower's simulation."""

import json
import os
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from fedgrove.node.cli.bench_masking import FLOWER_VARIABLE
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import TrainingSettings
from torch import nn

__all__ = ["FLOWER_VARIABLE", "FlowerTimes", "RivalFailed", "Work", "flower_simulation", "plain_round"]

_FLOWER_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_flower_simulation.py"
_FLOWER_SECONDS = 1800


@dataclass(frozen=True)
class Work:
    """Rounds of local training; ``padding`` of the paper's convolutions in pixels a side."""

    clients: int
    drawn: int
    rounds: int
    training: TrainingSettings
    padding: int
    processes: int


class RivalFailed(RuntimeError):
    """A rival did not give its times; the message says why."""


@dataclass(frozen=True)
class FlowerTimes:
    """Seconds until the first round was over, and of each later one."""

    version: str
    start: float
    rounds: list[float]


def plain_round(work: Work, parts: list[Samples]) -> float:
    """Seconds of a round: one client after the other, as PyTorch's tutorials train, on as many threads as processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(work.processes)
    try:
        start = time.perf_counter()
        for samples in parts[: work.drawn]:
            _plain_training(work, samples)
        return time.perf_counter() - start
    finally:
        torch.set_num_threads(before)


def _plain_training(work: Work, samples: Samples) -> None:
    settings = work.training
    x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    model = _plain_model(work.padding, x.shape[1], x.shape[2])
    optimizer = torch.optim.SGD(
        model.parameters(), settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
    )
    for _ in range(settings.epochs):
        for chosen in torch.randperm(len(y)).split(settings.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()


def _plain_model(padding: int, channels: int, side: int) -> nn.Module:
    """The paper's CNN from PyTorch's parts."""
    left = ((side + 2 * padding - 4) // 2 + 2 * padding - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * left * left, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def flower_simulation(work: Work, parts: list[Samples] | None) -> FlowerTimes | None:
    """Run the work in Flower's own environment; None where none is named.

    Parameters
    ----------
    parts : list of Samples or None
        Of each client; None for clients that give back what they get.

    Raises
    ------
    RivalFailed
        It did not come to its end.
    """
    python = os.environ.get(FLOWER_VARIABLE)
    if not python or not _FLOWER_SCRIPT.exists():
        return None
    settings = work.training
    asked = {
        **{name: value for name, value in asdict(work).items() if name != "training"},
        "epochs": settings.epochs,
        "batch": settings.batch_size,
        "rate": settings.learning_rate,
        "momentum": settings.momentum,
        "decay": settings.weight_decay,
    }
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as folder:
        asked["data"] = _written(parts, Path(folder)) if parts else ""
        return _times([python, str(_FLOWER_SCRIPT)], asked, folder)


def _times(command: list[str], asked: dict, folder: str) -> FlowerTimes:
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=_FLOWER_SECONDS,
            cwd=folder,
            check=True,
        )
        return FlowerTimes(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.CalledProcessError as failure:
        lines = failure.stderr.strip().splitlines() or ["no message"]
        raise RivalFailed(lines[-1]) from None
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError, IndexError) as failure:
        raise RivalFailed(str(failure)) from None


def _written(parts: list[Samples], folder: Path) -> str:
    np.save(folder / "x.npy", np.concatenate([part.x for part in parts]))
    np.save(folder / "y.npy", np.concatenate([part.y for part in parts]))
    np.save(folder / "parts.npy", [len(part) for part in parts])
    return str(folder)
