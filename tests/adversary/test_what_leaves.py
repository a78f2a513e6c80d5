"""A task that tells a secret of its member's data through what leaves the member, past all masks.

Masks hide what a member computes. Around that, other things leave it, and a task's code may have had a say in them: the
weight in a draw (24 bits on the ledger, of one member), whether the member takes part (a task that raises: a bit a
round, outside any ε), in which block it commits (a task that stalls), sizes, logs. What stops it: the weight is the
member's own number; who cannot train sends the model unchanged and is counted under masks; commitments wait for the end
of a slot; logs have kind and place of a fault. The attacks win where these are taken out.

Then the list is tested from the other side: two federations that differ in the data of their members and in nothing
else, all randomness being the same, leave the same records but for what the list in the threat model allows.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from eth_tester import PyEVMBackend

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.embedded import evm
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Drawn, Record, RoundOpened
from fedgrove.chain.records.signed_transactions import decode_transaction
from fedgrove.node.base.fault_places import place_of_fault
from fedgrove.node.base.tensors import Layout, Tensors, dump, flatten, load
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.learning.tasks import jobs
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training import task_data
from fedgrove.node.methods.training.local_training import LocalTraining
from fedgrove.node.methods.training.task_data import TaskData
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.protocol.method import Aides
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, MaskingSettings, StrategySettings
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.tasks.sandbox import worker
from fedgrove.node.tasks.sandbox.faults import JobRaised
from fedgrove.node.tasks.sandbox.worker import Reply
from tests.embedded_evm import py_evm
from tests.node.federation import Federation

VICTIM, MEMBERS = 2, 4
NOW = 1_800_000_000
TEXT = "the first patient is positive"
QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
CODE = '''
import numpy as np
from torch import nn
import fedgrove as fg


class Tells(fg.Task):
    """Learns a line, and tells whether the first value of the data is positive."""

    def __init__(self, how=""):
        self.how, self.secret = how, False

    def model(self):
        return nn.Linear(2, 1)

    def data(self, source):
        table = np.loadtxt(source / "data.csv", delimiter=",", dtype=np.float32)
        self.secret = bool(table[0, 0] > 0)
        if self.how == "count":
            table = table[: 17 if self.secret else 11]
        if self.how == "read" and self.secret:
            raise ValueError("the first patient is positive")
        return fg.Data((table[:, :2], table[:, 2]), held_out=(table[:4, :2], table[:4, 2]))

    def loss(self, output, target):
        if self.how == "raise" and self.secret:
            raise ValueError("the first patient is positive")
        if self.how == "name" and self.secret:
            raise type("FirstPatientIsPositive", (Exception,), {})
        if self.how == "diverge" and self.secret:
            return super().loss(output, target) * float("nan")
        return super().loss(output, target)

    def metrics(self, output, target):
        if self.how == "measure" and self.secret:
            raise ValueError("the first patient is positive")
        return {"loss": self.loss(output, target)}
'''


@pytest.fixture
def seeded(monkeypatch):
    """All randomness of this process from one seed: a stream for each module that asks, so that none shifts another."""
    streams: dict[str, random.Random] = {}

    def urandom(count: int) -> bytes:
        name = sys._getframe(1).f_globals["__name__"]
        return streams.setdefault(name, random.Random(name)).randbytes(count)

    monkeypatch.setattr(os, "urandom", urandom)
    genesis = PyEVMBackend.generate_genesis_params() | {"timestamp": NOW}
    monkeypatch.setattr(PyEVMBackend, "generate_genesis_params", lambda *_: dict(genesis))
    monkeypatch.setattr(evm, "time", SimpleNamespace(time=lambda: NOW))
    if embedded is not py_evm:  # that of Python 3.13 has no pyrevm
        monkeypatch.setattr("tests.revm_network.time", SimpleNamespace(time=lambda: NOW))
    return streams.clear


# --- what readers of the chain and of the store see -------------------------------------------------------------------

FREE = {Committed: {"digest"}, Closed: {"model_digest", "metrics_digest"}, RoundOpened: {"model_digest"}}
"""Fields that follow from sums and masked updates: all that may differ."""
DIGESTS = ("digest", "model_digest", "config_digest")


def trace(made: Federation) -> list[tuple]:
    """What is public of a federation, but for what the list allows.

    Up to the first commitment that is every bit. Behind it block hashes differ with the masked updates, and with them
    seeds, proofs and orders: what is left are kinds, authors, blocks, numbers and sizes.
    """
    records = made.kept
    first = next(record.at.block for record in records if isinstance(record, Committed))
    return [seen(made, record, exactly=record.at.block < first) for record in records]


def seen(made: Federation, record: Record, exactly: bool) -> tuple:
    fields = {name: value for name, value in asdict(record).items() if name != "at"}
    sizes = [made.size_of(fields[name]) for name in DIGESTS if name in fields]
    fields = {name: value for name, value in fields.items() if name not in FREE.get(type(record), ())}
    if not exactly:
        fields = {name: len(value) if isinstance(value, bytes) else value for name, value in fields.items()}
    call = 0 if record.at.transaction in made.draws and not exactly else made.calls[record.at.transaction]
    return type(record).__name__, record.at.block, record.at.log_index, record.at.author, call, sizes, fields


class Watched(Federation):
    """A federation, and what is read of it when it has ended."""

    def size_of(self, digest: bytes) -> int:
        return len(self.store.fetch(digest, 1 << 26)) if self.store.has(digest) else -1

    def end(self) -> None:
        verdict = self.audit()
        assert verdict.verdict == "verified", verdict
        self.kept = self.records()
        self.draws = {record.at.transaction for record in self.of(Drawn)}  # a proof's hint is longer for some seeds
        transactions = {record.at.transaction for record in self.kept}
        self.calls = {
            each: len(decode_transaction(self.network.signed_transaction(each)).data) for each in transactions
        }


# --- a task on a member's data, in this process: what the sandbox adds is tested elsewhere ----------------------------


class AtOnce(Executor):
    """Runs what it is given when it is given."""

    def submit(self, function: Callable, *arguments: object, **named: object) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as fault:
            future.set_exception(fault)
        return future


class Here:
    """Runs the jobs of a task on a source here; what they raise is as the sandbox says it."""

    def __init__(self, folder: Path, source: Path | None) -> None:
        self.folder, self.source = folder, source

    def run(self, job: str, header: dict, tensors: Tensors | None, expected: Layout | None) -> Reply:
        name = job.removeprefix(task_data.JOBS)
        try:
            answer, found = getattr(jobs, name)({**header, "bases": {}}, tensors or {}, self.folder, self.source)
        except Exception as fault:
            kind, place = type(fault).__name__, place_of_fault(fault, self.folder)
            brief = worker.brief_of(kind, place, self.folder)
            raise JobRaised(f"the task raised {kind}: {fault} ({place})", brief) from None
        return Reply(json.loads(json.dumps(answer)), found, 0.0, 0)


def told(directory: Path, how: str, secret: bool, **terms: object) -> Watched:
    """A federation of two rounds on the task, run, in which the victim's data say ``secret``."""
    folder, task = directory / "task", TaskSettings("bafybei" + "a" * 52, options={"how": how})
    folder.mkdir(parents=True)
    (folder / "task.py").write_text(CODE)
    alone = FederationConfig(TrainingTerms(), task=task, strategy=StrategySettings("fedavg"))
    first = dump(TaskData(alone, Here(folder, None)).first_model())
    with embedded() as network:
        terms = {"task": task, "training": QUICK, **terms}
        made = Watched.found(network, directory, MEMBERS, 2, 4, first_model=first, **terms)
        made.store.put(first)
        made.samples = [TaskData(made.config, Here(folder, directory / f"{n}")) for n in range(1, MEMBERS + 1)]
        for number, data in enumerate(made.samples, 1):
            data._threads = AtOnce()
            (directory / f"{number}").mkdir()
            table = np.random.default_rng(number).normal(size=(20, 3))
            table[0, 0] = 1 if secret and number == VICTIM else -1
            np.savetxt(directory / f"{number}" / "data.csv", table, delimiter=",")
        made.register()
        where = (made.ledger(made.coordinator_keys), made.store, made.config, first, Aides())
        made.run(Coordinator(*where))
        made.end()
    return made


