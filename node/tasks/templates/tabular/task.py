"""A task for tables: numbers in every column, and a label from 0 in the last one."""

from pathlib import Path

import numpy as np
from torch import nn

import fedgrove as fg

FEATURES, CLASSES = 8, 2
# Every member scales a column by the same numbers. Scaling by one's own means would give each member another model.
CENTRE, SCALE = 0.0, 1.0


class TableTask(fg.Task):
    def model(self):
        return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))

    def data(self, source: Path):
        table = np.loadtxt(source, delimiter=",", skiprows=1, dtype=np.float32)
        inputs = (table[:, :FEATURES] - CENTRE) / SCALE
        return fg.Data(train=(inputs, table[:, FEATURES].astype(np.int64)))
