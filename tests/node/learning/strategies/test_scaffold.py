"""SCAFFOLD: the paper's rounds out of the server's mean, the joint optimum, and what harms the mean of the c_i."""

import numpy as np
import torch

from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.scaffold import CONTROL, MAX_CONTROL, Scaffold
from tests.node.learning.strategies.quadratics import CLIENTS, DRAWN, EQUAL, RATE, STEPS, models, run, train


def papers_rounds(drawn):
    """Algorithm 1 with option II and η_g = 1, as it stands: (x, c) after each round."""
    x, c, own = np.zeros(2), np.zeros(2), np.zeros((len(EQUAL), 2))
    for round_ in drawn:
        moved, changed = np.zeros(2), np.zeros(2)
        for i in round_:
            y = x.copy()
            for _ in range(STEPS):
                y -= RATE * (np.array(EQUAL[i].a) * (y - EQUAL[i].b) - own[i] + c)
            new = own[i] - c + (x - y) / (STEPS * RATE)
            moved, changed = moved + (y - x), changed + (new - own[i])
            own[i] = new
        x, c = x + moved / len(round_), c + changed / len(EQUAL)
        yield x, c


def test_the_means_of_what_clients_send_are_the_papers_rounds():
    ours = models(Scaffold(), DRAWN, EQUAL, rate=2 / 3)
    for model, (x, c) in zip(ours, papers_rounds(DRAWN), strict=True):
        assert np.allclose(model["w"], x, atol=1e-5) and np.allclose(model[CONTROL + "w"], c, atol=1e-5)


def test_where_all_take_part_and_are_heard_forgetting_changes_nothing():
    plain, forgetful = (run(Scaffold(forget), [(0, 1)] * 6) for forget in (0.0, 1.0))
    assert all(np.allclose(plain[name], forgetful[name], atol=1e-6) for name in plain)


def test_a_lie_about_c_makes_steps_no_longer_than_its_bound():
    lie = {"w": np.zeros(2, np.float32), CONTROL + "w": np.array([1e6, -1e6], np.float32)}
    sent = train(Scaffold(), CLIENTS[0], lie, {"w": np.array([-1.0, 1.0], np.float32)}).extras
    assert np.abs(sent["w"]).max() <= STEPS * RATE * (2 * MAX_CONTROL + 3)
    assert np.abs(sent[CONTROL + "w"]).max() <= 3 * MAX_CONTROL
    honest = train(Scaffold(), CLIENTS[0], lie | {CONTROL + "w": np.ones(2, np.float32) * [1, -1]}, {})
    assert np.array_equal(honest.extras["w"], train(Scaffold(), CLIENTS[0], lie, {}).extras["w"])


def test_the_first_round_is_fedavgs_to_the_bit_and_the_next_is_not(trained, same):
    first, plain = trained(Scaffold(), number=1), trained(FedAvg(), number=1)
    assert same(first, plain)
    next_one = trained(Scaffold(), model=first.tensors, state=first.state)
    assert same(next_one, trained(FedAvg(), model=first.tensors)), "c is c_i with one client: nothing to correct"
    lost = trained(Scaffold(), model=first.tensors)
    assert not same(lost, next_one)


def test_it_sends_c_with_the_weights_and_keeps_the_mean_gradient(trained, weights):
    update = trained(Scaffold(), number=1)
    shapes = {name: value.shape for name, value in {**weights, **Scaffold().initial_extras(weights)}.items()}
    assert {name: value.shape for name, value in update.tensors.items()} == shapes
    assert update.state.keys() == {"strategy/" + name for name in weights}
    assert all(np.array_equal(update.tensors[CONTROL + name], update.state["strategy/" + name]) for name in weights)
    assert any(np.any(value) for value in update.state.values())
    assert all(value.dtype == np.float32 for value in update.state.values())


def test_a_weight_that_the_loss_does_not_depend_on_is_corrected_too(model, start, weights):
    extras = {name: np.full_like(value, 0.5) for name, value in Scaffold().initial_extras(weights).items()}
    term = Scaffold().begin(model, start(extras=extras))
    term.before_step(lambda: None)
    assert all(torch.equal(each.grad, torch.full_like(each, 0.5)) for each in model.parameters())