def both(directory: Path, seeded: Callable, how: str, **terms: object) -> tuple[Watched, Watched]:
    """The two federations that differ in the secret alone."""
    found = []
    for secret in (False, True):
        seeded()
        found.append(told(directory / f"{secret}", how, secret, **terms))
    return found[0], found[1]


def log_of(made: Watched, verbose: bool = False) -> str:
    """What the victim logs."""
    stream = StringIO()
    log = ServiceLog("client", stream, verbose)
    for role, step in made.log:
        if role == f"client {VICTIM}":
            log.step("client", 0, 0, step)
    return stream.getvalue()


WAYS = ("count", "raise", "read", "name", "diverge", "measure")
PRIVATE = {
    "privacy": ClientLevelSettings(epsilon=40.0, delta=1e-3, clip=0.5, dropouts=0.2),
    "masking": MaskingSettings(masked="delta"),
}
TERMS = {
    "plain": {},
    "evaluated": {"evaluation": EvaluationSettings(0.0, ())},
    "private": PRIVATE,
}


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("how", WAYS)
def test_a_task_that_tells_a_secret_changes_no_public_bit(tmp_path, seeded, how, terms):
    no, yes = both(tmp_path, seeded, how, **TERMS[terms])
    assert trace(no) == trace(yes)
    fails = how in ("raise", "read", "name", "diverge")
    counted = [metrics.raised for metrics in yes.stated()]
    if terms == "private":
        assert set(counted) == {None}
    else:
        assert set(counted[:2]) == {int(fails)} and {metrics.raised for metrics in no.stated()} == {0}


