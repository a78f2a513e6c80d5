"""Simulations: the bytes of a federation, the same on every executor; memory that does not grow with the clients."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import tomli_w

from fedgrove.chain.records import Closed
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.networks import evaluate, train
from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings, default_settings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.scenario.reading import MANY, read_scenario, scenario
from fedgrove.node.simulation.data import deal_data
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.record import RunRecord
from fedgrove.node.simulation.run import Simulation
from tests.node.conftest import run_federation
from tests.node.simulation.conftest import generated, simulate, small_plan


@pytest.fixture(scope="module")
def inline(digits):
    """A run in this process."""
    return simulate(small_plan(probe_every=2), digits)


# --- the same bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["fedaom", "moon", "fedcurv", "scaffold"])
def test_a_simulation_has_the_bytes_of_a_federation(strategy, digits, tmp_path):
    run = run_federation(tmp_path / "kept", scenario(clients=4, rounds=2, strategy=strategy, seed=5))
    (tmp_path / "federation.toml").write_text(tomli_w.dumps(run.report["config"]))
    plan = read_scenario(tmp_path / "federation.toml", {"scenario": {"clients": 4}})
    simulation = simulate(plan, digits)
    closed = [record for record in run.records if isinstance(record, Closed)]
    assert run.store.fetch(closed[-1].model_digest, 1 << 26) == dump(simulation.tensors)
    for entry, result in zip(run.report["rounds"], simulation.record.rounds, strict=True):
        assert entry["accuracy"] == result.accuracy and entry["loss"] == pytest.approx(result.loss, rel=1e-12)


def test_clients_are_told_which_share_of_them_is_drawn(digits):
    """After a first round SCAFFOLD's c is that share of the mean gradients that the drawn clients keep."""
    plan = small_plan(strategy="scaffold", rounds=1)
    run, data = simulate(plan, digits), deal_data(plan, digits, with_shared=False)
    strategy, spec, drawn = make_strategy("scaffold"), data.spec, run.record.rounds[0].clients
    weights = initial_tensors(spec.name, spec.input_shape, spec.classes, plan.seed)
    model, place = weights | strategy.initial_extras(weights), {"number": 1, "rounds": 1, "seed": plan.seed}
    parts = [data.training.take(data.parts[client - 1]) for client in drawn]
    states = [
        train(spec, model, own, None, strategy, plan.training, client=client, **place).state
        for client, own in zip(drawn, parts, strict=True)
    ]
    total = sum(map(len, parts))
    mean = sum(len(own) / total * state["strategy/output.bias"] for own, state in zip(parts, states, strict=True))
    assert len(drawn) == 6 and np.abs(mean).max() > 1e-3
    assert np.allclose(run.tensors["scaffold/control/output.bias"], 0.5 * mean, atol=1e-6)


def test_another_seed_gives_another_model(inline, digits):
    known = inline.record
    assert simulate(known.scenario.with_seed(8), digits).record.model_digest != known.model_digest


# --- what is reported ----------------------------------------------------------------------------------------------


def test_accuracy_is_that_of_the_model_on_all_test_samples(inline, digits):
    simulation = inline
    spec = deal_data(simulation.record.scenario, digits, with_shared=False).spec
    score = evaluate(spec, simulation.tensors, digits.test())
    last = simulation.record.rounds[-1]
    assert last.accuracy == score.accuracy and last.loss == pytest.approx(score.loss, rel=1e-12)


def test_a_round_tells_who_was_drawn_and_how_much_they_have(inline, digits):
    simulation = inline
    parts = deal_data(simulation.record.scenario, digits, with_shared=False).parts
    for result in simulation.record.rounds:
        assert result.clients == simulation.record.scenario.draw(result.round)
        assert result.samples == sum(len(parts[client - 1]) for client in result.clients)
        assert result.train_loss > 0
        assert (result.ood_accuracy is None) == (result.round != 2)
        assert result.ood_accuracy is None or 0 <= result.ood_accuracy <= 1


