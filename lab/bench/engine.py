"""Seconds a round of the simulation engine, compared with the floor at matmul peak, a plain loop and Flower."""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from fedgrove.chain.face.networks import embedded
from fedgrove.common.errors import InvalidInput, RunFailed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.processor import check_processor
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.learning.models import ARCHITECTURES, PERCEPTRONS, Architecture, initial_tensors
from fedgrove.node.learning.networks import prepare, train
from fedgrove.node.learning.partition import partition
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.learning.settings import ModelSpec, PartitionSettings, TrainingSettings, default_settings
from fedgrove.node.learning.shared import draw_shared
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.scenario.reading import MANY, scenario
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.executors import InlineExecutor, open_executor
from fedgrove.node.simulation.run import Simulation
from fedgrove_lab.bench.engine_rivals import Work, flower_simulation, plain_round
from fedgrove_lab.bench.flower import FLOWER_VARIABLE
from fedgrove_lab.bench.rows import BenchResult, BenchRow, least

CLIENTS, DRAWN = 100, 10
TRAINING = TrainingSettings(epochs=5, batch_size=50, learning_rate=0.01, momentum=0.5, weight_decay=1e-4)
MODELS = {"no padding": "paper-cnn", "same": "paper-cnn-same"}
TRIVIAL = (1_000, 10_000)
TINY = 10_000
TINY_SAMPLES, TOGETHER = 20, 250
TINY_TRAINING = TrainingSettings(epochs=1, batch_size=10, learning_rate=0.05, momentum=0.0, weight_decay=0.0)
FEDERATED = 10

_PEAK_SIDE, _PEAK_SECONDS = 1024, 1.5
_REPEATS = 3


def run(
    dataset: Dataset, rounds: int, workers: int, trivial: tuple[int, ...] = TRIVIAL, tiny: int = TINY
) -> BenchResult:
    """Measure the engine on MNIST or images of its size, on this many processes, or threads of the plain loop.

    100 clients with equal parts of the training samples, 10 drawn, 5 local epochs, batch 50, the paper's CNN; nobody
    evaluates. The floor is the time that the work's multiplications take at the speed of a large matrix product of
    this run, on all processes at once. A round that does not count comes before the others. ``trivial`` are numbers of
    clients with one sample each; Flower is tried with the first; ``tiny`` clients have 20 images of 8 × 8
    pixels and a network of 2,410 weights, and are all drawn.
    """
    started = time.perf_counter()
    rows: list[BenchRow] = []
    with open_executor("processes", workers) as (pool, _):
        for label, model in MODELS.items():
            rows += _work_rows(label, model, dataset, rounds, pool, workers, started if not rows else None)
        rows += _trivial_rows(trivial, rounds, pool, workers)
        rows += _tiny_rows(tiny, rounds, pool, workers)
    rows += _strategy_rows(dataset)
    rows += _federation_rows(dataset)
    return BenchResult(tuple(rows), {"rounds": rounds, "workers": workers})


def run_tiny(rounds: int, workers: int, clients: int = TINY) -> BenchResult:
    """Measure the clients with a small network alone, as ``run`` does."""
    with open_executor("processes", workers) as (pool, _):
        rows = _tiny_rows(clients, rounds, pool, workers)
    return BenchResult(tuple(rows), {"rounds": rounds, "workers": workers})


# --- the work, and its rivals -----------------------------------------------------------------------------------------


def _work_rows(
    label: str, model: str, dataset: Dataset, rounds: int, pool: Executor, workers: int, started: float | None
) -> list[BenchRow]:
    """A round of the engine and its rivals; with ``started``, when the pool was, also the engine's first round."""
    unevaluated = {"cast": {"test_samples": 1}, "run": {"evaluate_every": rounds + 1}}
    drawn = {"federation": {"sampling_rate": DRAWN / CLIENTS}}
    plan = _plan(dataset, CLIENTS, rounds, TRAINING, model, **unevaluated, **drawn)
    marks = _marks(plan, dataset, pool, workers)
    peak = _peak(pool, workers)
    engine = _median_round(marks)
    samples = DRAWN * len(dataset.train()) // CLIENTS * TRAINING.epochs
    floor = samples * training_operations(ARCHITECTURES[model], dataset.input_shape, dataset.classes) / peak
    work = Work(CLIENTS, DRAWN, rounds + 1, TRAINING, ARCHITECTURES[model].padding, workers)
    parts = _equal_parts(dataset, CLIENTS)
    rows = [_row(f"{label}: engine", engine, floor, "floor at matmul peak")]
    if started is not None:
        rows.append(BenchRow(f"{label}: engine, start and first round", marks[0] - started, "s"))
    rows.append(_bf16_row(label, plan, dataset, pool, workers, floor))
    rows.append(_row(f"{label}: plain loop, {workers} threads", plain_round(work, parts), engine, "engine"))
    return rows + _flower_rows(label, work, parts, engine)


