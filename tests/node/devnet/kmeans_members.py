"""A small federation that does K-means, on the embedded chain; roles are made anew at will, and may lie."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.records import Closed, Failed, Withdrawn
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.certificate import Certificate, certify
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.devnet.windows import windows
from fedgrove.node.masking.client import mask_keys
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.asking import ask
from fedgrove.node.methods.kmeans.code import MAX_LIMIT, Code
from fedgrove.node.methods.kmeans.codec import CountCodec, _lay
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.notebook import Notebook, read_notebook
from fedgrove.node.methods.kmeans.request import Request
from fedgrove.node.methods.kmeans.round_inputs import exchange_of
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.kmeans.vector import draw_vector
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.protocol.founding import found as deploy_federation
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.step import Step
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator

POINTS = 20
TERMS = KMeansTerms(k=2, dimensions=2, step=0.05, restarts=4, gather_blocks=3, retry_blocks=30)

Lie = Callable[[BinCounts, RoundRecords], BinCounts | Callable[[Code], np.ndarray]]
"""What a liar makes of its vector in a round: another, or a function that gives elements of a code's length."""


class Liar(CountCodec):
    """Uploads under its masks what ``lie`` makes of its vector."""

    def __init__(self, config: FederationConfig, lie: Lie) -> None:
        super().__init__(config)
        self._lie = lie

    def encode(self, inputs, client, secrets, update):
        own = exchange_of(inputs).sum_of(client)
        if own is None:
            return b""
        lie = self._lie(update, inputs.current)
        anything = replace(own.code, limit=MAX_LIMIT, signed=True)
        elements = anything.encode(lie) if isinstance(lie, BinCounts) else lie(anything)
        keys = mask_keys(inputs.graph, inputs.current.order.index(client), secrets, inputs.sharers)
        return _lay(elements, keys).astype(gf.ELEMENT).tobytes()


