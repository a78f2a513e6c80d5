"""Clients whose losses are parabolas: what many local steps drift away from is known exactly."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import load_tensors, to_tensors
from fedgrove.node.learning.strategies import Batch, RoundEnd, RoundStart, Strategy

NO_BATCH = Batch(torch.zeros(0), torch.zeros(0), torch.zeros(0))
STEPS, RATE = 20, 0.1


class Point(nn.Module):
    """Its weights are where it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2))


@dataclass(frozen=True)
class Parabola:
    """½ Σ a · (w − b)², of a client with ``samples`` samples."""

    a: tuple[float, float]
    b: tuple[float, float]
    samples: int = 1


EQUAL = (Parabola((1.0, 0.2), (1.0, 0.0)), Parabola((0.1, 0.5), (-0.5, 0.6)), Parabola((0.6, 0.9), (0.0, -1.0)))
DRAWN = [(0, 1), (1, 2), (0, 2), (2, 1), (0, 1)]
CLIENTS = (Parabola((1.0, 0.2), (1.0, 0.0)), Parabola((0.1, 0.5), (-0.5, 0.6), samples=3))


def optimum(clients: Sequence[Parabola] = CLIENTS) -> np.ndarray:
    """Where the weighted sum of the clients' losses is least."""
    a, b, n = (np.array([getattr(each, name) for each in clients]) for name in ("a", "b", "samples"))
    return (n[:, None] * a * b).sum(0) / (n[:, None] * a).sum(0)


def train(strategy: Strategy, client: Parabola, model: Tensors, state: Tensors, rate: float = 1.0) -> RoundEnd:
    """One client's round of plain gradient descent; its weights are among the extras."""
    point, a, b = Point(), torch.tensor(client.a), torch.tensor(client.b)
    load_tensors(point, model)
    extras = {name: value for name, value in model.items() if "/" in name}
    start = RoundStart(1, 1, None, None, extras, state, torch.Generator(), sampling_rate=rate)
    term = strategy.begin(point, start)

    def backward() -> None:
        point.zero_grad()
        loss, added = (a * (point.w - b) ** 2).sum() / 2, term.loss(NO_BATCH)
        (loss if added is None else loss + added).backward()

    for _ in range(STEPS):
        backward()
        term.before_step(backward)
        with torch.no_grad():
            point.w -= RATE * point.w.grad
    end = term.finish()
    return RoundEnd({**to_tensors(point), **end.extras}, end.state)


def run(
    strategy: Strategy,
    drawn: Iterable[Sequence[int]],
    clients: Sequence[Parabola] = CLIENTS,
    rate: float = 1.0,
    dropped: frozenset[tuple[int, int]] = frozenset(),
) -> Tensors:
    """The model after rounds with these clients; who is ``dropped`` in a (round, client) trains, and is not heard."""
    *_, last = models(strategy, drawn, clients, rate, dropped)
    return last


def models(
    strategy: Strategy,
    drawn: Iterable[Sequence[int]],
    clients: Sequence[Parabola] = CLIENTS,
    rate: float = 1.0,
    dropped: frozenset[tuple[int, int]] = frozenset(),
) -> Iterator[Tensors]:
    """The models of all these rounds."""
    model = {**to_tensors(Point()), **strategy.initial_extras(to_tensors(Point()))}
    states: dict[int, Tensors] = {}
    for number, round_ in enumerate(drawn):
        ends = {index: train(strategy, clients[index], model, states.get(index, {}), rate) for index in round_}
        states |= {index: end.state for index, end in ends.items()}
        heard = {index: end for index, end in ends.items() if (number, index) not in dropped}
        total = sum(clients[index].samples for index in heard)
        model = {
            name: sum(end.extras[name] * np.float32(clients[index].samples / total) for index, end in heard.items())
            for name in model
        }
        yield model