def test_it_learns(digits):
    plan = MANY.changed(
        cast={"clients": 10},
        federation={"sampling_rate": 0.5, "rounds": 6},
        run={"evaluate_every": 3},
        training=default_settings("digits"),
    )
    accuracies = [result.accuracy for result in simulate(plan, digits).record.rounds]
    assert accuracies[:2] == [None, None] and accuracies[3:5] == [None, None]
    assert accuracies[5] > 0.8 and accuracies[5] > accuracies[2]


def test_subsets_are_of_the_size_that_the_plan_says(digits):
    plan = small_plan(train_samples=200, test_samples=150)
    data = deal_data(plan, digits, with_shared=False)
    assert len(data.training) == 200 == sum(map(len, data.parts))
    assert len(data.test) == 150 and np.array_equal(data.test.y, digits.test().y[:150])
    other = deal_data(plan.with_seed(8), digits, with_shared=False)
    assert not np.array_equal(data.training.y, other.training.y)


def test_validation_samples_are_training_samples_that_nobody_trains_on(digits):
    plan = small_plan(train_samples=200, validation=0.25)
    whole = deal_data(plan.changed(cast={"validation": 0.0}), digits, False).training
    data = deal_data(plan, digits, False)
    assert (len(data.training), len(data.test)) == (150, 50) and sum(map(len, data.parts)) == 150
    rows = [each.tobytes() for part in (data.training, data.test) for each in part.x]
    assert sorted(rows) == sorted(each.tobytes() for each in whole.x)
    assert not np.array_equal(deal_data(plan.with_seed(8), digits, False).test.y, data.test.y)
    with pytest.raises(InvalidConfig, match=r"scenario\.validation leaves none of the 12"):
        deal_data(plan.changed(cast={"train_samples": 12, "validation": 0.05}), digits, False)


def test_a_record_holds_no_times(inline):
    record = inline.record
    assert RunRecord.from_json(json.loads(record.to_bytes())) == record
    assert set(record.to_json()["rounds"][0]) == {
        *("round", "accuracy", "loss", "train_loss", "clients", "samples", "ood_accuracy")
    }


# --- what cannot be run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"clients": 5000}, "samples are too few"),
        ({"train_samples": 10_000_000}, "train_samples"),
        ({"strategy": "fedaom", "shared_per_class": 900}, "fewer than the 900"),
        ({"strategy": "fedaom", "options": {"quality": 1}}, "unknown key strategy.options.quality"),
        ({"strategy": "fedaom", "options": {"q": 0}}, "q"),
        ({"model": "paper-cnn"}, "too small"),
    ],
)
def test_a_plan_that_does_not_suit_the_data_is_refused_with_a_sentence(changes, word, digits):
    with pytest.raises(InvalidConfig, match=word):
        Simulation(small_plan(**changes), digits, InlineExecutor(), 1)


# --- many clients --------------------------------------------------------------------------------------------------


def peak_of_a_round(clients: int, drawn: int) -> int:
    """Peak of traced memory, in bytes, of one round of a generated data set with a sample or two a client."""
    training = TrainingSettings(epochs=1, batch_size=50)
    skewed = PartitionSettings("dirichlet", 0.1)
    plan = MANY.changed(
        cast={"dataset": "generated", "clients": clients, "test_samples": 100},
        federation={"sampling_rate": drawn / clients, "rounds": 1},
        training=training,
        partition=skewed,
    )
    simulation = Simulation(plan, generated(20_000), InlineExecutor(), 1)
    tracemalloc.start()
    try:
        (result,) = simulation.run()
        assert len(result.clients) == drawn
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_ten_thousand_clients_run_in_one_process_and_memory_does_not_hold_their_models():
    few, many = peak_of_a_round(100, 20), peak_of_a_round(10_000, 320)
    model = len(dump(Simulation(small_plan(clients=1), generated(400), InlineExecutor(), 1).tensors))
    # What grows is a line a client that was drawn, not the 300 models more.
    assert many - few < 10 * model


def test_more_test_samples_than_a_slice_are_cut_and_put_together_again():
    data = generated(300)
    held_out = generated(1300).training
    dataset = replace(data, held_out=held_out)
    plan = small_plan(train_samples=0, rounds=1)
    simulation = simulate(plan, dataset)
    score = evaluate(deal_data(plan, dataset, with_shared=False).spec, simulation.tensors, held_out)
    assert simulation.record.rounds[0].accuracy == score.accuracy
