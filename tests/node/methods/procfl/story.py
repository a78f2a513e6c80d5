"""A federation whose members find out who is like whom, train in clusters, and judge one of them: a real EVM and store.

Two members of the five in one group reverse their updates, eight times as long, while all train one model. Later, when
each cluster trains alone, two of the other group do. It is they who are drawn to show what they sent: lots are known
here, so that the story is always the same. One of each two tells a secret that is not its own. One member joins when
all others have compared, and one is restarted after everything that it does.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed, Committed
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.tensors import Tensors, flatten, unflatten
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.methods.procfl.committee import drawn_members
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationSettings, MaskingSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.poisoning import SignFlip
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.simulation.executors import InlineExecutor
from tests.node.federation import Federation

CLIENTS, SEED = 10, 3
QUICK = TrainingSettings(epochs=5, batch_size=10, learning_rate=0.1, momentum=0.5)
ATTACKERS = {1: 2, 3: 2, 2: 4, 4: 4}
"""Round of training from which on a client attacks."""
LIARS = (3, 4)
"""They do not open what they sent."""
SETTINGS = {"alpha": 0.5, "global_share": 0.3, "seats": 3, "public_samples": 200, "pause": 2, "least_pool": 0.3}
DRAWN = {6: (0, (1, 3)), 10: (1, (2, 4))}
"""Cluster, and which of its five members are judged, by the round in which they show what they sent."""
ROUNDS = 3 + 8
LATE, RESTARTED = 11, 6
CHECKERS = (5, RESTARTED)
"""They recompute closed rounds, to spare the others' time."""


@dataclass
class Story:
    """The federation when it has ended, a simulation of its first round of training, and what was sent by whom."""

    federation: Federation
    simulation: ClusteredSimulation
    sent: dict[tuple[int, int], Tensors]

    @cached_property
    def history(self) -> LedgerHistory:
        return self.federation.history()

    def records(self, kind: type) -> list:
        return [record for record in self.history.records() if isinstance(record, kind)]

    def committed(self, number: int) -> list[Committed]:
        return [record for record in self.records(Committed) if record.round == number]

    def closed(self) -> list[Closed]:
        return self.records(Closed)

    def audit(self, old: object = None, new: object = None) -> Verdict:
        """The verdict if the ledger had another record in place of one."""
        records = [new if record == old else record for record in self.history.records()]
        return Auditor(chain_facts(self.history), records, self.federation.store).run()

    @cached_property
    def member(self) -> Client:
        """A client that looks back, at every round."""
        client = self.federation.client(8, check_rounds=1.0)
        client.view.refresh()
        return client

    def place(self, number: int) -> RoundInputs:
        return self.member.context.inputs(self.member.view.rounds.rounds[number])

    def fault(self, number: int, **changes) -> str:
        """What a member finds wrong with a round if it had been closed otherwise; it would dispute it."""
        current = self.member.view.rounds.rounds[number]
        right = current.end
        current.end = replace(right, **changes)
        try:
            return self.member.context.closings.fault(current)
        finally:
            current.end = right

    def states(self) -> list[ClusterState]:
        fetch = self.federation.store.fetch
        return [ClusterState.from_bytes(fetch(end.model_digest, 1 << 26)) for end in self.closed()]

    def stated(self) -> list[Metrics]:
        fetch = self.federation.store.fetch
        return [Metrics.from_bytes(fetch(end.metrics_digest, 1 << 20)) for end in self.closed()]


def watched(client: Client, sent: dict[tuple[int, int], Tensors], first_attack: float = math.inf) -> Client:
    """A member that notes what it sends; an attacker reverses what it trained."""
    training = client.context.work._training
    train = training.result

    def result(current, number, last):
        found = train(current, number, last)
        state, own = client.context.inputs(current).previous, found.tensors
        if state.trained + 1 >= first_attack:
            start, _ = training._begin(current, number)
            wrong = SignFlip(8.0).model(flatten(own), flatten(start), np.random.default_rng(0))
            own = unflatten(np.clip(wrong, -8, 8), state.layout)
        sent[(current.number, number)] = own
        return replace(found, tensors=own)

    training.result = result
    return client


def lots_of(rounds: Rounds, number: int) -> bytes:
    """Lots by which those are drawn who are to be."""
    cluster, wanted = DRAWN[number]
    suspects = range(2 - wanted[0] % 2, CLIENTS + 1, 2)
    tries = (bytes(30) + k.to_bytes(2) for k in range(1 << 16))
    return next(lots for lots in tries if _drawn(suspects, lots + cluster.to_bytes(4)) == list(wanted))


def _drawn(suspects: range, lots: bytes) -> list[int]:
    return drawn_members(suspects, len(suspects) // 2, lots, {})


def coordinator(made: Federation) -> Coordinator:
    keys, config = made.coordinator_keys, made.config
    tasks = method_of(config).aides(keys, made.test)
    return Coordinator(made.ledger(keys), made.store, config, method_of(config).first_model(), tasks, members=CLIENTS)


def tell(directory: Path) -> Iterator[Story]:
    """Let all of it happen; chain and roles stay until the generator goes on."""
    with patch("fedgrove.node.methods.procfl.round_inputs.lots_of", lots_of):
        yield from _tell(directory)


def _tell(directory: Path) -> Iterator[Story]:
    plan = MANY.changed(
        cast={"clients": CLIENTS, "train_samples": 500, "test_samples": 500},
        federation={"sampling_rate": 1.0, "rounds": ROUNDS - 3, "seed": SEED},
        training=QUICK,
        partition=PartitionSettings("groups", groups=2, others=0.2),
        method=SimulatedProCfl(**{**SETTINGS, "seats": 0}),
    )
    simulation = ClusteredSimulation(plan, load_dataset("digits"), InlineExecutor(), 1, directory / "simulated")
    results = simulation.run()
    next(results)
    results.close()
    with embedded() as network:
        settings = FederationSettings(rounds=ROUNDS, seed=SEED)
        keys = Keys.generate()
        named = {"counter": keys.mailbox_public.hex(), "signer": keys.address}
        terms = ProCflTerms(**SETTINGS, **named, shown="upload")
        changes = {
            "federation": settings,
            "training": QUICK,
            "method": terms,
            # As a simulation has it, three clients may be summed.
            "masking": MaskingSettings(colluders=0.0),
        }
        made = Federation.found(network, directory, CLIENTS + 1, coordinator=keys, **changes)
        data = simulation.data
        made.samples = [data.training.take(part) for part in (*data.parts, data.parts[0])]
        made.test = data.test
        clients = {
            number: made.client(number, check_rounds=float(number in CHECKERS)) for number in range(1, CLIENTS + 1)
        }
        sent: dict[tuple[int, int], Tensors] = {}
        for number, client in clients.items():
            client.register()
            watched(client, sent, ATTACKERS.get(number, math.inf))
        for number in LIARS:
            clients[number].context.work._shown.plain = lambda round_number: os.urandom(32)
        role = coordinator(made)
        said = 0
        while made.turn(role, clients):
            if len(made.said(f"client {RESTARTED}")) > said:
                said = len(made.said(f"client {RESTARTED}"))
                clients[RESTARTED] = watched(made.client(RESTARTED), sent)
            if role.round == 3 and LATE not in clients:
                clients[LATE] = made.client(LATE, check_rounds=0.0)
        yield Story(made, simulation, sent)