def _plan(dataset: Dataset, clients: int, rounds: int, training: TrainingSettings, model: str, **more: Any) -> Scenario:
    """Rounds of clients with equal parts, all drawn unless ``more`` says otherwise; one round more comes first."""
    plan = MANY.changed(
        cast={"dataset": dataset.name, "clients": clients},
        federation={"sampling_rate": 1.0, "rounds": rounds + 1},
        model={"name": model},
        training=training,
        partition=PartitionSettings("iid"),
    )
    return plan.changed(**more)


def _bf16_row(label: str, plan: Scenario, dataset: Dataset, pool: Executor, workers: int, floor: float) -> BenchRow:
    """The same round in bfloat16, next to the floor in float32."""
    name = f"{label}: engine, bf16"
    training = replace(TRAINING, precision="bf16")
    try:
        check_processor(training.portable, training.precision)
    except InvalidInput as fault:
        return BenchRow(name, "not measured", note=str(fault))
    marks = _marks(replace(plan, training=training), dataset, pool, workers)
    return _row(name, _median_round(marks), floor, "fp32 floor at matmul peak")


def _flower_rows(
    label: str, work: Work, parts: list[Samples] | None, engine: float, processor: float | None = None
) -> list[BenchRow]:
    """Flower next to the engine's seconds, and its processor time where the engine's is given."""
    try:
        flower = flower_simulation(work, parts)
    except RunFailed as fault:
        return [BenchRow(f"{label}: Flower", "failed", note=f"check {FLOWER_VARIABLE}: {fault}")]
    if flower is None:
        note = f"set {FLOWER_VARIABLE} to a Python that has flwr[simulation] and torch"
        return [BenchRow(f"{label}: Flower", "not measured", note=note)]
    name = f"{label}: Flower {flower.version}"
    rows = [
        _row(name, median(flower.rounds), engine, "engine"),
        BenchRow(f"{name}, start and first round", flower.start, "s"),
    ]
    if processor is not None:
        rows.append(_row(f"{name}, processor time of all its processes", median(flower.processor), processor, "engine"))
    return rows


def training_operations(architecture: Architecture, input_shape: tuple[int, ...], classes: int) -> int:
    """Multiplications and additions to train one sample once.

    Each layer is a matrix product, done forward, for the gradient of its weights, and for that of its input, which the
    first layer does without.
    """
    channels, height, width = input_shape
    lost = architecture.kernel - 1 - 2 * architecture.padding
    products = []
    for units in architecture.channels:
        height, width = height - lost, width - lost
        products.append(height * width * units * channels * architecture.kernel**2)
        channels, height, width = units, height // 2, width // 2
    products += [channels * height * width * architecture.hidden, architecture.hidden * classes]
    return 2 * (2 * products[0] + 3 * sum(products[1:]))


def _peak(pool: Executor, workers: int) -> float:
    """Operations a second of float32 matrix products, one thread in each of the processes at once."""
    return sum(future.result() for future in [pool.submit(matmul_speed) for _ in range(workers)])


def matmul_speed() -> float:
    """Operations a second of a large float32 matrix product on one thread."""
    a, b = torch.rand(2, _PEAK_SIDE, _PEAK_SIDE)
    best, end = float("inf"), time.perf_counter() + _PEAK_SECONDS
    while time.perf_counter() < end:
        best = min(best, *least(lambda: torch.matmul(a, b), repeats=1))
    return 2 * _PEAK_SIDE**3 / best


def _equal_parts(dataset: Dataset, clients: int) -> list[Samples]:
    training = dataset.train()
    return [training.take(part) for part in partition(training.y, clients, PartitionSettings("iid"), 0)]


# --- what a strategy costs --------------------------------------------------------------------------------------------


