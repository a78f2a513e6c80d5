"""FedAom with FedSAM's step: computed by hand, and what each part is without the other."""

import numpy as np
import torch
from torch.nn import functional

from fedgrove.node.learning.models import load_tensors
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies.base import Batch
from fedgrove.node.learning.strategies.fedaom import BehaviourTerm, FedAom
from fedgrove.node.learning.strategies.fedaomsam import FedAomSam
from fedgrove.node.learning.strategies.fedsam import FedSam
from tests.node.learning.strategies.conftest import pairs

ONE_STEP = TrainingSettings(batch_size=40, learning_rate=0.1, momentum=0, weight_decay=0, learning_rate_decay=1.0)


def test_a_step_takes_the_gradient_of_both_losses_uphill(trained, samples, model, weights, start):
    own, shared, rho = samples(40, 2), samples(10, 5), 0.3
    update = trained(FedAomSam(shared_batch=10, rho=rho), samples=own, shared=shared, settings=ONE_STEP)
    x, y = torch.from_numpy(own.x), torch.from_numpy(own.y)
    options = FedAom(shared_batch=10)
    prepared = options.prepare(model, pairs(shared), number=2, rounds=10)
    term = options.begin(model, start(shared=shared, prepared=prepared))

    def gradients():
        output, companions = model.with_companions(x, term.companions())
        batch = Batch(x, y, output, companions=companions)
        loss = functional.cross_entropy(batch.output, y) + term.loss(batch)
        return torch.autograd.grad(loss, list(model.parameters()))

    def shift(directions, step):
        with torch.no_grad():
            for parameter, direction in zip(model.parameters(), directions, strict=True):
                parameter += step * direction

    first = gradients()
    shift(first, rho / float(sum((each**2).sum() for each in first)) ** 0.5)
    uphill = gradients()
    load_tensors(model, weights)
    shift(uphill, -0.1)
    for name, parameter in model.named_parameters():
        assert np.allclose(update.tensors[name], parameter.detach().numpy(), atol=1e-6), name
    plain = trained(FedSam(rho), samples=own, settings=ONE_STEP)
    assert any(np.abs(update.tensors[name] - plain.tensors[name]).max() > 1e-5 for name in weights)


def test_both_passes_of_a_step_draw_the_same_shared_samples(trained, samples, monkeypatch):
    drawn, draw = [], BehaviourTerm.companions

    def watched(term):
        found = draw(term)
        drawn.append(found.numpy().tobytes())
        return found

    monkeypatch.setattr(BehaviourTerm, "companions", watched)
    trained(FedAomSam(shared_batch=4), shared=samples(20, 5))
    steps = list(zip(drawn[::2], drawn[1::2], strict=True))
    assert len(steps) == 12 and all(one == other for one, other in steps)
    assert len(set(drawn)) == 12


def test_with_rho_zero_it_is_fedaom_and_without_the_added_loss_fedsam(trained, samples, same):
    shared = samples(20, 5)
    ours = trained(FedAomSam(), shared=shared)
    held = trained(FedAom(), shared=shared)
    assert same(trained(FedAomSam(rho=0.0), shared=shared), held)
    assert same(trained(FedAomSam(beta=0.0), shared=shared), trained(FedSam()))
    assert not same(ours, held) and not same(ours, trained(FedSam())) and ours.state == {}
