"""A federation that does K-means in a directory: brought up to train or to forget, at rest in between.

Chain, store and everybody's keys and journals lie in the directory. The roles are the objects that run as processes
elsewhere, and go on where they were, whatever ended the last command.

    DIR/options.json          the scenario; written last, so that a directory without it is not complete
    DIR/deployment.json       the contracts
    DIR/chain                 the chain, as anvil writes it
    DIR/keys/                 of everybody
    DIR/client-NN/            the journal of a client, which has its points
    DIR/kubo/                 repository of the Kubo node, where the store is one
    DIR/history/              ledger, store, report and manifest, for `fedgrove audit`
    DIR/certificates/         one for each request that was honoured
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import Network, anvil
from fedgrove.chain.network.history import capture
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import RunFailed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.audit.archive import STORE, chain_facts
from fedgrove.node.audit.certificate import Certificate, certify
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.files import write_atomically
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.keeping import keep, open_store
from fedgrove.node.devnet.members import COORDINATOR, check_written, client_name, found_with_funds
from fedgrove.node.devnet.methods import check_federation
from fedgrove.node.devnet.points import PointsSubject, choice_of, points_of
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.methods.kmeans.asking import ask
from fedgrove.node.methods.kmeans.notebook import begin
from fedgrove.node.methods.kmeans.request import Request
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import terms_of
from fedgrove.node.methods.terms import fetch_method, method_of
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.scenario.kmeans import KMeansChoice
from fedgrove.node.scenario.scenario import Scenario

_HISTORY, _CERTIFICATES = "history", "certificates"
_MAX_TRIES = 3  # rounds for one purpose

Observer = Callable[[str, Step], None]


@dataclass(frozen=True)
class LocalFederation:
    """Files of a directory while nothing runs.

    Attributes
    ----------
    state : RunState
        Of the directory.
    config : FederationConfig
    deployment : Deployment
    scenario : Scenario
        Its store: ``disk``: in the history; ``kubo``: a node of its own, in a private swarm; or the URL of a Kubo API.
    """

    state: RunState
    config: FederationConfig
    deployment: Deployment
    scenario: Scenario

    @property
    def root(self) -> Path:
        """The directory."""
        return self.state.root

    @property
    def clients(self) -> int:
        """How many there are."""
        return self.scenario.cast.clients

    @classmethod
    def make(cls, root: Path, scenario: Scenario) -> "LocalFederation":
        """Found a federation whose clients have the scenario's points; all or nothing.

        Raises
        ------
        InvalidConfig
            The scenario cannot be run so.
        RunFailed
            The directory holds something already.
        """
        check_clustering(scenario)
        subject = PointsSubject(points_of(scenario))
        if root.exists() and any(root.iterdir()):
            raise RunFailed(f"{root} is not empty: give another --dir, nothing was changed")
        scratch = RunState(root.with_name(f"{root.name}.unfinished"))
        scratch.discard()
        names = [COORDINATOR, *(client_name(number) for number in range(1, scenario.cast.clients + 1))]
        with scratch.claimed():
            everyone = {name: scratch.keys(name) for name in names}
            store = DiskStore(scratch.root / _HISTORY / STORE)
            config, _ = subject.found(scenario, store, everyone[COORDINATOR])
            config = config.with_members([everyone[name].address for name in names[1:]])
            store.put(config.to_bytes())
            for name, part in zip(names[1:], subject.parts(config), strict=True):
                begin(Journal(scratch.journal(name), everyone[name].storage), part, terms_of(config))
            with anvil(scratch.chain) as network:
                deployment = found_with_funds(network, config, everyone)
            check_written(scratch.chain)
            scratch.keep_deployment(deployment)
            scratch.keep_scenario(scenario)
        if root.exists():
            root.rmdir()
        scratch.root.rename(root)
        return cls.open(root)

    @classmethod
    def open(cls, root: Path) -> "LocalFederation":
        """The federation in a directory.

        Raises
        ------
        RunFailed, StoreError
            There is none, or what is left of it cannot be read.
        """
        state = RunState(root)
        deployment = state.deployment() if state.begun else None
        if deployment is None:
            raise RunFailed(f"there is no federation in {root}: make one with `fedgrove kmeans`")
        config = fetch_method(DiskStore(root / _HISTORY / STORE), bytes.fromhex(deployment.terms.config)).config
        return cls(state, config, deployment, state.scenario())

    @contextmanager
    def awake(self, observe: Observer = lambda role, step: None) -> Iterator["Session"]:
        """Bring up chain, store and roles while the block runs."""
        kind = self.scenario.run.store
        with (
            self.state.claimed(),
            anvil(self.state.chain) as network,
            open_store(kind, self.kept.path, self.state.kubo) as store,
        ):
            yield Session(self, network, store, observe)

    def journal(self, number: int) -> Path:
        """Where a client keeps its journal."""
        return self.state.journal(client_name(number))

    def client_keys(self, number: int) -> Keys:
        """A client's keys; raises as ``check_client``."""
        self.check_client(number)
        return self.state.keys(client_name(number))

    def check_client(self, number: int) -> None:
        """Raise RunFailed if this client does not exist."""
        if not 1 <= number <= self.clients:
            raise RunFailed(f"there is no client {number}: clients are numbered from 1 to {self.clients}")

    @property
    def kept(self) -> DiskStore:
        """The store of the history, which audits need no running node for."""
        return DiskStore(self.root / _HISTORY / STORE)