def _strategy_rows(dataset: Dataset) -> list[BenchRow]:
    """CPU seconds of a client's round of FedAom, next to FedAvg's."""
    training = dataset.train()
    samples = training.take(np.arange(len(training) // CLIENTS))
    shared = draw_shared(training, 5, np.random.default_rng(0))
    spec = ModelSpec("paper-cnn", dataset.input_shape, dataset.classes)
    weights = initial_tensors(spec.name, spec.input_shape, spec.classes, 0)
    aom, avg = make_strategy("fedaom"), make_strategy("fedavg")
    prepared = prepare(spec, weights, shared, aom, number=1, rounds=100)
    rows = []
    for epochs in (1, TRAINING.epochs):
        settings = replace(TRAINING, epochs=epochs)
        client = partial(train, spec, weights, samples, settings=settings, number=1, rounds=100, client=1, seed=0)
        with_behaviour = partial(client, shared=shared, strategy=aom)
        calls = partial(client, shared=None, strategy=avg), partial(with_behaviour, prepared=prepared), with_behaviour
        plain, cached, alone = least(*calls, repeats=_REPEATS, clock=time.process_time)
        label = f"FedAom, {epochs} local epoch{'s' * (epochs > 1)}"
        rows += [
            _row(label, cached, plain, "FedAvg"),
            _row(f"{label}, with the global term", alone, plain, "FedAvg"),
        ]
    return rows


# --- many clients, and a real round -----------------------------------------------------------------------------------


def _trivial_rows(numbers: tuple[int, ...], rounds: int, pool: Executor, workers: int) -> list[BenchRow]:
    """Rounds of clients that have one sample each, all drawn."""
    training = TrainingSettings(epochs=1, batch_size=1, learning_rate=0.01)
    seconds = []
    for clients in numbers:
        dataset = _tiny(clients)
        plan = _plan(dataset, clients, rounds, training, "small-cnn")
        seconds.append(_median_round(_marks(plan, dataset, pool, workers)))
    rows = [BenchRow(f"{clients:,} trivial clients", each, "s") for clients, each in zip(numbers, seconds, strict=True)]
    work = Work(numbers[0], numbers[0], rounds + 1, training, 0, workers)
    flower = _flower_rows(f"{numbers[0]:,} clients that train nothing", work, None, seconds[0])
    return rows[:1] + flower + rows[1:]


def _tiny_rows(clients: int, rounds: int, pool: Executor, workers: int) -> list[BenchRow]:
    """Rounds of clients with a small network, trained together and one after the other, next to Flower's."""
    dataset = _tiny(clients * TINY_SAMPLES)
    plan = _plan(dataset, clients, rounds, TINY_TRAINING, "small-mlp")
    grouped = Simulation(plan.changed(run={"together": TOGETHER}), dataset, pool, workers).run()
    marks, processor = zip(*((time.perf_counter(), processor_seconds()) for _ in grouped), strict=True)
    together, spent = _median_round(marks), _median_round(processor)
    alone = _median_round(_marks(plan, dataset, pool, workers))
    label = f"{clients:,} clients, {TINY_SAMPLES} samples each, 2,410 weights"
    work = Work(clients, clients, rounds + 1, TINY_TRAINING, 0, workers, PERCEPTRONS["small-mlp"])
    parts = _equal_parts(dataset, clients)
    return [
        _row(f"{label}: together", together, alone, "one after the other"),
        BenchRow(f"{label}: together, processor time with all workers'", spent, "s"),
        *_flower_rows(label, work, parts, together, spent),
    ]


def processor_seconds() -> float:
    """Processor time so far of this process and its children, those that are running, too."""
    ticks = 0
    for process in (os.getpid(), *(child.pid for child in multiprocessing.active_children())):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # utime and stime: fields 14 and 15, two before the name
    return ticks / os.sysconf("SC_CLK_TCK")


def _tiny(samples: int) -> Dataset:
    """Random images of digits' size."""
    rng = np.random.default_rng(0)
    x = rng.random((samples, 1, 8, 8), dtype=np.float32)
    both = Samples(x, np.arange(samples) % 10)
    return Dataset("tiny", 10, both, both.take(np.arange(10)))


def _federation_rows(dataset: Dataset) -> list[BenchRow]:
    """A round of a federation on the embedded chain, next to the same training without chain, store and masks."""
    training = dataset.train()
    part = Dataset(
        dataset.name,
        dataset.classes,
        training.take(np.arange(FEDERATED * len(training) // CLIENTS)),
        dataset.test().take(np.arange(min(1000, len(dataset.test())))),
    )
    demo = scenario(dataset=dataset.name, clients=FEDERATED, rounds=3, alpha=100.0, strategy="fedavg")
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as folder, embedded() as network:
        federation = Demo(demo, DatasetSubject(part), network, DiskStore(Path(folder)))
        federation.run()
    skewed = PartitionSettings("dirichlet", alpha=demo.partition.alpha)
    training, rounds = default_settings(dataset.name), demo.federation.rounds
    plan = _plan(part, FEDERATED, rounds - 1, training, "", partition=skewed)
    alone = _median_round(_marks(plan, part, InlineExecutor(), 1))
    whole = median(federation.seconds[number] for number in range(2, rounds + 1))
    share = BenchRow("share of chain, store and masks", round(100 * (1 - alone / whole), 1), "%")
    return [_row(f"a federation's round, {FEDERATED} clients", whole, alone, "simulated in one process"), share]


def _marks(plan: Scenario, dataset: Dataset, executor: Executor, workers: int) -> list[float]:
    """When each round ended."""
    return [time.perf_counter() for _ in Simulation(plan, dataset, executor, workers).run()]


def _median_round(marks: Sequence[float]) -> float:
    """Median seconds of a round after the first."""
    return median(after - before for before, after in pairwise(marks))


def _row(name: str, value: float, limit: float, limit_name: str) -> BenchRow:
    return BenchRow.compared(name, value, "s", limit, limit_name, digits=2)
