"""FedAom's mathematics, and that the strategy interface carries all that other methods need."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.attribution import attributions, path_gradients
from fedgrove.node.learning.models import build_model, initial_tensors
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies import Batch, LocalTerm, RoundEnd, RoundStart
from fedgrove.node.learning.strategies.fedaom import FedAom
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.tasks.network import Network, NetworkModel
from fedgrove.node.learning.tasks.task import Pairs, joined
from tests.node.learning.strategies.conftest import SPEC, pairs, random_samples


def dataset(count: int, seed: int) -> Pairs:
    return pairs(random_samples(count, seed))


def network(seed: int = 0) -> NetworkModel:
    return NetworkModel(Network(SPEC), build_model(SPEC.name, SPEC.input_shape, SPEC.classes, seed))


def start_of(shared: Any, number: int = 1, rounds: int = 10) -> RoundStart:
    return RoundStart(number, rounds, dataset(5, 9), shared, {}, {}, torch.Generator().manual_seed(0))


def begin(strategy: FedAom, model: NetworkModel, shared: Pairs) -> LocalTerm:
    prepared = strategy.prepare(model, shared, number=1, rounds=10)
    return strategy.begin(model, replace(start_of(shared), prepared=prepared))


def added_loss(term: LocalTerm, model: NetworkModel) -> torch.Tensor:
    """What a step with no images of its own adds."""
    none = torch.zeros(0)
    return term.loss(Batch(none, none, none, companions=model.module.layer_outputs(term.companions())))


def test_the_added_losss_weight_runs_from_one_to_zero():
    strategy = FedAom()
    weights = [strategy.weight(number, 50) for number in range(51)]
    assert weights[0] == 1.0
    assert weights[50] == 0.0
    assert all(after < before for before, after in pairwise(weights))
    assert weights[25] == pytest.approx(1 - (np.e**0.5 - 1) / (np.e - 1))
    assert strategy.weight(60, 50) == 0.0
    assert FedAom(beta=3.0).weight(100_000, 50) == 2.0, "rounds after T are as round T"
    assert FedAom(beta=3.0).weight(50, 50) == 2.0


def test_the_added_loss_is_zero_for_the_global_model_and_positive_away_from_it():
    model = network()
    term = begin(FedAom(shared_batch=10), model, dataset(10, 1))
    loss = added_loss(term, model)
    assert loss.item() == 0.0
    loss.backward()
    assert not any(p.grad.any() for p in model.parameters()), "a norm has no gradient at zero"
    with torch.no_grad():
        model.module.hidden.bias += 0.1
    assert added_loss(term, model).item() > 0


def test_the_added_loss_is_one_norm_over_all_layers_and_samples():
    """Eq. 7, written out: refreshed attributions of the local model, the global model's behaviour as the target."""
    strategy, shared = FedAom(q=3, shared_batch=10, refresh=1), dataset(10, 1)
    model, local = network(0), network(1)
    term = begin(strategy, model, shared)
    with torch.no_grad():
        for parameter, other in zip(model.parameters(), local.parameters(), strict=True):
            parameter.copy_(other)
    term.start_epoch(1)
    square = 0.0
    paths = [path_gradients(each.module, shared.inputs, shared.targets, 3) for each in (network(), local)]
    for layers in zip(*(zip(path.outputs, attributions(path, 7.0), strict=True) for path in paths), strict=True):
        weighted = [output * units.reshape(*units.shape, *(1,) * (output.dim() - 2)) for output, units in layers]
        square += float((weighted[0] - weighted[1]).double().square().sum())
    assert added_loss(term, model).item() == pytest.approx(strategy.weight(1, 10) * square**0.5, rel=1e-4)


