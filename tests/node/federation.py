"""A small federation whose roles a test can stop, replace and lie with."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.records import Closed, Phase, Record
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.partition import iid
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.founding import found as deploy_federation
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step
from fedgrove.node.protocol.terms import FederationConfig, StartSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.role import Duty
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.standby import Standby
from fedgrove.node.scenario.reading import scenario

Kind = TypeVar("Kind", bound=Record)


LONG = 1 << 16
"""Blocks that a federation is not taken through, as they take memory and minutes."""


@dataclass
class Federation:
    """Everything that outlives its roles: chain, store, keys, data, directories. Roles are made anew at will."""

    network: Network
    directory: Path
    config: FederationConfig
    deployment: Deployment
    store: DiskStore
    coordinator_keys: Keys
    keys: list[Keys]
    samples: list[Samples]
    test: Samples
    log: list[tuple[str, Step]] = field(default_factory=list)
    _captured: LedgerHistory | None = None

    @classmethod
    def found(
        cls,
        network: Network,
        directory: Path,
        clients: int = 4,
        rounds: int = 1,
        repeats: int = 0,
        first_model: bytes | None = None,
        coordinator: Keys | None = None,
        **changes,
    ) -> "Federation":
        """Deploy a federation on digits, fund and make its members; ``changes`` replace parts of the terms.

        ``first_model`` is what the founder says that training starts from, if not what follows from the terms;
        ``coordinator`` whose keys the terms name already.
        """
        dataset = _digits()
        config = terms_on(scenario(clients=clients, rounds=rounds, strategy="fedavg"), dataset, b"")
        # Long enough for all to release, a block each, before a stand-by may act.
        grace = min(8, config.ledger.recover_window // 4)
        config = replace(config, ledger=replace(config.ledger, coordinator_grace=grace))
        values = {name: getattr(config, name) for name in config.__dataclass_fields__}
        coordinator, keys = coordinator or Keys.generate(), [Keys.generate() for _ in range(clients)]
        config = FederationConfig(**{**values, **changes})
        config = replace(config, federation=replace(config.federation, repeats=repeats))
        if config.membership.mode == "named" and not config.membership.members:
            config = config.with_members([each.address for each in keys])
        if first_model is None:
            config = with_first_model(config)
        else:
            config = replace(config, start=StartSettings(cid_of(first_model).digest.hex()))
        for each in (coordinator, *keys):
            network.fund(each.address, 1)
        deployment = deploy_federation(network, coordinator.account, config, coordinator.address)
        train = dataset.train()
        parts = iid(train.y, clients, np.random.default_rng(0))
        samples = [train.take(part[:60]) for part in parts]
        store = DiskStore(directory / "store")
        return cls(network, directory, config, deployment, store, coordinator, keys, samples, dataset.test())

    def ledger(self, keys: Keys) -> Ledger:
        return Ledger(self.network, self.deployment, keys.account)

    def client(self, number: int, kind: type[Client] = Client, **changes) -> Client:
        """A fresh client object for member ``number`` (from 1) on its old directory, as after a restart."""
        keys = self.keys[number - 1]
        parts = {
            "ledger": self.ledger(keys),
            "store": self.store,
            "keys": keys,
            "config": self.config,
            "data": self.samples[number - 1],
            "directory": self.directory / f"client-{number}",
        }
        return kind(**{**parts, **changes})

    def coordinator(
        self, kind: type[Coordinator] = Coordinator, store: ContentStore | None = None, members: int = 0
    ) -> Coordinator:
        """A fresh coordinator object, as after a restart."""
        method, ledger = method_of(self.config), self.ledger(self.coordinator_keys)
        where = (ledger, store or self.store, self.config, method.first_model(), method.aides(None, self.test))
        return kind(*where, members=members)

    def standby(self, number: int) -> Standby:
        """A stand-by on the account of member ``number``, without test data."""
        first = method_of(self.config).first_model()
        return Standby(self.ledger(self.keys[number - 1]), self.store, self.config, first)

    def register(self) -> None:
        for number in range(1, len(self.keys) + 1):
            self.client(number).register()

    def turn(self, coordinator: Coordinator, clients: dict[int, Client], standbys: Sequence[Standby] = ()) -> bool:
        """Give every role one step; let the chain go on to the next deadline when nobody acted. False at the end."""
        steps = [("coordinator", coordinator.step())]
        if coordinator.finished:
            return False
        steps += [("standby", standby.step()) for standby in standbys]
        steps += [(f"client {number}", client.step()) for number, client in clients.items()]
        self.log += [(role, step) for role, step in steps if step.acted or step.phase == "sit out"]
        if not any(step.acted for _, step in steps):
            block = self.network.block_number()
            ends = [step.until for _, step in steps if step.until > block]
            if not ends:
                return False  # it stands still: people have to act
            if min(ends) - block > LONG:
                return False  # a round of all members waits for its quorum
            self.network.advance_to(min(ends))
        return True

    def run(
        self,
        coordinator: Coordinator | None = None,
        clients: dict[int, Client] | None = None,
        standbys: Sequence[Standby] = (),
    ) -> None:
        """Run to the end."""
        coordinator = coordinator or self.coordinator()
        clients = clients if clients is not None else self.clients()
        for _ in range(1000):
            if not self.turn(coordinator, clients, standbys):
                return
        raise AssertionError(f"the federation did not end: {self.log[-5:]}")

    def clients(self) -> dict[int, Client]:
        return {number: self.client(number) for number in range(1, len(self.keys) + 1)}

    def said(self, role: str) -> list[str]:
        """What a role did or why it sat out, in order."""
        return [step.acted or step.waiting for name, step in self.log if name == role]

    def history(self) -> LedgerHistory:
        """All blocks up to the latest, verified; read anew only when the chain has gone on."""
        made = self._captured
        head = self.network.block_number()
        if made is None or made.head_block != head or made.block_hash(head) != self.network.block_hash(head):
            made = self._captured = capture(self.network, self.deployment)
        return made

    def records(self) -> list[Record]:
        """All records up to the latest block, as roles read them: each block once, checked, whoever asks for it."""
        return self.ledger(self.coordinator_keys).records()

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The records of one kind."""
        return [record for record in self.records() if isinstance(record, kind)]

    def stated(self) -> list[Metrics]:
        """What closed rounds state."""
        return [Metrics.from_bytes(self.store.fetch(end.metrics_digest, 1 << 20)) for end in self.of(Closed)]

    def audit(self) -> Verdict:
        history = self.history()
        return Auditor(chain_facts(history), history.records(), self.store).run()


