"""MOON: the contrastive loss, that only the local model learns from it, and the model kept from round to round."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import dump, prefixed
from fedgrove.node.learning.models import to_tensors
from fedgrove.node.learning.strategies import Batch
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.moon import Moon, contrastive_loss
from fedgrove.node.learning.training import STRATEGY


def by_hand(local, wanted, unwanted, temperature):
    """−log(e^{sim(z, z_glob)/τ} / (e^{sim(z, z_glob)/τ} + e^{sim(z, z_prev)/τ})), sample by sample."""

    def similarity(a, b):
        return float(a @ b) / (math.sqrt(float(a @ a)) * math.sqrt(float(b @ b)))

    losses = []
    for z, good, bad in zip(local, wanted, unwanted, strict=True):
        near, far = math.exp(similarity(z, good) / temperature), math.exp(similarity(z, bad) / temperature)
        losses.append(-math.log(near / (near + far)))
    return sum(losses) / len(losses)


def vectors(seed, count=6, units=9):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(count, units, generator=generator, dtype=torch.float64) for _ in range(3)]


def batch_of(model, samples):
    x = torch.from_numpy(samples.x).to(next(model.parameters()).dtype)
    return Batch(x, torch.from_numpy(samples.y), *model.with_representation(x))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.floats(0.05, 10.0))
def test_the_loss_is_the_papers_formula(seed, temperature):
    local, wanted, unwanted = vectors(seed)
    ours = contrastive_loss(local, wanted, unwanted, temperature).item()
    assert ours == pytest.approx(by_hand(local, wanted, unwanted, temperature), rel=1e-9, abs=1e-12)


def test_the_loss_falls_towards_the_global_representation_and_does_not_overflow():
    local, wanted, unwanted = vectors(1)
    near = contrastive_loss(wanted, wanted, unwanted, 0.5)
    assert near < contrastive_loss(local, wanted, unwanted, 0.5) < contrastive_loss(unwanted, wanted, unwanted, 0.5)
    assert contrastive_loss(local, wanted, wanted, 0.5).item() == pytest.approx(math.log(2))
    worst = contrastive_loss(-wanted, wanted, -wanted, 1e-3)
    assert worst.item() == pytest.approx(2000)


def test_the_terms_gradient_equals_finite_differences(model, start, move, samples):
    model.double()
    previous = to_tensors(model)
    move(model, seed=5, step=0.1)
    term = Moon(mu=0.8).begin(model, start(state=previous))
    move(model, seed=1, step=0.1)
    own = samples(10, 3)

    def loss():
        return term.loss(batch_of(model, own))

    slopes = torch.autograd.grad(loss(), list(model.parameters()), allow_unused=True)
    assert slopes[-1] is None and slopes[-2] is None, "the last layer is above the representation"
    # Small enough that no unit crosses a kink of ReLU or max-pooling.
    directions = move(model, seed=2, step=1e-7)
    up = loss().item()
    move(model, seed=2, step=-2e-7)
    down = loss().item()
    slope = sum(float((s * d).sum()) for s, d in zip(slopes, directions, strict=True) if s is not None)
    assert slope == pytest.approx((up - down) / 2e-7, rel=1e-5) and abs(slope) > 1e-5


def test_the_term_contrasts_the_hidden_layer_of_the_three_models(model, start, move, samples, weights):
    own = samples(7, 3)
    hidden = [model.module.layer_outputs(torch.from_numpy(own.x))[2].detach()]
    move(model, seed=5, step=0.1)
    hidden.append(model.module.layer_outputs(torch.from_numpy(own.x))[2].detach())
    term = Moon(mu=3.0, temperature=0.7).begin(model, start(state=weights))
    move(model, seed=6, step=0.1)
    batch = batch_of(model, own)
    expected = by_hand(batch.representation.detach(), hidden[1], hidden[0], 0.7)
    assert term.loss(batch).item() == pytest.approx(3 * expected, rel=1e-4)


def test_nothing_flows_into_the_global_and_the_previous_model(model, start, move, samples, weights):
    move(model, seed=5, step=0.1)
    term = Moon().begin(model, start(state=weights))
    before = dump(to_tensors(term._global)), dump(to_tensors(term._previous))
    assert before == (dump(to_tensors(model)), dump(weights))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for seed in range(3):
        term.loss(batch_of(model, samples(10, seed))).backward()
        optimizer.step()
    frozen = [*term._global.parameters(), *term._previous.parameters()]
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in frozen)
    assert (dump(to_tensors(term._global)), dump(to_tensors(term._previous))) == before
    assert dump(to_tensors(model)) != before[0]


def test_a_clients_first_round_is_fedavgs_and_its_model_is_kept(trained, same, weights):
    first = trained(Moon())
    assert same(first, trained(FedAvg())) and set(first.tensors) == set(weights)
    assert dump(first.state) == dump({STRATEGY + name: first.tensors[name] for name in weights})
    second = trained(Moon(), state=first.state)
    assert not same(second, first) and dump(second.state) == dump(prefixed(STRATEGY, second.tensors))


def test_taking_the_global_model_for_the_missing_one_would_teach_nothing(model, start, move, samples, weights):
    term = Moon().begin(model, start(state=weights))
    move(model, seed=1, step=0.1)
    slopes = torch.autograd.grad(term.loss(batch_of(model, samples(10, 3))), list(model.parameters())[:-2])
    assert all(slope.abs().max() < 1e-6 for slope in slopes)


def test_with_mu_zero_it_is_fedavg_to_the_bit(trained, same):
    state = trained(Moon()).state
    assert same(trained(Moon(mu=0.0), state=state), trained(FedAvg()))
    assert not same(trained(Moon(), state=state), trained(FedAvg()))
    assert trained(Moon(mu=0.0), state=state).state.keys() == state.keys(), "it is kept all the same"


def test_a_state_of_another_model_is_refused(trained):
    with pytest.raises(InvalidContent, match="shape"):
        trained(Moon(), state={STRATEGY + "conv1.weight": np.zeros((1,), np.float32)})
