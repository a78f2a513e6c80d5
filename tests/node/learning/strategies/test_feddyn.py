"""FedDyn: the paper's rounds out of the server's mean, the joint optimum, and what a liar can do."""

import numpy as np
import torch

from fedgrove.node.learning.server_side import ServerSide
from fedgrove.node.learning.server_steps import MomentumStep
from fedgrove.node.learning.strategies.feddyn import MAX_DRIFT, FedDyn
from tests.node.learning.strategies.quadratics import (
    CLIENTS,
    DRAWN,
    EQUAL,
    NO_BATCH,
    RATE,
    STEPS,
    Point,
    models,
    optimum,
    to_tensors,
    train,
)

ALPHA, DRIFT = 0.3, "feddyn/drift/"


def papers_rounds(drawn):
    """Algorithm 1 as it stands, argmin by the same steps: (mean of the clients' models, the server's θ)."""
    theta, h, gradients = np.zeros(2), np.zeros(2), np.zeros((len(EQUAL), 2))
    for round_ in drawn:
        found = []
        for i in round_:
            w = theta.copy()
            for _ in range(STEPS):
                w -= RATE * (np.array(EQUAL[i].a) * (w - EQUAL[i].b) - gradients[i] + ALPHA * (w - theta))
            gradients[i] -= ALPHA * (w - theta)
            found.append(w)
        h = h - ALPHA * sum(w - theta for w in found) / len(EQUAL)
        mean = np.mean(found, axis=0)
        theta = mean - h / ALPHA
        yield mean, theta


def test_the_means_of_what_clients_send_are_the_papers_rounds():
    ours = models(FedDyn(ALPHA), DRAWN, EQUAL, rate=2 / 3)
    for model, (mean, theta) in zip(ours, papers_rounds(DRAWN), strict=True):
        assert np.allclose(model["w"], mean, atol=1e-5)
        assert np.allclose(model["w"] + model[DRIFT + "w"], theta, atol=1e-5)


def after(server: ServerSide, rounds: int) -> float:
    """How far from the joint optimum FedDyn is after these rounds of all clients, with a server's part in them."""
    strategy = FedDyn(alpha=0.05)
    content, states = server.first({**to_tensors(Point()), **strategy.initial_extras(to_tensors(Point()))}), [{}, {}]
    for _ in range(rounds):
        ends = [
            train(strategy, each, server.start(content), state) for each, state in zip(CLIENTS, states, strict=True)
        ]
        states = [end.state for end in ends]
        mean = {name: (ends[0].extras[name] + 3 * ends[1].extras[name]) / 4 for name in ends[0].extras}
        content = server.next(lambda: content, mean)  # noqa: B023 (called at once)
    return float(np.abs(content["w"] - optimum()).max())


def test_with_a_servers_momentum_it_never_settles_and_so_terms_refuse_the_two_together():
    assert after(ServerSide(None, "feddyn", None), 60) < 0.05
    momentum = ServerSide(MomentumStep(), "feddyn", None)
    assert after(momentum, 60) > 1 and after(momentum, 90) > 1


def test_the_term_has_the_gradient_of_the_papers_objective(model, start, move, weights):
    extras = {name: np.full_like(value, 0.25) for name, value in FedDyn().initial_extras(weights).items()}
    state = {name: np.full_like(value, -0.5) for name, value in weights.items()}
    before = [parameter.detach().clone() for parameter in model.parameters()]
    term = FedDyn(alpha=0.4).begin(model, start(extras=extras, state=state))
    begun = [parameter.detach().clone() for parameter in model.parameters()]
    assert all(torch.equal(now, then + 0.25) for now, then in zip(begun, before, strict=True)), "θ is the mean plus D"
    move(model, seed=1, step=0.1)
    parameters, linear = list(model.parameters()), -0.4 * -0.5
    pairs = list(zip(parameters, begun, strict=True))
    paper = sum(0.2 * ((now - then) ** 2).sum() - linear * now.sum() for now, then in pairs)
    expected = torch.autograd.grad(paper, parameters)
    found = torch.autograd.grad(term.loss(NO_BATCH), parameters)
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(found, expected, strict=True))


def test_clients_start_no_further_than_the_bound_from_the_mean(model, start, weights):
    lie = {name: np.full_like(value, -1e6) for name, value in FedDyn().initial_extras(weights).items()}
    before = [parameter.detach().clone() for parameter in model.parameters()]
    end = FedDyn().begin(model, start(extras=lie)).finish()
    assert all(torch.equal(now, then - MAX_DRIFT) for now, then in zip(model.parameters(), before, strict=True))
    assert all(np.array_equal(each, np.full_like(each, -MAX_DRIFT)) for each in end.extras.values())


def test_it_sends_and_keeps_the_moves(trained, weights):
    update = trained(FedDyn(), number=1)
    shapes = {name: value.shape for name, value in {**weights, **FedDyn().initial_extras(weights)}.items()}
    assert {name: value.shape for name, value in update.tensors.items()} == shapes
    for name, value in weights.items():
        assert np.array_equal(update.state["strategy/" + name], update.tensors[name] - value)
        assert np.array_equal(update.tensors[DRIFT + name], update.state["strategy/" + name])