@cache
def _digits() -> Dataset:
    """Read once for all federations, which take copies."""
    return load_dataset("digits")


class LyingCoordinator(Coordinator):
    """Closes rounds with another model than they came to: what ``lie`` makes of the true one."""

    def lie(self, current: RoundRecords, model: Tensors) -> Tensors:
        """The model that this coordinator likes; here all zeros."""
        return {name: np.zeros_like(tensor) for name, tensor in model.items()}

    def __init__(self, *parts: object, **options: object) -> None:
        super().__init__(*parts, **options)
        honestly = self.context.outcomes.of

        def outcome(inputs: RoundInputs, record: RecoveryRecord) -> Outcome:
            true = honestly(inputs, record)
            return replace(true, model=self.lie(inputs.current, true.model))

        self.context.outcomes.of = outcome


def sending(change: Callable[[RoundInputs, bytes], bytes], kind: type[Client] = Client) -> type[Client]:
    """A kind of client that uploads what ``change`` makes of its upload; masks do not mind."""

    def __init__(self: Client, *parts: object, **options: object) -> None:
        kind.__init__(self, *parts, **options)
        codec = self.context.method.codec
        encode = codec.encode
        codec.encode = lambda inputs, *rest: change(inputs, encode(inputs, *rest))

    return type("Sending", (kind,), {"__init__": __init__})


def failing(client: Client, fault: Exception, number: int) -> Client:
    """The client, whose training, or evaluation, comes to an exception in the round with this number."""
    trainer, view = client.context.work._trainer, client.view

    def fails(work: Callable) -> Callable:
        def begun(*parts: object) -> Future:
            if view.rounds.last.number != number:
                return work(*parts)
            future: Future = Future()
            future.set_exception(fault)
            return future

        return begun

    trainer.start, trainer.measure = fails(trainer.start), fails(trainer.measure)
    return client


def with_word(upload: bytes, place: int, more: int) -> bytes:
    """An upload with so much more in one of its words, modulo 2³²."""
    words = np.frombuffer(upload, WORD).copy()
    words[place] = (int(words[place]) + more) % 2**32
    return words.tobytes()


Role = TypeVar("Role", Client, Coordinator)


def with_phase(kind: type[Role], phase: Duty | Phase, unit: type) -> type[Role]:
    """A kind of role that does something else in one phase: what ``unit`` does, made from the role's context."""

    def __init__(self: Role, *parts: object, **options: object) -> None:
        kind.__init__(self, *parts, **options)
        self.units[phase] = unit(self.context)

    return type(unit.__name__, (kind,), {"__init__": __init__})
