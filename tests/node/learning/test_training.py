"""Training is reproducible to the byte, says why it fails, and eight skewed clients learn the digits together."""

import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import Tensors, dump
from fedgrove.node.learning.datasets import Dataset, load_dataset
from fedgrove.node.learning.local_update import DivergedTraining, LocalUpdate
from fedgrove.node.learning.models import build_model, initial_tensors, to_tensors
from fedgrove.node.learning.networks import evaluate, prepare, train
from fedgrove.node.learning.partition import partition
from fedgrove.node.learning.reproducible import generator_of, keep_freed_memory
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import (
    ModelSpec,
    PartitionSettings,
    TrainingSettings,
    default_model,
    default_settings,
)
from fedgrove.node.learning.shared import draw_shared
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.tasks import batches

SPEC = ModelSpec("small-cnn", (1, 8, 8), 10)
PLACE = {"number": 1, "rounds": 3, "client": 2, "seed": 5}


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits")


@pytest.fixture(scope="module")
def shared(digits) -> Samples:
    return draw_shared(digits.train(), 2, np.random.default_rng(0))


@pytest.fixture
def start() -> Tensors:
    return initial_tensors("small-cnn", (1, 8, 8), 10, seed=0)


def run(start, samples, shared, strategy="fedaom", settings=None, **place) -> LocalUpdate:
    settings = settings or TrainingSettings(epochs=2, batch_size=16, crop=1, erase=0.2)
    return train(SPEC, start, samples, shared, make_strategy(strategy), settings, **{**PLACE, **place})


def test_the_same_round_gives_the_same_bytes_whatever_the_callers_threads(digits, shared, start):
    samples = digits.train().take(range(80))
    first = run(start, samples, shared)
    outside = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        torch.manual_seed(99)
        second = run(start, samples, shared)
        assert torch.get_num_threads() == 2, "the caller's setting is restored"
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(outside)
    assert dump(first.tensors) == dump(second.tensors)
    assert first.loss == second.loss


def test_clients_in_parallel_threads_give_the_bytes_of_clients_in_turn(digits, shared, start):
    samples = digits.train().take(range(80))
    in_turn = [dump(run(start, samples, shared, client=client).tensors) for client in range(1, 5)]
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run, start, samples, shared, client=client) for client in range(1, 5)]
        assert [dump(job.result().tensors) for job in jobs] == in_turn
    assert len(set(in_turn)) == 4


def test_what_is_common_to_a_round_may_be_prepared_once_for_all_its_clients(digits, shared, start):
    samples = digits.train().take(range(80))
    strategy = make_strategy("fedaom")
    prepared = prepare(SPEC, start, shared, strategy, number=1, rounds=3)
    for client in (1, 2):
        alone = run(start, samples, shared, client=client)
        assert dump(run(start, samples, shared, client=client, prepared=prepared).tensors) == dump(alone.tensors)
    assert prepare(SPEC, start, shared, strategy, number=3, rounds=3) is None, "its weight is zero by then"
    assert prepare(SPEC, start, None, make_strategy("fedavg"), number=1, rounds=3) is None
    with pytest.raises(InvalidInput, match="fedaom needs a shared set"):
        prepare(SPEC, start, None, strategy, number=1, rounds=3)


@pytest.mark.parametrize("other", [{"seed": 6}, {"client": 3}, {"number": 2}])
def test_seed_client_and_round_each_change_the_randomness(digits, shared, start, other):
    samples = digits.train().take(range(80))
    settings = TrainingSettings(learning_rate_decay=1.0)
    arguments = (start, samples, shared, "fedavg", settings)
    assert dump(run(*arguments).tensors) != dump(run(*arguments, **other).tensors)


def test_inputs_are_left_alone_and_everything_can_be_sent_to_another_process(digits, shared, start):
    samples = digits.train().take(range(40))
    before = dump(start)
    update = run(start, samples, shared)
    assert dump(start) == before
    work = pickle.loads(pickle.dumps((SPEC, start, samples, shared, make_strategy("fedaom"), TrainingSettings())))
    assert work[4] == make_strategy("fedaom")
    assert dump(pickle.loads(pickle.dumps(update)).tensors) == dump(update.tensors)
    assert update.samples == 40


def test_divergence_names_client_round_and_settings(digits, shared, start):
    settings = TrainingSettings(epochs=3, learning_rate=100.0, weight_decay=10.0)
    with pytest.raises(DivergedTraining, match=r"client 2 diverged in round 1: lower learning_rate \(now 100\)"):
        run(start, digits.train().take(range(200)), shared, "fedavg", settings)


def test_samples_that_do_not_fit_the_model_are_a_sentence(digits, shared, start):
    small = digits.train().take(range(10))
    cases = [
        (Samples(small.x[:0], small.y[:0]), shared, "at least one"),
        (Samples(small.x[:, :, :6], small.y), shared, "images have shape 1x6x8"),
        (Samples(small.x, small.y + 10), shared, "a label 19, the federation's are 0 to 9"),
        (small, Samples(shared.x[:, :, :6], shared.y), "images have shape 1x6x8"),
        (small, None, "fedaom needs a shared set"),
    ]
    for samples, common, message in cases:
        with pytest.raises(InvalidInput, match=message):
            run(start, samples, common)


