"""A task for short texts: a file of lines ``label<TAB>text``, with labels from 0."""

from pathlib import Path
from zlib import crc32

import numpy as np
from torch import nn

import fedgrove as fg

CLASSES, VOCABULARY, WORDS = 2, 5000, 64
PADDING = 0


def encode(text: str) -> list[int]:
    """Words as numbers from 1 to VOCABULARY by their hash, which every member computes alike; padded to WORDS."""
    words = [1 + crc32(word.encode()) % VOCABULARY for word in text.lower().split()[:WORDS]]
    return words + [PADDING] * (WORDS - len(words))


class Reader(nn.Module):
    """The mean of the words' vectors, without padding, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY + 1, 32, padding_idx=PADDING)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, words):
        present = (words != PADDING).unsqueeze(-1)
        mean = (self.words(words) * present).sum(1) / present.sum(1).clamp(min=1)
        return self.head(mean)


class TextTask(fg.Task):
    def model(self):
        return Reader()

    def data(self, source: Path):
        rows = [line.split("\t", 1) for line in source.read_text(encoding="utf-8").splitlines() if line]
        words = np.array([encode(text) for _, text in rows], np.int64)
        return fg.Data(train=(words, np.array([int(label) for label, _ in rows], np.int64)))
