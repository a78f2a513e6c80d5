"""FedNTD: the distillation over the labels that are not true."""

import math

import pytest
import torch

from fedgrove.node.learning.strategies import Batch
from fedgrove.node.learning.strategies.fedntd import FedNtd, not_true_loss


def by_hand(local, wanted, labels, tau):
    """Σ_{c ≠ y} q̃_g(c) · log(q̃_g(c) / q̃_l(c)), the mean over the samples."""
    total = 0.0
    for ours, theirs, label in zip(local.tolist(), wanted.tolist(), labels.tolist(), strict=True):
        rows = [[math.exp(z / tau) for c, z in enumerate(row) if c != label] for row in (ours, theirs)]
        q_l, q_g = ([each / sum(row) for each in row] for row in rows)
        total += sum(g * math.log(g / p) for g, p in zip(q_g, q_l, strict=True))
    return total / len(labels)


def logits(seed, labels=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(5, labels, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
def test_the_loss_is_the_papers_formula(tau):
    labels = torch.tensor([0, 3, 1, 2, 3])
    found = not_true_loss(logits(1), logits(2), labels, tau).item()
    assert found == pytest.approx(by_hand(logits(1), logits(2), labels, tau), rel=1e-12) and found > 0.01


def test_the_true_logit_and_the_global_model_learn_nothing_from_it():
    local, wanted = logits(1).requires_grad_(), logits(2)
    labels = torch.tensor([0, 3, 1, 2, 3])
    not_true_loss(local, wanted, labels, 1.0).backward()
    assert torch.equal(local.grad.gather(1, labels[:, None]), torch.zeros(5, 1, dtype=torch.float64))
    assert local.grad.abs().sum(1).min() > 1e-3


def test_with_two_labels_there_is_nothing_to_distil():
    assert not_true_loss(logits(1, 2), logits(2, 2), torch.tensor([0, 1, 0, 1, 1]), 1.0).item() == 0.0


def test_the_term_holds_the_model_that_the_round_began_with(model, start, move, samples):
    term = FedNtd(beta=0.7, tau=2.0).begin(model, start())
    own = samples(6, 1)
    x, y = torch.from_numpy(own.x), torch.from_numpy(own.y)
    begun = model(x).detach()
    batch = Batch(x, y, model(x))
    assert term.loss(batch).item() == pytest.approx(0.0, abs=1e-6)
    move(model, seed=1, step=0.1)
    now = Batch(x, y, model(x))
    assert term.loss(now).item() == pytest.approx(0.7 * by_hand(now.output, begun, y, 2.0), rel=1e-4)
