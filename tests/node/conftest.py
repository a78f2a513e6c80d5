"""One real federation, run once for all tests that look at what it left behind."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.records import Record
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import LEDGER, STORE, chain_facts, write_archive
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.subject import Subject
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.status.report import build_report


@dataclass(frozen=True)
class Run:
    """A finished run: its directory, history, records and store."""

    directory: Path
    history: LedgerHistory
    records: list[Record]
    store: DiskStore
    facts: ChainFacts
    report: dict


def run_federation(directory: Path, plan: Scenario, subject: Subject | None = None, **options) -> Run:
    """Run a federation, on digits by default, on an embedded chain and keep it as ``fedgrove demo --out`` does."""
    store = DiskStore(directory / STORE)
    with embedded() as network:
        demo = Demo(plan, subject or DatasetSubject(load_dataset("digits")), network, store, **options)
        demo.run()
        history = capture(network, demo.deployment)
    history.verify()
    report = build_report(history, store, demo.seconds)
    report["audit"] = Auditor(chain_facts(history), history.records(), store).run().entry()
    write_archive(directory, history, report)
    saved = LedgerHistory.load(directory / LEDGER)
    return Run(directory, saved, saved.records(), store, chain_facts(saved), report)


def run_task(directory: Path, plan: Scenario) -> Run:
    """Run a federation that learns the plan's task, and audit it."""
    with ExitStack() as stack:
        made = run_federation(directory, plan, TaskSubject(plan, stack))
    assert Auditor(made.facts, made.records, made.store).run().verdict == "verified"
    return made


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Run:
    """Six clients, two rounds, two of them silent in each round; FedAvg, to be quick."""
    plan = scenario(clients=6, rounds=2, strategy="fedavg", drop=0.2, seed=3)
    return run_federation(tmp_path_factory.mktemp("run") / "kept", plan)


@pytest.fixture(scope="session")
def story(tmp_path_factory) -> Iterator:
    """A federation with clusters (``tests.node.methods.procfl.story``), for the group ``clusters``."""
    from tests.node.methods.procfl.story import tell

    yield from tell(tmp_path_factory.mktemp("clusters"))
