"""One process of one role, a *life*: ``node.roles.service.Service`` with a real role, as the commands run it.

Lives are forked from a server that has imported everything, so that a hundred of them are cheap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from fedgrove.chain.crypto.keys import load
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.heads import Heads
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.roles.service import Service
from fedgrove.node.roles.standby import Standby
from tests.node.roles.faults.killing import Injector, install

PATIENCE_SECONDS = 120.0
PASSWORD = "of a test"


@dataclass(frozen=True)
class Life:
    """All that a process is told; the rest it finds on the chain, in the store and in its own folder."""

    name: str
    kind: type[Client] | type[Coordinator]
    root: Path
    url: str
    deployment: Deployment
    config: FederationConfig
    samples: Samples
    store: str
    members: int
    standby: bool
    kills: Mapping[str, int]


class TellingStore:
    """Keeps a copy of whatever a role hands out, before anybody can have it; otherwise the store that it is given.

    Copies are named by round and digest, so that they also tell when bytes that must never change did. ``view`` is the
    role's, set once there is one.
    """

    view: LedgerView

    def __init__(self, store: ContentStore, told: Path) -> None:
        self._store = store
        self._told = told
        told.mkdir(parents=True, exist_ok=True)

    def put(self, data: bytes) -> CID:
        number, digest = max(self.view.rounds.rounds, default=0), cid_of(data).digest
        (self._told / f"{number:08d}-{digest.hex()}").write_bytes(data)
        return self._store.put(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


class Watched:
    """A role that says after each step whether it had something to do, at which block; otherwise that role."""

    def __init__(self, role: Client | Coordinator | Standby, word: Path) -> None:
        self._role = role
        self._word = word
        self._steps = 0

    def step(self) -> Step:
        step = self._role.step()
        self._steps = 0 if step.acted or step.kind is Kind.WORKS else self._steps + 1
        self._word.write_text(f"{self._steps} {self._role.view.block} {step.until}\n")
        return step

    def __getattr__(self, name: str) -> object:
        return getattr(self._role, name)


class Idle(NamedTuple):
    """How often a role has looked and found nothing to do, at which block, and until when."""

    steps: int
    block: int
    until: int


def live(life: Life) -> None:
    """The process: goes on where the life before was killed, until all rounds are over or a step kills it."""
    torch.set_num_threads(1)
    initial = method_of(life.config).first_model()
    install(Injector(steps_of(life.root, life.name), life.kills, initial))
    keys = load(keystore_of(life.root, life.name), PASSWORD)
    with connect(life.url) as network, Heads(life.url) as heads, log_of(life.root, life.name).open("a") as log:
        ledger = Ledger(network, life.deployment, keys.account)
        store = TellingStore(open_store(life.store), described(life.root, life.name))
        if life.kind is Client:
            role = Client(ledger, store, keys, life.config, life.samples, journal_of(life.root, life.name))
        else:
            aides = method_of(life.config).aides(None, life.samples)
            role = life.kind(ledger, store, life.config, initial, aides, members=life.members)
        store.view = role.view
        name = life.name.split("-")[0]
        roles = {name: role}
        if life.standby:
            roles["standby"] = Standby(ledger, store, life.config, initial)
        watched = {key: Watched(role, word_of(life.root, life.name, key)) for key, role in roles.items()}
        Service(watched, heads, ServiceLog(name, log), ServiceMetrics(), PATIENCE_SECONDS).run()


def open_store(place: str) -> ContentStore:
    """A Kubo node by its URL, or a folder."""
    return KuboStore(place) if place.startswith("http") else DiskStore(place)


def steps_of(root: Path, name: str) -> Path:
    return root / f"{name}.steps"


def keystore_of(root: Path, name: str) -> Path:
    return root / f"{name}.json"


def log_of(root: Path, name: str) -> Path:
    return root / f"{name}.log"


def word_of(root: Path, name: str, role: str) -> Path:
    return root / f"{name}.{role}.idle"


def journal_of(root: Path, name: str) -> Path:
    return root / name / "journal"


def described(root: Path, name: str) -> Path:
    return root / name / "told"
