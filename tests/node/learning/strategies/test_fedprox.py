"""FedProx: the proximal term, and what it does to training."""

import numpy as np
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


def test_the_terms_gradient_equals_finite_differences(model, start, move):
    model.double()
    term = FedProx(mu=0.3).begin(model, start())
    move(model, seed=1, step=0.1)
    slopes = torch.autograd.grad(term.loss(NO_BATCH), list(model.parameters()))
    directions = move(model, seed=2, step=1e-6)
    up = term.loss(NO_BATCH).item()
    move(model, seed=2, step=-2e-6)
    down = term.loss(NO_BATCH).item()
    slope = sum(float((s * d).sum()) for s, d in zip(slopes, directions, strict=True))
    assert slope == pytest.approx((up - down) / 2e-6, rel=1e-6)


def test_more_mu_stays_nearer_to_the_global_weights(trained, weights):
    def distance(mu):
        update = trained(FedProx(mu))
        return sum(float(np.square(update.tensors[name] - weights[name]).sum()) for name in weights)

    assert distance(10.0) < distance(1.0) < distance(0.0)


def test_it_sends_the_weights_alone_and_keeps_nothing(trained, weights):
    update = trained(FedProx())
    assert set(update.tensors) == set(weights) and update.state == {}
