"""FedLC: the margins, and that labels without samples are left alone."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.fedlc import CalibratedTerm, FedLc


def by_hand(logits, labels, counts, tau):
    """−log( e^{f_y − τ·n_y^(−1/4)} / Σ_c e^{f_c − τ·n_c^(−1/4)} ), the mean over the samples."""
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        shifted = [value - tau * count**-0.25 for value, count in zip(row, counts, strict=True)]
        total -= math.log(math.exp(shifted[label]) / sum(map(math.exp, shifted)))
    return total / len(labels)


@pytest.mark.parametrize("tau", [0.1, 1.0, 3.0])
def test_the_calibrated_cross_entropy_is_the_papers_formula(tau):
    own = torch.tensor([0] * 20 + [1] * 4 + [2])
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 2, 0, 1])
    found = functional.cross_entropy(CalibratedTerm(tau, own).calibrated(logits), labels)
    assert found.item() == pytest.approx(by_hand(logits, labels, (20, 4, 1), tau), rel=1e-6)
    assert abs(found.item() - functional.cross_entropy(logits, labels).item()) > 1e-4


def test_a_label_without_samples_is_not_pushed_down():
    logits = torch.zeros(4, 3, requires_grad=True)
    labels = torch.tensor([0, 0, 1, 1])
    functional.cross_entropy(CalibratedTerm(1.0, labels).calibrated(logits), labels).backward()
    assert torch.equal(logits.grad[:, 2], torch.zeros(4)) and logits.grad[:, :2].abs().min() > 0.1


def test_training_keeps_the_bias_of_a_label_that_the_client_lacks(trained, samples, weights):
    own = samples(40, 2)
    own = Samples(own.x[own.y != 4], own.y[own.y != 4])
    plain, ours = (trained(strategy, samples=own).tensors["output.bias"][4] for strategy in (FedAvg(), FedLc()))
    before = weights["output.bias"][4]
    assert plain < before - 0.005 and abs(ours - before) < 1e-4, "but for the weight decay"


def test_equal_counts_change_nothing_but_rounding(trained, weights):
    plain, ours = (trained(strategy).tensors for strategy in (FedAvg(), FedLc()))
    assert all(np.allclose(plain[name], ours[name], atol=1e-5) for name in weights)
