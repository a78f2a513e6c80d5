"""Rivals of the simulation engine: a plain training loop, and Flower's simulation."""

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove_lab.bench.flower import ask_flower

_FLOWER_SCRIPT = "bench_flower_simulation.py"
_FLOWER_SECONDS = 3600


@dataclass(frozen=True)
class Work:
    """Rounds of local training; ``padding`` of the paper's convolutions in pixels a side.

    ``units`` of the one hidden layer of a fully connected network in place of the paper's; 0: the paper's.
    """

    clients: int
    drawn: int
    rounds: int
    training: TrainingSettings
    padding: int
    processes: int
    units: int = 0


@dataclass(frozen=True)
class FlowerTimes:
    """Seconds until the first round was over, of each later one, and of all its processes' time in each of these."""

    version: str
    start: float
    rounds: list[float]
    processor: list[float]


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
    RunFailed
    """
    settings = work.training
    asked = {
        **{name: value for name, value in asdict(work).items() if name != "training"},
        "epochs": settings.epochs,
        "batch": settings.batch_size,
        "rate": settings.learning_rate,
        "momentum": settings.momentum,
        "decay": settings.weight_decay,
    }
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as name:
        folder = Path(name)
        asked["data"] = _written(parts, folder) if parts else ""
        figures = ask_flower(_FLOWER_SCRIPT, asked, _FLOWER_SECONDS, folder)
    return None if figures is None else FlowerTimes(**figures)


def _written(parts: list[Samples], folder: Path) -> str:
    np.save(folder / "x.npy", np.concatenate([part.x for part in parts]))
    np.save(folder / "y.npy", np.concatenate([part.y for part in parts]))
    np.save(folder / "parts.npy", [len(part) for part in parts])
    return str(folder)
