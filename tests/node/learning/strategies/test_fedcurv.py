"""FedCurv: the Fisher diagonal, the paper's penalty out of the server's mean, and what the masked sum can hold."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from fedgrove.node.base.tensors import Layout, flatten, unflatten
from fedgrove.node.learning.fisher import FISHER_BATCH, fisher_diagonal
from fedgrove.node.learning.models import build_model, load_tensors
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.strategies import Batch, RoundStart
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.fedcurv import FISHER, MOMENT, FedCurv
from fedgrove.node.learning.tasks.network import Network, NetworkModel
from fedgrove.node.masking.ring import decode, encode
from tests.node.learning.strategies.conftest import SPEC, pairs

NO_BATCH = Batch(torch.zeros(0), torch.zeros(0), torch.zeros(0))
BOUND = 8.0


def one_by_one(model, x, y):
    """The mean of the samples' squared gradients, sample by sample."""
    parameters = list(model.parameters())
    losses = (functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]) for i in range(len(y)))
    squares = [[g.square() for g in torch.autograd.grad(loss, parameters)] for loss in losses]
    return [sum(column) / len(y) for column in zip(*squares, strict=True)]


def masked_mean(updates):
    """What the server takes: the weighted mean, through the ring of the masks."""
    layout, total = Layout.of(updates[0].tensors), sum(update.samples for update in updates)
    words = [encode(flatten(each.tensors), layout, each.samples, total, BOUND) for each in updates]
    return unflatten(decode(np.sum(words, axis=0, dtype=np.uint32), total, total, BOUND), layout)


@pytest.fixture
def last_round(trained, samples):
    """The updates of three clients of different sizes."""
    return [trained(FedCurv(), samples=samples(count, count), number=1) for count in (12, 30, 41)]


@pytest.mark.parametrize(("name", "side"), [("small-cnn", 8), ("paper-cnn", 18)])
def test_the_fisher_diagonal_is_that_of_the_samples_one_by_one(name, side):
    model = build_model(name, (2, side, side), 4, seed=3)
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(FISHER_BATCH + 5, 2, side, side, generator=generator)
    y = torch.arange(len(x)) % 4
    found = fisher_diagonal(model, x, y)
    for ours, expected in zip(found, one_by_one(model, x, y), strict=True):
        assert ours.shape == expected.shape and not ours.requires_grad
        assert torch.allclose(ours, expected, rtol=1e-4, atol=1e-9)
    assert not any(layer._forward_pre_hooks for layer in model.children())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_failure_leaves_no_hooks_on_the_model_that_the_next_client_trains(model):
    with pytest.raises(IndexError):
        fisher_diagonal(model.module, torch.rand(2, 1, 8, 8), torch.tensor([0, 1000]))
    assert not any(layer._forward_pre_hooks for layer in model.children())


def test_the_mean_of_the_extras_gives_the_papers_penalty(last_round, model, start, move):
    mean = masked_mean(last_round)
    load_tensors(model, mean)
    term = FedCurv(weight=0.7).begin(model, start(extras={k: v for k, v in mean.items() if k.startswith("fedcurv/")}))
    names, parameters = [name for name, _ in model.named_parameters()], list(model.parameters())
    total = sum(update.samples for update in last_round)

    def paper():
        """λ Σ_j p_j Σ F_j (w − w_j)², with the F_j and w_j that the clients had."""
        held = 0.0
        for update in last_round:
            for name, w in zip(names, parameters, strict=True):
                fisher, then = (torch.from_numpy(update.tensors[key]) for key in (FISHER + name, name))
                held += update.samples / total * (fisher * (w - then) ** 2).sum()
        return 0.7 * held

    def ours():
        return term.loss(NO_BATCH)

    values = []
    for seed in (1, 2):
        move(model, seed, 0.05)
        values.append((paper().item(), ours().item()))
        expected = torch.autograd.grad(paper(), parameters)
        for gradient, right in zip(torch.autograd.grad(ours(), parameters), expected, strict=True):
            assert torch.allclose(gradient, right, rtol=1e-3, atol=1e-7)
    (first, our_first), (second, our_second) = values
    assert our_second - our_first == pytest.approx(second - first, rel=1e-3), "they differ by a constant"
    assert abs(second - first) > 1e-4


def test_for_clients_of_equal_size_it_is_the_papers_sum_with_lambda_divided_by_their_number(trained, samples):
    updates = [trained(FedCurv(), samples=samples(20, seed), number=1) for seed in (1, 2, 3, 4)]
    mean = masked_mean(updates)
    for name in mean:
        if name.startswith(FISHER):
            papers = sum(update.tensors[name] for update in updates)
            assert np.allclose(4 * mean[name], papers, atol=4 * 4 * 2**-28), "four roundings, times four"


def test_what_is_sent_with_the_weights_is_f_and_f_times_w(trained, weights, samples, model):
    own = samples(30, 2)
    update = trained(FedCurv(), samples=own)
    load_tensors(model, update.tensors)
    found = fisher_diagonal(model.module, torch.from_numpy(own.x), torch.from_numpy(own.y))
    for name, fisher in zip(weights, found, strict=True):
        assert np.allclose(update.tensors[FISHER + name], fisher.numpy(), rtol=1e-4, atol=1e-9)
        assert np.array_equal(update.tensors[MOMENT + name], update.tensors[FISHER + name] * update.tensors[name])
    assert {name: value.shape for name, value in update.tensors.items()} == {
        name: value.shape for name, value in {**weights, **FedCurv().initial_extras(weights)}.items()
    }


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 30.0), st.integers(0, 100))
def test_nothing_that_is_sent_exceeds_the_weights_bound(scale, seed):
    """Also for a model whose gradients explode."""
    model = NetworkModel(Network(SPEC), build_model("small-cnn", (1, 8, 8), 5, seed=seed))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale).clamp_(-BOUND, BOUND)
    rng = np.random.default_rng(seed)
    own = Samples(rng.random((9, 1, 8, 8), dtype=np.float32), np.arange(9, dtype=np.int64) % 5)
    zeros = FedCurv().initial_extras({name: p.detach().numpy() for name, p in model.named_parameters()})
    start = RoundStart(1, 1, pairs(own), None, zeros, {}, torch.Generator())
    extras = FedCurv().begin(model, start).finish().extras
    for name, value in extras.items():
        assert (value >= 0).all() or name.startswith(MOMENT)
        assert np.abs(value).max() <= (1 if name.startswith(FISHER) else BOUND)


def test_in_the_first_round_nobody_is_held(trained, same, model, start, weights):
    assert FedCurv().begin(model, start(extras=FedCurv().initial_extras(weights))).loss(NO_BATCH) is None
    assert same(trained(FedCurv(weight=1e6), number=1), trained(FedAvg(), number=1))


def test_with_weight_zero_the_weights_are_fedavgs_to_the_bit(trained, same, last_round):
    mean = masked_mean(last_round)
    plain = trained(FedAvg(), model=mean)
    assert same(trained(FedCurv(weight=0.0), model=mean), plain)
    assert not same(trained(FedCurv(weight=1.0), model=mean), plain)