@dataclass
class Federation:
    """Chain, store, keys and directories.

    Attributes
    ----------
    lies : mapping of int to callable
        Members that change their vectors before they mask them.
    claims : mapping of int to int
        Members that state another number of points than they have.
    sent : mapping of (int, int) to BinCounts
        What each client drew for each round: the oracle for every sum.
    """

    network: Network
    directory: Path
    config: FederationConfig
    deployment: Deployment
    store: DiskStore
    founder: Keys
    keys: list[Keys]
    parts: list[np.ndarray]
    lies: dict[int, Lie] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)
    sent: dict[tuple[int, int], BinCounts] = field(default_factory=dict)
    log: list[tuple[str, Step]] = field(default_factory=list)

    @classmethod
    def found(
        cls,
        network: Network,
        directory: Path,
        settings: KMeansTerms = TERMS,
        clients: int = 5,
        parts: list[np.ndarray] | None = None,
        **ledger,
    ) -> "Federation":
        """Deploy a federation and make its members; ``ledger`` replaces parts of its windows and limits."""
        limits = {name: value for name, value in ledger.items() if name == "max_samples"}
        config = FederationConfig(
            federation=FederationSettings(rounds=100),
            method=settings,
            ledger=replace(windows(clients), **limits),
        )
        founder, keys = Keys.generate(), [Keys.generate() for _ in range(clients)]
        for each in (founder, *keys):
            network.fund(each.address, 1)
        config = config.with_members([each.address for each in keys])
        config = with_first_model(replace(config, ledger=replace(config.ledger, **ledger)))
        deployment = deploy_federation(network, founder.account, config, founder.address)
        rng = np.random.default_rng(1)
        shape = (POINTS, settings.dimensions)
        drawn = [np.clip(rng.normal(rng.uniform(-0.5, 0.5, shape[1]), 0.1, shape), -1, 1) for _ in keys]
        store = DiskStore(directory / "store")
        return cls(network, directory, config, deployment, store, founder, keys, parts or drawn)

    @property
    def everybody(self) -> set[int]:
        return set(range(1, len(self.keys) + 1))

    def ledger(self, number: int) -> Ledger:
        return Ledger(self.network, self.deployment, self.keys[number - 1].account)

    def journal(self, number: int) -> Journal:
        return Journal(self.directory / f"client-{number}", self.keys[number - 1].storage)

    def client(self, number: int) -> Client:
        """A fresh client object; what it draws is noted in ``sent``, and its lie is told."""
        place = (self.keys[number - 1], self.config, self.parts[number - 1], self.directory / f"client-{number}")
        client = Client(self.ledger(number), self.store, *place)
        if number in self.lies:
            client.context.disclosure.method.codec = Liar(self.config, self.lies[number])
        work = client.context.work
        drawn = work.result
        if number in self.claims:
            work.samples = lambda current, index: self.claims[number]

        def result(current, index):
            self.sent[number, current.number] = drawn(current, index)
            return self.sent[number, current.number]

        work.result = result
        return client

    def coordinator(self) -> Coordinator:
        ledger = Ledger(self.network, self.deployment, self.founder.account)
        return Coordinator(ledger, self.store, self.config, method_of(self.config).first_model())

    def register(self, *numbers: int) -> None:
        for number in numbers or sorted(self.everybody):
            self.client(number).register()

    def run(
        self,
        present: set[int] | None = None,
        until: str = "idle",
        restarting: bool = False,
        done: Callable[[Rounds], bool] = lambda rounds: False,
    ) -> None:
        """Fresh roles of those who are there, until the coordinator waits in this phase, or something is on the ledger.

        With ``restarting`` nobody remembers anything from one step to the next but by journal and ledger.
        """
        present = self.everybody if present is None else present
        coordinator, clients = self.coordinator(), {number: self.client(number) for number in present}
        watch = LedgerView(self.ledger(1))
        for _ in range(1000):
            watch.refresh()
            if done(watch.rounds):
                return
            if restarting:
                coordinator, clients = self.coordinator(), {number: self.client(number) for number in present}
            steps = [("coordinator", coordinator.step())]
            steps += [(f"client {number}", client.step()) for number, client in clients.items()]
            self.log += [(role, step) for role, step in steps if step.acted or step.phase == "sit out"]
            if steps[0][1].waiting and steps[0][1].phase == until:
                return
            if not any(step.acted for _, step in steps):
                block = self.network.block_number()
                ends = [step.until for _, step in steps if step.until > block]
                if not ends:
                    return  # it stands still: people have to act
                self.network.advance_to(min(ends))
        raise AssertionError(f"nothing came of it: {self.log[-5:]}")

    def hold(self, present: set[int] | None = None) -> RoundRecords:
        """One round more, to its end, when it is due; what the ledger has of it."""
        number = self.rounds().latest.number + 1 if self.rounds().latest else 1

        def ended(rounds: Rounds) -> bool:
            return number in rounds.rounds and rounds.rounds[number].end is not None

        self.run(present, until="never", done=ended)
        return self.rounds().rounds[number]

    def ask(self, number: int, rows) -> Request:
        withdrawals = [record for record in self.ledger(number).records() if isinstance(record, Withdrawn)]
        return ask(self.ledger(number), number, self.journal(number), withdrawals, rows)[0]

    def notebook(self, number: int) -> Notebook:
        return read_notebook(self.journal(number))

    def rounds(self) -> Rounds:
        found = Rounds(self.config.ledger.quorum)
        for record in self.ledger(1).records():
            found.add(record)
        return found

    def state(self) -> KMeansState:
        closed = [record for record in self.ledger(1).records() if isinstance(record, Closed)]
        return method_of(self.config).fetch_model(self.store, closed[-1].model_digest)

    def failures(self) -> list[Failed]:
        return [record for record in self.ledger(1).records() if isinstance(record, Failed)]

    def sum_of(self, number: int, *clients: int) -> BinCounts:
        """What these clients drew for a round."""
        total = BinCounts.empty(self.config.method.dimensions)
        for client in clients:
            total = total + self.sent[client, number]
        return total

    def history(self) -> LedgerHistory:
        history = capture(self.network, self.deployment)
        history.verify()
        return history

    def audit(self) -> Verdict:
        history = self.history()
        return Auditor(chain_facts(history), history.records(), self.store).run()

    def certify(self, number: int, request: Request) -> Certificate:
        history = self.history()
        return certify(chain_facts(history), history.records(), self.store, number, request.digest)


def keep_seedings(patched) -> None:
    """The mutant: each client draws its vector once, and sends it in every sum, as the first version did."""
    kept: dict[bytes, BinCounts] = {}

    def once(points, settings, rng):
        return kept.setdefault(points.tobytes(), draw_vector(points, settings, rng))

    patched.setattr("fedgrove.node.methods.kmeans.client_work.draw_vector", once)
