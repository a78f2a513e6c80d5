"""FedProx: the proximal term, and what it does to training."""

import pytest
import torch

from fedgrove.node.learning.strategies import Batch
from fedgrove.node.learning.strategies.fedprox import FedProx

NO_BATCH = Batch(torch.zeros(0), torch.zeros(0), torch.zeros(0))


def test_the_term_is_half_mu_times_the_squared_distance_from_the_global_weights(model, start, move):
    term = FedProx(mu=0.3).begin(model, start())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    assert term.loss(NO_BATCH).item() == 0.0
    move(model, seed=1, step=0.1)
    parameters = list(model.parameters())
    plain = 0.3 / 2 * sum(((now - then) ** 2).sum() for now, then in zip(parameters, before, strict=True))
    expected = torch.autograd.grad(plain, parameters)
    loss = term.loss(NO_BATCH)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5), "squared norms, not norms"
    assert all(map(torch.allclose, torch.autograd.grad(loss, parameters), expected))