class Session:
    """A federation that is awake."""

    def __init__(self, federation: LocalFederation, network: Network, store: ContentStore, observe: Observer) -> None:
        self._federation = federation
        self._network = network
        self._store = store
        self._observe = observe
        self._coordinator = self._new_coordinator()
        self._ledgers: dict[int, Ledger] = {}
        self._clients = {number: self._new_client(number) for number in range(1, federation.clients + 1)}

    @property
    def state(self) -> KMeansState:
        """State after the latest closed round."""
        rounds = self._coordinator.view.rounds
        return method_of(self._federation.config).fetch_model(self._store, rounds.model_digest)

    @property
    def round(self) -> int:
        """Number of the latest round; 0 before the first."""
        return self._coordinator.round

    def register(self) -> None:
        """Register every client that is not registered yet, in order, so that the ledger numbers them alike."""
        for number, client in self._clients.items():
            if not self._ledgers[number].client_of(client.account).client:
                self._observe(f"client {number}", client.register())

    def run(self) -> None:
        """Hold rounds until nobody waits for one.

        Raises
        ------
        RunFailed
            Rounds do not come to what they are held for.
        """
        first = self._coordinator.round
        while True:
            steps = [(COORDINATOR, self._coordinator.step())]
            steps += [(f"client {number}", client.step()) for number, client in self._clients.items()]
            for role, step in steps:
                self._observe(role, step)
            if steps[0][1].kind is Kind.IDLE:
                return
            if self._coordinator.round > first + _MAX_TRIES:
                why = "; ".join(f"{role}: {step.waiting}" for role, step in steps if step.waiting)
                raise RunFailed(f"{_MAX_TRIES} rounds did not complete the request: {why}")
            if not any(step.acted for _, step in steps):
                block = self._network.block_number()
                self._network.advance_to(min(step.until for _, step in steps if step.until > block))

    def withdraw(self, number: int, rows: Sequence[int] | None) -> Request:
        """Ask the federation to forget some points of a client, or all of them for good; on the ledger when it returns.

        Points that were asked for before are not asked for again.

        Raises
        ------
        RunFailed
            There is no such client, or too few would be left.
        InvalidInput
            It has no such points, or has left.
        """
        journal = Journal(self._federation.journal(number), self._federation.client_keys(number).storage)
        self._coordinator.view.refresh()
        known = self._coordinator.view.rounds.withdrawals
        gone = {record.client for record in known if not record.points} | ({number} if rows is None else set())
        left, quorum = self._federation.clients - len(gone), self._federation.config.ledger.quorum
        if left < quorum:
            raise RunFailed(f"{left} clients would remain, but a sum needs {quorum}: delete the federation")
        request, receipt = ask(self._ledgers[number], number, journal, known, rows)
        if receipt is not None:
            what = f"asked to forget {request.points} points" if request.points else "asked to forget all its points"
            self._observe(f"client {number}", Step.act("request", what, receipt.gas_used, Kind.REQUESTED))
        return request

    def archive(self) -> Verdict:
        """Audit the history, and keep it for others to audit."""
        federation = self._federation
        return keep(federation.root / _HISTORY, self._network, federation.deployment, self._store, {})

    def certificate(self, number: int, request: Request) -> tuple[Certificate, Path]:
        """The certificate for a request, and the file that it was written to.

        Raises
        ------
        NoCertificate
            No round has honoured it.
        """
        history = capture(self._network, self._federation.deployment)
        found = certify(chain_facts(history), history.records(), self._store, number, request.digest)
        directory = self._federation.root / _CERTIFICATES
        directory.mkdir(exist_ok=True)
        path = directory / f"client-{number}-block-{found.request.block}.json"
        write_atomically(path, found.to_bytes())
        return found, path

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _new_coordinator(self) -> Coordinator:
        federation = self._federation
        ledger = Ledger(self._network, federation.deployment, federation.state.keys(COORDINATOR).account)
        first = method_of(federation.config).first_model()
        return Coordinator(ledger, self._store, federation.config, first, members=federation.clients)

    def _new_client(self, number: int) -> Client:
        federation, keys = self._federation, self._federation.client_keys(number)
        self._ledgers[number] = Ledger(self._network, federation.deployment, keys.account)
        in_journal = np.empty((0, terms_of(federation.config).dimensions))
        journal = federation.journal(number)
        return Client(self._ledgers[number], self._store, keys, federation.config, in_journal, journal)


def check_clustering(scenario: Scenario) -> KMeansChoice:
    """The scenario's table ``[kmeans]``; raises InvalidConfig unless points can be clustered on this machine."""
    choice, chain, store = choice_of(scenario), scenario.run.chain, scenario.run.store
    if chain not in ("auto", "anvil"):
        raise InvalidConfig(f"run.chain must be anvil with kmeans, not {chain!r}")
    if store not in ("auto", "disk", "kubo") and not store.startswith(("http://", "https://")):
        raise InvalidConfig(f"run.store must be disk, kubo or the URL of a Kubo API, not {store!r}")
    check_federation(scenario)
    return choice
