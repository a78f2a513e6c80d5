"""FedSAM: its step, computed by hand."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgrove.node.learning.models import load_tensors
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.fedsam import FedSam

ONE_STEP = TrainingSettings(batch_size=40, learning_rate=0.1, momentum=0, weight_decay=0, learning_rate_decay=1.0)


def gradients(model, own):
    x, y = torch.from_numpy(own.x), torch.from_numpy(own.y)
    return torch.autograd.grad(functional.cross_entropy(model(x), y), list(model.parameters()))


def shifted(model, directions, step):
    with torch.no_grad():
        for parameter, direction in zip(model.parameters(), directions, strict=True):
            parameter += step * direction


def test_a_step_takes_the_gradient_at_distance_rho_uphill(trained, samples, model, weights):
    own, rho = samples(40, 2), 0.3
    update = trained(FedSam(rho), samples=own, settings=ONE_STEP)
    first = gradients(model, own)
    norm = float(sum((each**2).sum() for each in first)) ** 0.5
    shifted(model, first, rho / norm)
    distance = sum(np.square(p.detach().numpy() - weights[name]).sum() for name, p in model.named_parameters())
    assert distance**0.5 == pytest.approx(rho, rel=1e-4)
    uphill = gradients(model, own)
    load_tensors(model, weights)
    shifted(model, uphill, -0.1)
    plain = trained(FedAvg(), samples=own, settings=ONE_STEP)
    for name, parameter in model.named_parameters():
        assert np.allclose(update.tensors[name], parameter.detach().numpy(), atol=1e-6)
    assert any(np.abs(update.tensors[name] - plain.tensors[name]).max() > 1e-4 for name in weights)


def test_the_loss_that_is_reported_is_that_at_the_weights(trained, samples):
    own = samples(40, 2)
    plain, ours = (trained(strategy, samples=own, settings=ONE_STEP) for strategy in (FedAvg(), FedSam(1.0)))
    assert ours.loss == plain.loss
