"""Tasks for the tests: a classifier, a regression, statistics, dictionaries of inputs."""

import numpy as np
import torch
from torch import nn

from fedgrove.node.learning.tasks import Data, Task


class Classifier(Task):
    """Four numbers, three classes."""

    def __init__(self, hidden: int = 6) -> None:
        self.hidden = hidden

    def model(self):
        return nn.Sequential(nn.Linear(4, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 3))

    def data(self, source):
        return Data(table(60, int(source.name)))


class Regression(Task):
    def model(self):
        return nn.Linear(4, 1)

    def data(self, source):
        x, y = table(60, 1)
        return Data((x, y.astype(np.float32)))


class Statistics(Classifier):
    """With a layer that keeps running statistics."""

    def model(self):
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


class Named(Classifier):
    """Inputs are dictionaries; a frozen table stays at home, and one tensor has two names."""

    def model(self):
        return Tied()

    def batch(self, items):
        x = torch.stack([item[0] for item in items])
        return {"left": x[:, :2], "right": x[:, 2:]}, torch.stack([item[1] for item in items])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.first = nn.Linear(2, 2)
        self.again = self.first
        self.head = nn.Linear(4, 3)

    def forward(self, left, right):
        return self.head(torch.cat([self.first(self.frozen(left)), self.again(right)], 1))


def table(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points around three centres, and which centre."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    centres = np.random.default_rng(0).normal(size=(3, 4)) * 2
    return (centres[y] + rng.normal(size=(count, 4))).astype(np.float32), y


class Tokens(Task):
    """Padded texts of token numbers; the mean of the embeddings decides."""

    def model(self):
        return Reader()


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, tokens, attention_mask):
        units = self.embedding(tokens) * attention_mask[..., None]
        return self.head(units.sum(1) / attention_mask.sum(1, keepdim=True))