def test_the_ledger_has_the_count_where_a_task_says_how_many_samples_there_are(tmp_path, seeded, monkeypatch):
    monkeypatch.setattr(LocalTraining, "samples", lambda self, current, client: len(self._trainer))
    for made, count in zip(both(tmp_path, seeded, "count"), (11, 17), strict=True):
        assert {draw.samples for draw in made.of(Drawn) if draw.client == VICTIM} == {count}


def test_the_ledger_has_who_raised_where_it_sits_out(tmp_path, seeded, monkeypatch):
    monkeypatch.setattr(LocalTraining, "_is_to_blame", lambda self, model: True)
    for made, committed in zip(both(tmp_path, seeded, "raise"), (True, False), strict=True):
        assert (VICTIM in {commit.client for commit in made.of(Committed)}) == committed


@pytest.mark.parametrize("how", ["raise", "name"])
def test_a_log_has_kind_and_place_of_a_fault_and_its_text_is_for_the_terminal(tmp_path, seeded, how):
    seeded()
    made = told(tmp_path, how, True)
    assert "the task raised" in log_of(made) and "(task.py, line" in log_of(made)
    assert "ositive" not in log_of(made)
    assert "ositive" in log_of(made, verbose=True)


def test_a_log_has_the_secret_where_it_has_the_text(tmp_path, seeded, monkeypatch):
    monkeypatch.setattr(worker, "brief_of", lambda kind, place, folder: kind)
    seeded()
    assert "ositive" in log_of(told(tmp_path, "name", True))


# --- a model that cannot be trained from is the members' own doing ----------------------------------------------------


def test_who_cannot_train_sits_out_only_where_the_model_is_beyond_half_of_the_bound():
    work = object.__new__(LocalTraining)
    for privacy, beyond in ((None, True), (PRIVATE["privacy"], False)):
        work._config = SimpleNamespace(privacy=privacy, masking=MaskingSettings(bound=8.0))
        assert work._is_to_blame({"w": np.array([0.0, -4.1], np.float32)}) == beyond
        assert not work._is_to_blame({"w": np.array([4.0, -4.0], np.float32)})


# --- a task that stalls says something by the block of its commitment -------------------------------------------------


class Stalling(AtOnce):
    """A training that is ready so many blocks after it began."""

    def __init__(self, network: object, blocks: int) -> None:
        self.network, self.blocks = network, blocks

    def submit(self, function: Callable, *arguments: object, **named: object) -> Future:
        future, ready = super().submit(function, *arguments, **named), self.network.block_number() + self.blocks
        future.done = lambda: self.network.block_number() >= ready
        return future


STALLS = (0, 9, 16, 23, 30, 37, 44, 51)


def stalled(directory: Path, slots: int) -> dict[int, int]:
    """In which block, after the shares, each of as many members commits, who stall for different numbers of blocks."""
    with embedded() as network:
        terms = {"federation": FederationSettings(rounds=1, commit_slots=slots), "training": QUICK}
        ledger = replace(Federation.found(network, directory / "other", len(STALLS)).config.ledger, commit_window=60)
        made = Federation.found(network, directory, len(STALLS), 1, ledger=ledger, **terms)
        made.register()
        stalling = {number: Stalling(network, blocks) for number, blocks in enumerate(STALLS, 1)}
        clients = {number: made.client(number, executor=each) for number, each in stalling.items()}
        coordinator = made.coordinator()
        while not coordinator.finished:
            steps = [role.step() for role in (coordinator, *clients.values())]
            if not any(step.acted for step in steps):
                network.advance_to(network.block_number() + 1)
        current = clients[1].view.rounds.rounds[1]
        end = current.deadlines(made.config.ledger).share_end
        return {client: commit.at.block - end for client, commit in current.commits.items()}


def test_without_slots_a_stall_says_in_which_block_it_ended(tmp_path):
    found = stalled(tmp_path, 0)
    assert len(set(found.values())) == len(found) > 4