def test_evaluation_counts_right_answers(start):
    rng = np.random.default_rng(0)
    x = rng.random((1201, 1, 8, 8), dtype=np.float32)
    blank = {name: np.zeros_like(value) for name, value in start.items()}
    blank["output.bias"][3] = np.log(9.0)
    labels = np.arange(1201, dtype=np.int64) % 10
    result = evaluate(SPEC, blank, Samples(x, labels))
    assert result.samples == 1201
    assert result.accuracy == pytest.approx(120 / 1201)
    assert result.right == (0, 0, 0, 120, 0, 0, 0, 0, 0, 0)
    assert result.per_label == (121, *[120] * 9)
    expected = (120 * -np.log(0.5) + 1081 * -np.log(1 / 18)) / 1201
    assert result.loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("paper-cnn", (1, 28, 28)),
        ("paper-cnn-centred", (3, 20, 18)),
        ("paper-cnn-same", (3, 20, 22)),
        ("small-cnn", (1, 9, 7)),
        ("small-cnn-centred", (3, 9, 7)),
    ],
)
def test_training_equals_the_textbook_loop(model, shape):
    """Up to float32 rounding: each layer within 1 % of the way it went (0.01 % if rounding turns no maximum)."""
    spec, settings = ModelSpec(model, shape, 10), TrainingSettings(epochs=2, momentum=0.5, weight_decay=0.1)
    rng = np.random.default_rng(0)
    samples = Samples(rng.random((130, *shape), dtype=np.float32), rng.integers(0, 10, 130))
    start = initial_tensors(model, shape, 10, seed=0)
    ours = train(spec, start, samples, None, make_strategy("fedavg"), settings, **PLACE)
    plain = build_model(model, shape, 10, seed=0)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.5, weight_decay=0.1, foreach=False)
    generator = generator_of("training", PLACE["seed"], PLACE["client"], PLACE["number"])
    x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    if model.endswith("-centred"):
        x = 4 * x - 2
    for _ in range(2):
        for chosen in torch.randperm(130, generator=generator).split(50):
            maps = functional.max_pool2d(functional.relu(plain.conv1(x[chosen])), 2)
            maps = functional.max_pool2d(functional.relu(plain.conv2(maps)), 2)
            logits = plain.output(functional.relu(plain.hidden(maps.flatten(1))))
            optimizer.zero_grad()
            functional.cross_entropy(logits, y[chosen]).backward()
            optimizer.step()
    for name, expected in to_tensors(plain).items():
        assert np.linalg.norm(ours.tensors[name] - expected) < 0.01 * np.linalg.norm(expected - start[name])


def test_batches_gathered_piece_by_piece_are_those_of_one_gather(digits, start, monkeypatch):
    samples = digits.train().take(range(100))
    whole = run(start, samples, None, "fedavg")
    monkeypatch.setattr(batches, "GATHERED_BYTES", 3 * 16 * 256)
    assert dump(run(start, samples, None, "fedavg").tensors) == dump(whole.tensors)


def test_a_thread_may_evaluate_first_and_train_then(digits, shared, start):
    samples = digits.train().take(range(40))
    expected = dump(run(start, samples, shared).tensors)

    def both() -> bytes:
        evaluate(SPEC, start, samples)
        return dump(run(start, samples, shared).tensors)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(both).result() == expected


def test_a_prepared_process_trains_to_the_same_bytes(digits, shared, start):
    samples = digits.train().take(range(40))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=keep_freed_memory) as pool:
        there = pool.submit(run, start, samples, shared)
        assert dump(there.result().tensors) == dump(run(start, samples, shared).tensors)


@pytest.mark.parametrize("strategy", ["fedavg", "fedaom"])
def test_eight_skewed_clients_learn_the_digits_in_three_rounds(digits, strategy):
    """Dirichlet 0.3: the average of round 1 is poor, round 3 must reach 0.85 (trials of other seeds: 0.92 to 0.95)."""
    train_set, test_set = digits.train(), digits.test()
    spec = ModelSpec(default_model("digits"), digits.input_shape, digits.classes)
    parts = partition(train_set.y, 8, PartitionSettings("dirichlet", alpha=0.3), seed=0)
    common = draw_shared(train_set, 5, np.random.default_rng(0))
    method, settings = make_strategy(strategy), default_settings("digits")
    model = initial_tensors(spec.name, spec.input_shape, spec.classes, seed=0)
    accuracies = []
    for number in (1, 2, 3):
        updates = [
            train(
                spec, model, train_set.take(part), common, method, settings,
                number=number, rounds=3, client=client, seed=0,
            )
            for client, part in enumerate(parts, start=1)
        ]  # fmt: skip
        total = sum(update.samples for update in updates)
        model = {
            name: sum(update.tensors[name] * (update.samples / total) for update in updates).astype(np.float32)
            for name in model
        }
        accuracies.append(evaluate(spec, model, test_set).accuracy)
    assert accuracies[0] < accuracies[1] < accuracies[2]
    assert accuracies[2] >= 0.85
