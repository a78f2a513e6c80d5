"""Kept runs of every kind for a forger to edit: an embedded chain, few members, little data."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import LEDGER, REPORT, STORE, seal_archive
from fedgrove.node.audit.verdict import NONE_CLOSED, Verdict
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.status.report import build_report
from tests.adversary import eventful
from tests.adversary.forging import Tape
from tests.node.conftest import run_federation
from tests.node.devnet.kmeans_members import TERMS
from tests.node.devnet.kmeans_members import Federation as KMeans
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
DELTA = MaskingSettings(masked="delta")
TRAINING = {
    "weights": {},
    "delta": {"masking": DELTA},
    "fixed": {"masking": DELTA, "privacy": ClientLevelSettings(epsilon=20.0, delta=1e-3, clip=0.5)},
    "quantile": {
        "masking": DELTA,
        "privacy": ClientLevelSettings(epsilon=20.0, delta=1e-3, clip=0.5, clipping="quantile"),
    },
    "secret": {
        "masking": DELTA,
        "privacy": ClientLevelSettings(epsilon=20.0, delta=1e-3, clip=0.5, participation="secret"),
    },
    "local": {"privacy": LocalSettings(epsilon=20.0, delta=1e-3, clip=0.5, budget=60.0)},
    "signds": {
        "privacy": SignDsSettings(epsilon=8.0, top=0.05, dimensions=20, step=0.5, step_decay=0.9, budget=30.0),
    },
}
KINDS = (*TRAINING, "eventful", "clusters", "kmeans")


@dataclass(frozen=True)
class Kept:
    """A run at rest, and the accounts of those who took part where a forger is one of them."""

    directory: Path
    members: tuple[Account, ...] = ()
    coordinator: Account | None = None

    @property
    def store(self) -> DiskStore:
        return DiskStore(self.directory / STORE)

    @cached_property
    def history(self) -> LedgerHistory:
        return LedgerHistory.load(self.directory / LEDGER)

    @property
    def tape(self) -> Tape:
        """A private copy of the history, to edit."""
        return self._tape.copy()

    @cached_property
    def _tape(self) -> Tape:
        return Tape.of(self.history)


def kept(
    kind: str,
    directory: Path,
    clients: int = 4,
    rounds: int = 2,
    hold: Callable[[Federation | KMeans], object] = lambda made: made.run(),
    repeats: int = 0,
) -> Kept:
    """Hold a federation of a kind, its rounds by ``hold``, and keep it as ``fedgrove demo --out`` does."""
    target = directory / "kept"
    if kind == "clusters":
        plan = scenario(clients=6, rounds=1, strategy="fedavg", method="procfl, public_samples = 100")
        return Kept(run_federation(target, plan).directory)
    with embedded() as network:
        if kind == "eventful":
            made = Federation.found(network, directory / "work", clients, rounds, training=QUICK, **eventful.TERMS)
            eventful.approve(made)
            hold = eventful.hold
            founder = made.coordinator_keys
        elif kind == "kmeans":
            made = KMeans.found(network, directory / "work", TERMS, clients)
            founder = made.founder
        else:
            made = Federation.found(
                network, directory / "work", clients, rounds, repeats, training=QUICK, **TRAINING[kind]
            )
            founder = made.coordinator_keys
        made.register()
        hold(made)
        shutil.copytree(made.store.path, target / STORE)
        write_run(made.history(), DiskStore(target / STORE), target)
    return Kept(target, tuple(keys.account for keys in made.keys), founder.account)


def write_run(history: LedgerHistory, store: DiskStore, directory: Path) -> None:
    """Complete a run's directory, whose store is there, as ``fedgrove demo --out`` leaves it."""
    history.save(directory / LEDGER)
    report = build_report(history, store, {})
    closed = any(each["status"] == "closed" for each in report["rounds"])
    report["audit"] = Verdict("verified" if closed else NONE_CLOSED, practice=True).entry()
    (directory / REPORT).write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    seal_archive(directory)


def forged_run(
    kept: Kept,
    target: Path,
    history: LedgerHistory,
    blobs: Sequence[bytes] = (),
    edit: Callable[[dict], None] = lambda report: None,
) -> Path:
    """A copy of a kept run with another history and more blobs, and a report and manifest that fit."""
    shutil.copytree(kept.directory / STORE, target / STORE, copy_function=os.link)
    store = DiskStore(target / STORE)
    for blob in blobs:
        store.put(blob)
    try:
        write_run(history, store, target)
    except Exception:
        # What cannot even be reported on is delivered with the old report.
        history.save(target / LEDGER)
        shutil.copyfile(kept.directory / REPORT, target / REPORT)
    report = json.loads((target / REPORT).read_bytes())
    edit(report)
    (target / REPORT).write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    seal_archive(target)
    return target