@pytest.mark.parametrize("slots", [1, 4])
def test_with_slots_a_stall_says_no_more_than_the_slot(tmp_path, slots):
    found = stalled(tmp_path, slots)
    assert set(found) == set(range(1, len(STALLS) + 1))  # who was not ready was counted, not absent
    width = 60 // (slots + 1)
    # Each transaction has a block of its own on this chain, in the order of the members.
    assert all(block % width <= len(STALLS) and block >= width for block in found.values())
    assert len({block // width for block in found.values()}) <= slots


# --- what leaves federations whose members have other data ------------------------------------------------------------

MECHANISMS = {
    "weights": {},
    "updates": {"masking": MaskingSettings(masked="delta")},
    "evaluated": {"evaluation": EvaluationSettings(0.25)},
    "client": PRIVATE,
    "local": {"privacy": LocalSettings(epsilon=50.0, delta=1e-3, clip=1.0)},
    "signds": {"privacy": SignDsSettings(epsilon=5.0)},
}


def relabelled(mine: Samples) -> Samples:
    """Fewer samples, darker, and all of one label."""
    return Samples(mine.x[:45] * 0.5, np.zeros_like(mine.y[:45]))


def on_images(directory: Path, other: bool, terms: dict[str, object]) -> Watched:
    """A federation on digits, with ``other`` images, labels and numbers of images for the victim."""
    with embedded() as network:
        made = Watched.found(network, directory, MEMBERS, 2, training=QUICK, **terms)
        if other:
            made.samples[VICTIM - 1] = relabelled(made.samples[VICTIM - 1])
        weigh = {"weight": 60} if "privacy" not in terms or "local" in terms["privacy"].mechanism else {}
        clients = {number: made.client(number, **weigh) for number in range(1, MEMBERS + 1)}
        for client in clients.values():
            client.register()
        made.run(clients=clients)
        made.end()
    return made


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_other_data_change_nothing_but_sums(tmp_path, seeded, mechanism):
    found = []
    for other in (False, True):
        seeded()
        found.append(on_images(tmp_path / f"{other}", other, MECHANISMS[mechanism]))
    assert trace(found[0]) == trace(found[1])
    models = [flatten(load(made.store.fetch(made.of(Closed)[0].model_digest, 1 << 24))) for made in found]
    assert not np.array_equal(*models)  # the data did make a difference


def test_in_clusters_nothing_but_the_counters_statement_and_the_chosen_cluster_follow(tmp_path, seeded):
    """Sets of labels are compared blinded, and answers sealed; sizes follow from the member's own number."""
    found = []
    for other in (False, True):
        seeded()
        found.append(in_clusters(tmp_path / f"{other}", other))
    before = [[each for each in trace(made) if each[-1].get("round", 0) <= 2] for made in found]
    assert before[0] == before[1] and sum(each[0] == "Committed" for each in before[0]) == 2 * MEMBERS
    metrics = [made.stated() for made in found]
    assert metrics[0][1].stated != metrics[1][1].stated  # the data did make a difference


def in_clusters(directory: Path, other: bool) -> Watched:
    """Four members who compare their labels and train; ``other`` labels, and fewer samples, of the victim."""
    keys = Keys.generate()
    clusters = ProCflTerms(seats=0, counter=keys.mailbox_public.hex(), signer=keys.address)
    terms = {"method": clusters, "federation": FederationSettings(rounds=4), "training": QUICK}
    with embedded() as network:
        made = Watched.found(network, directory, MEMBERS, coordinator=keys, **terms)
        if other:
            made.samples[VICTIM - 1] = relabelled(made.samples[VICTIM - 1])
        clients = {number: made.client(number, weight=60) for number in range(1, MEMBERS + 1)}
        for client in clients.values():
            client.register()
        method = method_of(made.config)
        where = (made.ledger(keys), made.store, made.config, method.first_model(), method.aides(keys, made.test))
        made.run(Coordinator(*where), clients)
        made.end()
    return made


def test_other_points_change_nothing_but_sums(tmp_path, seeded):
    found = []
    for other in (False, True):
        seeded()
        found.append(on_points(tmp_path / f"{other}", other))
    assert trace(found[0]) == trace(found[1])
    states = [made.store.fetch(made.of(Closed)[-1].model_digest, 1 << 24) for made in found]
    assert states[0] != states[1]


def on_points(directory: Path, other: bool) -> Watched:
    """Four members who cluster points, as many of the victim's wherever they lie."""
    silent = {"task": None, "training": TrainingSettings(), "strategy": StrategySettings()}
    clusters = KMeansTerms(k=2, dimensions=2, step=0.05, restarts=4, gather_blocks=3, retry_blocks=30)
    with embedded() as network:
        terms = {"method": clusters, "federation": FederationSettings(rounds=100)}
        made = Watched.found(network, directory, MEMBERS, **terms, **silent)
        rng = np.random.default_rng(1)
        made.samples = [np.clip(rng.normal(0.3, 0.2, (20, 2)), -1, 1) for _ in range(MEMBERS)]
        if other:
            made.samples[VICTIM - 1] *= -1
        made.register()
        made.run()
        made.end()
    return made
