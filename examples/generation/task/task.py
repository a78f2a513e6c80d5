"""Package descriptions, character by character: a small recurrent model that writes more of them."""

from pathlib import Path

import fedgrove as fg
import numpy as np
import torch
from torch import nn
from torch.nn import functional

END = 0  # in front of a line, behind it, and where it is cut
FIRST, LAST = " ", "~"
SYMBOLS = 2 + ord(LAST) - ord(FIRST)


class Lines(fg.Task):
    """The next character of a line, given those before it.

    Parameters
    ----------
    length : int
        Characters of a line that are learned.
    width : int
        Units of the recurrent layer.
    """

    def __init__(self, length: int = 48, width: int = 128) -> None:
        self.length, self.width = length, width

    def model(self) -> nn.Module:
        return Writer(self.width)

    def data(self, source: Path) -> fg.Data:
        """One text a line; those of a file whose name starts with ``test`` are to evaluate on."""
        lines = [encoded(line, self.length + 1) for line in source.read_text().splitlines() if line]
        table = np.array(lines, np.int64)
        pair = (table[:, :-1], table[:, 1:])
        return fg.Data(pair, held_out=pair if source.name.startswith("test") else None)

    def loss(self, output, target):
        """Mean of the characters' losses, in nats; behind a line's end nothing counts."""
        counts = _counted(target)
        losses = functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="none")
        return (losses * counts.flatten()).sum() / counts.sum()

    def metrics(self, output, target):
        """``right``: the share of a line's characters that are foretold, summed over lines."""
        counts = _counted(target)
        found = (output.argmax(-1) == target) & counts
        return {"right": (found.sum(1) / counts.sum(1)).sum()}


class Writer(nn.Module):
    """A gated recurrent layer between an embedding of characters and their logits."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.recurrent = nn.Embedding(SYMBOLS, 32), nn.GRU(32, width, batch_first=True)
        self.output = nn.Linear(width, SYMBOLS)

    def forward(self, symbols):
        return self.output(self.recurrent(self.embedding(symbols))[0])

    @torch.no_grad()
    def write(self, begin: str, generator: torch.Generator, warmth: float = 0.6, most: int = 60) -> str:
        """A line that begins so; its characters are drawn by their probabilities, sharper the lower ``warmth``."""
        line, state = encoded(begin, len(begin) + 1), None
        given = torch.tensor([line])
        while len(line) <= most:
            units, state = self.recurrent(self.embedding(given), state)
            chances = functional.softmax(self.output(units[0, -1]) / warmth, dim=0)
            drawn = int(torch.multinomial(chances, 1, generator=generator))
            if drawn == END:
                break
            line.append(drawn)
            given = torch.tensor([[drawn]])
        return "".join(chr(ord(FIRST) + symbol - 1) for symbol in line[1:])


def encoded(line: str, length: int) -> list[int]:
    """An end, the line's characters, and ends up to ``length`` symbols; others than ASCII's are left out."""
    known = [1 + ord(each) - ord(FIRST) for each in line if FIRST <= each <= LAST]
    return [END, *known, *(length * [END])][:length]


def _counted(target: torch.Tensor) -> torch.Tensor:
    """Which symbols count: a line's characters, and the first end behind them."""
    before = functional.pad(target[:, :-1], (1, 0), value=1)
    return (target != END) | (before != END)