def test_the_added_losss_gradient_equals_finite_differences():
    model, shared = network().double(), dataset(6, 1)
    shared.inputs = shared.inputs.double()
    term = begin(FedAom(q=4, shared_batch=6), model, shared)
    generator = torch.Generator().manual_seed(4)

    def noise() -> list[torch.Tensor]:
        return [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]

    def move(directions: list[torch.Tensor], step: float) -> None:
        with torch.no_grad():
            for parameter, direction in zip(model.parameters(), directions, strict=True):
                parameter += step * direction

    move(noise(), 0.05)
    directions = noise()
    added_loss(term, model).backward()
    slope = sum(float((p.grad * d).sum()) for p, d in zip(model.parameters(), directions, strict=True))
    values = []
    # Small enough that no unit crosses a kink of ReLU or max-pooling.
    for step in (1e-7, -2e-7):
        move(directions, step)
        values.append(added_loss(term, model).item())
    assert slope == pytest.approx((values[0] - values[1]) / 2e-7, rel=1e-5)
    assert abs(slope) > 1e-5


def test_local_attributions_are_refreshed_when_due():
    model = network()
    for refresh, changed in ((0, []), (1, [1, 2, 3, 4]), (2, [2, 4])):
        term = begin(FedAom(refresh=refresh), model, dataset(10, 1))
        seen = []
        for epoch in range(5):
            before = term._local
            term.start_epoch(epoch)
            if term._local is not before:
                seen.append(epoch)
        assert seen == changed


@pytest.mark.parametrize(("options", "number"), [({"beta": 0.0}, 2), ({}, 10)])
def test_with_weight_zero_it_is_fedavg_to_the_bit(trained, same, options, number):
    """β 0 in any round, or the default in the last one."""
    plain, shared = trained(FedAvg(), number=number), random_samples(10, 1)
    assert same(trained(FedAom(**options), shared=shared, number=number), plain)
    assert not same(trained(FedAom(), shared=shared, number=1), trained(FedAvg(), number=1))


@dataclass(frozen=True)
class Everything(FedAvg):
    """Uses every part of the interface: mixed data, a proximal loss, a counted extra, and remembered weights."""

    mu: float = 0.1

    @property
    def needs_shared(self) -> bool:
        return True

    def initial_extras(self, weights: Tensors) -> Tensors:
        return {"everything/steps": np.zeros(1, np.float32)}

    def local_data(self, samples: Any, shared: Any) -> Any:
        return joined(samples, shared)

    def begin(self, model: NetworkModel, start: RoundStart) -> LocalTerm:
        return EverythingTerm(self, model, start)


class EverythingTerm(LocalTerm):
    contrasts = True

    def __init__(self, options: Everything, model: NetworkModel, start: RoundStart) -> None:
        self.options, self.model, self.start, self.steps = options, model, start, 0
        self.anchor = [parameter.detach().clone() for parameter in model.parameters()]

    def loss(self, batch: Batch) -> torch.Tensor:
        self.steps += 1
        assert batch.representation.shape == (len(batch.y), 64)
        gaps = zip(self.model.parameters(), self.anchor, strict=True)
        return self.options.mu / 2 * sum(((now - then) ** 2).sum() for now, then in gaps)

    def finish(self) -> RoundEnd:
        steps = self.start.extras["everything/steps"] + np.float32(self.steps)
        rounds = self.start.state.get("rounds", np.zeros(1, np.float32)) + np.float32(1)
        return RoundEnd({"everything/steps": steps}, {"rounds": rounds})


def test_a_strategy_may_mix_data_add_loss_send_extras_and_keep_state():
    strategy = Everything()
    weights = initial_tensors("small-cnn", (1, 8, 8), 5, 0)
    model = {**weights, **strategy.initial_extras(weights)}
    settings = TrainingSettings(batch_size=10)
    state = None
    for number in (1, 2):
        update = train(
            SPEC, model, random_samples(30, 2), random_samples(10, 1), strategy, settings,
            number=number, rounds=2, client=1, seed=0, state=state,
        )  # fmt: skip
        assert set(update.tensors) == set(model)
        assert update.samples == 30, "shared samples do not count as the client's own"
        model, state = update.tensors, update.state
    assert model["everything/steps"].tolist() == [8.0]
    assert state["strategy/rounds"].tolist() == [2.0]
