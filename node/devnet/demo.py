"""A whole federation on one machine: real chain, real store, real training, one process.

The roles are the same objects that run alone elsewhere; they meet only on the ledger and in the store. The loop below
gives each its turn and, on a test chain, mines on to the next deadline when nobody has anything to do.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import Network
from fedgrove.chain.network.standstill import Standstill
from fedgrove.chain.records.deployment import Deployment, LedgerSettings
from fedgrove.common.errors import InvalidContent, InvalidInput, RunFailed
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.process_pool import process_pool
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.devnet.silence import Silence
from fedgrove.node.devnet.subject import Subject
from fedgrove.node.devnet.windows import by_time
from fedgrove.node.methods.terms import continuing, method_of
from fedgrove.node.protocol.founding import found
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.protocol.terms import FederationConfig, StartSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.scenario.scenario import Scenario

_FUNDS_ETHER = 1
_IDLE_SECONDS = 0.2
_TRAINER = "fedgrove.node.methods.training.network_trainer"

Observer = Callable[[str, Step], None]


class DemoFailed(RunFailed):
    """The demonstration cannot go on; the message says why, or who was waited for."""


@dataclass
class Demo:
    """Builds the federation and runs it to its end.

    Parameters
    ----------
    scenario : Scenario
        What to run.
    subject : Subject
        What is learned, on which data.
    network : Network
        The chain; a test chain is mined on, any other is waited for.
    store : ContentStore
        Where all blobs go.
    observe : callable
        Told of every step: ``observe(role, step)``; of ``chain``, when it makes no blocks.
    patience : float
        Seconds without a step, a block or a computation under way after which the run is given up.
    state : RunState, optional
        Where the run is kept while it goes on, and goes on from; without one it ends with this object.
    start : StartSettings, optional
        What the training continues from; the model is in the store.
    goes_on : callable
        Told the number of the latest round when a run goes on.
    """

    scenario: Scenario
    subject: Subject
    network: Network
    store: ContentStore
    observe: Observer = lambda role, step: None
    patience: float = 600.0
    state: RunState | None = None
    start: StartSettings | None = None
    goes_on: Callable[[int], None] = lambda number: None

    def __post_init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.deployment: Deployment | None = None

    def run(self) -> None:
        """Deploy, register, train, close; returns when all rounds have ended. Does only what was not done before.

        Raises
        ------
        DemoFailed
            The data do not fit the scenario, or differ from those before; or nothing happened for too long.
        """
        with ExitStack() as stack:
            state = self.state or RunState(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-"))))
            self.seconds = state.seconds()
            executor = stack.enter_context(_executor(self.scenario.run.workers, self.scenario.training.portable))
            coordinator, clients = self._build(state, executor)
            for number, client in enumerate(clients, 1):
                self.observe(f"client {number}", client.register())
            self._loop(coordinator, clients, state)

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self, state: RunState, executor: Executor | None) -> tuple[Coordinator, list[Client]]:
        keys = state.keys("coordinator")
        try:
            config, first = self.subject.found(self.scenario, self.store, keys)
            members = [state.keys(_client(number)).address for number in range(1, self.scenario.cast.clients + 1)]
            config = replace(config, ledger=self._windows(state, config.ledger)).with_members(members)
        except (InvalidInput, InvalidContent) as fault:
            raise DemoFailed(f"the data do not fit this run: {fault}") from None
        config, first = self._continuing(config, first)
        self._found(state, config, keys)
        aides = method_of(config).aides(keys, self.subject.test(config))
        coordinator = Coordinator(self._ledger(keys), self.store, config, first, aides)
        parts = enumerate(self.subject.parts(config), 1)
        return coordinator, [self._client(state, config, number, data, executor) for number, data in parts]

    def _continuing(self, config: FederationConfig, first: bytes) -> tuple[FederationConfig, bytes]:
        """The terms and the first model, of what the run continues where it does; InvalidConfig if it cannot."""
        if self.start is None or self.start.continues is None:
            return config, first
        model = self.store.fetch(bytes.fromhex(self.start.model), config.max_blob_bytes)
        return continuing(config, first, self.start.continues, model), model

    def _windows(self, state: RunState, suggested: LedgerSettings) -> LedgerSettings:
        """Windows that suit the chain; a run that goes on keeps those that it began with."""
        before = state.deployment()
        return by_time(suggested, self.network) if before is None else before.settings

    def _found(self, state: RunState, config: FederationConfig, keys: Keys) -> None:
        """Deploy the contracts, or find those of before."""
        before = state.deployment()
        if before is not None:
            self._check_unchanged(before, config)
            self.deployment = before
            self.observe("coordinator", Step.act("deploy", "found the contracts", kind=Kind.DEPLOYED))
            return
        self._fund(keys, self.scenario.cast.clients + 2)
        self.deployment = found(self.network, keys.account, config, keys.address)
        state.keep_deployment(self.deployment)
        self.observe("coordinator", Step.act("deploy", "deployed the contracts", kind=Kind.DEPLOYED))

    def _check_unchanged(self, deployment: Deployment, config: FederationConfig) -> None:
        if deployment.chain_id != self.network.chain_id or not self.network.code(deployment.ledger):
            raise DemoFailed("the chain no longer has the contracts of this run: begin a new one")
        if deployment.terms.config != cid_of(config.to_bytes()).digest.hex():
            raise DemoFailed("the data or the task are not what this run began with: put them back, or begin a new one")

    def _client(
        self, state: RunState, config: FederationConfig, number: int, data: Any, executor: Executor | None
    ) -> Client:
        name = _client(number)
        keys = state.keys(name)
        self._fund(keys)
        place = (self._ledger(keys), self.store, keys, config, data, state.journal(name), executor)
        weight = len(data)  # as a simulation weighs them; its user is every member
        return Client(*place, device=self.scenario.run.device, weight=weight)

    def _fund(self, keys: Keys, shares: int = 1) -> None:
        """Give an account test ether, once."""
        if not self.network.balance(keys.address):
            self.network.fund(keys.address, _FUNDS_ETHER * shares)

    @property
    def founded(self) -> Deployment:
        """The federation's contracts; AttributeError before they are deployed."""
        if self.deployment is None:
            raise AttributeError("the contracts are not deployed yet")
        return self.deployment

    def _ledger(self, keys: Keys) -> Ledger:
        return Ledger(self.network, self.founded, keys.account)

    # --- running ----------------------------------------------------------------------------------------------------

    def _loop(self, coordinator: Coordinator, clients: list[Client], state: RunState) -> None:
        cast = self.scenario.cast
        silence = Silence(cast.clients, cast.drop, self.scenario.federation.seed)
        silence.recall(coordinator.view.refresh(), self.store)
        round_number = coordinator.round
        if round_number:
            self.goes_on(round_number)
        started = time.monotonic() - self.seconds.get(round_number, 0.0)
        last_change, last_block = time.monotonic(), 0
        standstill = Standstill(self.network)
        while True:
            before = self.network.block_number()
            steps = [("coordinator", coordinator.step())]
            if coordinator.finished:
                break
            for number, client in enumerate(clients, 1):
                if not silence.of(coordinator.round, number):
                    for step in _turn(client):
                        silence.note(coordinator.round, number, step)
                        steps.append((f"client {number}", step))
            for role, step in steps:
                self.observe(role, step)
            if coordinator.round != round_number:
                state.keep_seconds(self.seconds)
                round_number, started = coordinator.round, time.monotonic()
            self.seconds[round_number] = time.monotonic() - started
            moving = any(step.acted or step.kind is Kind.WORKS for _, step in steps)
            block = self.network.block_number()
            if warning := "" if moving else standstill.note(block):
                self.observe("chain", Step.wait("blocks", warning))
            if moving or block != last_block:
                last_change, last_block = time.monotonic(), block
            elif time.monotonic() - last_change > self.patience:
                waits = "; ".join(step.waiting for _, step in steps if step.waiting)
                raise DemoFailed(f"nothing happened for {self.patience:.0f} s, waiting for: {waits}")
            if not any(step.acted for _, step in steps):
                self._pass_time([step for _, step in steps], before)

    def _pass_time(self, steps: list[Step], before: int) -> None:
        """Nobody has anything to do: compute on, or let the chain reach the next deadline.

        ``before`` is the latest block before they looked. Where blocks come by time, too, one may have come since, and
        some member may have to act before the deadlines that are left: they all look again first.
        """
        block = self.network.block_number()
        if block != before:
            return
        deadlines = [step.until for step in steps if step.until > block]
        if any(step.kind is Kind.WORKS for step in steps) or not self.network.mines_when_asked or not deadlines:
            time.sleep(_IDLE_SECONDS if not self.network.can_mine else 0.01)
        else:
            self.network.mine(min(deadlines) - block)


def _turn(client: Client) -> Iterator[Step]:
    """A client's step; one that commits publishes in the same turn.

    Others look for its update as soon as all have committed, and a node searches for what it lacks for half a minute.
    """
    step = client.step()
    yield step
    if step.kind is Kind.COMMITTED:
        yield client.step()


@contextmanager
def _executor(workers: int, portable: bool) -> Iterator[Executor | None]:
    """A pool of ``workers`` processes, or None: one worker trains in this process, unless it is to be ``portable``."""
    if workers <= 1 and not portable:
        yield None
        return
    with process_pool(max(1, workers), portable, [_TRAINER]) as pool:
        yield pool


def _client(number: int) -> str:
    return f"client-{number}"
