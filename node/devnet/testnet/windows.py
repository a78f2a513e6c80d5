"""How many blocks each phase of a round gets, when all clients share the processors of one machine.

As a phase ends once nobody is missing, a window costs nothing where all act in time: it is how long a round waits for a
process that is slow, or that was killed and has to start again.
"""

import math
import os
import time
from collections.abc import Sequence, Sized
from dataclasses import replace

from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.base.tensors import Tensors, load
from fedgrove.node.devnet.subjects import DatasetSubject, Subject
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.learning.local_update import RoundPosition
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.training.task_data import TaskData
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario

_PROBE_SAMPLES = 64
_CLUSTERING_SECONDS = 1.0  # seeding and a sum of counts, all clients together
_ELEMENT_SECONDS = 1e-4  # to answer one element of a partner's set, on a slow machine
_SPARE = 3.0  # training is given this many times what it should take: the machine does other things as well
_AWAY_SECONDS = 120
_BLOCKS = 3  # to see a block, send a transaction and find it in a block


def windows(clients: int, block_seconds: float, training_seconds: float, patient: bool = False) -> LedgerSettings:
    """The ledger's windows.

    Parameters
    ----------
    clients : int
        All of them act in each phase, on this machine's processors.
    block_seconds : float
        Seconds between two blocks.
    training_seconds : float
        What a round's training takes, all clients together.
    patient : bool
        Rounds wait longer for a process to be back, as those of clusters must: who misses the comparisons is in none,
        and the coordinator alone can close.
    """

    def blocks(seconds: float) -> int:
        return _BLOCKS + math.ceil(seconds / block_seconds)

    grace, restart = blocks(6), 12 + 0.5 * clients + (_AWAY_SECONDS if patient else 0)
    return LedgerSettings(
        seed_delay=1,
        draw_window=blocks(restart),
        seal_window=blocks(restart),
        share_window=blocks(restart),
        commit_window=blocks(restart + _SPARE * training_seconds),
        recover_window=2 * grace + blocks(restart),
        close_window=2 * grace + blocks(restart),
        coordinator_grace=grace,
        quorum=3,
        max_clients=clients,
        absence_limit=10,
        absence_rounds=1,
        max_samples=1 << 24,
    )


def windows_of(scenario: Scenario, config: FederationConfig, subject: Subject, first: bytes) -> LedgerSettings:
    """The ledger's windows for a scenario whose terms are ``config`` and whose first model is ``first``."""
    clients, parts = scenario.cast.clients, subject.parts(config)
    clusters = config.method if isinstance(config.method, ProCflTerms) else None
    if isinstance(subject, TaskSubject):
        seconds = task_seconds(config, parts, load(first))
    elif isinstance(subject, DatasetSubject):
        seconds = training_seconds(config, list(parts), subject.shared)
    else:
        seconds = _CLUSTERING_SECONDS
    if clusters is not None:
        seconds = max(judging_seconds(clusters, seconds), comparing_seconds(parts))
    return windows(clients, scenario.run.block_seconds, seconds, patient=clusters is not None)


def comparing_seconds(parts: Sequence[Sized]) -> float:
    """About how long it takes on this machine that clients answer each other's sets, all clients together."""
    answered = sum(map(len, parts)) * (len(parts) - 1)
    return _ELEMENT_SECONDS * answered / (os.cpu_count() or 1)


def judging_seconds(terms: ProCflTerms, training: float) -> float:
    """How long a round may take in which committees judge, where one of training takes ``training`` seconds.

    A judge trains for each cluster that it judges, and tests each member's model.
    """
    return 2 * training if terms.seats else training


def task_seconds(config: FederationConfig, parts: Sequence[TaskData], model: Tensors) -> float:
    """Measure, on the first client's data, how long a round's training of a task takes here, all clients together."""
    position: RoundPosition = {"number": 1, "rounds": config.federation.rounds, "seed": config.federation.seed}
    spent = 0.0
    for _ in range(2):  # the first time loads libraries, too
        started = time.perf_counter()
        parts[0].train(model, position, 1, {})
        spent = time.perf_counter() - started
    return spent * max(1.0, len(parts) / (os.cpu_count() or 1))


def training_seconds(config: FederationConfig, parts: list[Samples], shared: Samples) -> float:
    """Estimate, from a short trial, how long a round's training takes on this machine, all clients together."""
    # They need torch, which a testnet that clusters does without.
    from fedgrove.node.learning.models import initial_tensors
    from fedgrove.node.learning.networks import train
    from fedgrove.node.learning.strategies import make_strategy

    largest = max(parts, key=len)
    trial = largest.take(range(min(len(largest), _PROBE_SAMPLES)))
    spec, federation = config.trained, config.federation
    weights = initial_tensors(spec.name, spec.input_shape, spec.classes, federation.seed)
    strategy = make_strategy(config.strategy.name, config.strategy.options)
    model = {**weights, **strategy.initial_extras(weights)}
    position: RoundPosition = {"number": 1, "rounds": federation.rounds, "seed": federation.seed}
    settings = replace(config.training, portable=False)  # only processes that are started for it train portably
    for _ in range(2):  # the first time loads libraries, too
        started = time.perf_counter()
        train(spec, model, trial, shared, strategy, settings, client=1, **position)
        spent = time.perf_counter() - started
    total = sum(map(len, parts)) / (os.cpu_count() or 1)
    return spent / len(trial) * max(total, len(largest))
