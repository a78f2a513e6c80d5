"""Run with ``pytest`` in this folder: the example's data are read, and the loss falls."""

import torch
from example_data import write
from task import TextTask


def test_the_loss_falls(tmp_path):
    torch.manual_seed(0)
    write(tmp_path / "train.tsv")
    task = TextTask()
    inputs, targets = map(torch.from_numpy, task.data(tmp_path / "train.tsv").train)
    model = task.model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        loss = task.loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
