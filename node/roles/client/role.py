"""The client itself: what it does between rounds, and which phase is due in a running one."""

from collections.abc import Sized
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Protocol

from fedgrove.chain.keys import Keys
from fedgrove.chain.ledger import Ledger
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.content import InvalidBlob
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.method import Workplace
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step, attempt
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.client.commit import Commit
from fedgrove.node.roles.client.context import ClientContext, ClientTurn, holds_key_of
from fedgrove.node.roles.client.dispute import Dispute, lot
from fedgrove.node.roles.client.draw import OTHER_KEY, Draw
from fedgrove.node.roles.client.outbox import Outbox
from fedgrove.node.roles.client.phase import ClientPhase, phase_of
from fedgrove.node.roles.client.publish import Publish
from fedgrove.node.roles.client.recover import ReleaseShares
from fedgrove.node.roles.client.seal import AwaitSeal, reason_to_leave
from fedgrove.node.roles.client.share import PublishShares
from fedgrove.node.roles.context import RoleContext
from fedgrove.node.roles.disclosure import Disclosure, OrderAbandoned
from fedgrove.node.roles.twins import Twins


class ClientUnit(Protocol):
    """A client's work in one phase."""

    def act(self, turn: ClientTurn) -> Step | ClientPhase:
        """Act; return the step taken, or the phase that is due instead."""
        ...


class Client:
    """One member of a federation.

    Parameters
    ----------
    ledger : Ledger
        Facade that sends from this client's account.
    store : ContentStore
        Where blobs are put and fetched.
    keys : Keys
        Account, VRF, mailbox and storage key.
    config : FederationConfig
        The terms this client agreed to; rounds opened under other terms are refused.
    data : samples, points, or a task on a source
        The private data. It never leaves this object, except for the journal where points are clustered.
    directory : Path
        For the journal.
    executor : Executor, optional
        Where local training runs; without one it runs inside ``step``.
    confirmations : int
        Blocks that must lie on top of a record before it is acted on.
    check_rounds : float
        Fraction of the closed rounds that this client recomputes at least (``node.protocol.closing``).
    device : str
        Where a shipped network is trained: ``cpu`` or ``cuda``.

    Raises
    ------
    JournalDamaged
        The directory is the journal of another federation, or of other keys.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: ContentStore,
        keys: Keys,
        config: FederationConfig,
        data: Sized,
        directory: Path,
        executor: Executor | None = None,
        confirmations: int = 0,
        check_rounds: float = 0.0,
        device: str = "cpu",
    ) -> None:
        method, view = method_of(config), LedgerView(ledger, confirmations)
        first = method.starting_model(store)
        parameters = method.parameters_of(method.read_model(first))
        base = RoleContext(ledger, store, config, method, view, parameters)
        journal = Journal(directory, keys.storage)
        journal.bind(ledger.chain_id, ledger.address)
        chain = (ledger.block_hash, ledger.deployment.block)
        self._context = ClientContext(
            ledger,
            store,
            config,
            method,
            view,
            parameters,
            keys=keys,
            journal=journal,
            disclosure=Disclosure(journal, store, method, base.inputs),
            work=method.work(Workplace(store, data, journal, executor, lambda: view.rounds, base.inputs, keys, device)),
            closings=Closings(store, method, base.inputs, check_rounds, partial(lot, keys), *chain),
            twins=Twins(journal),
            outbox=Outbox(view),
        )
        self._dispute = Dispute(self._context)
        self._phases = _phases(self._context)
        self._first_model = cid_of(first).digest
        self.view = view
        self.finished = False

    @property
    def account(self) -> str:
        return self._context.keys.address

    @property
    def alarm(self) -> str:
        """Alarm for people, in one sentence; empty if there is none."""
        member = self.view.rounds.member(self.account)
        if member is not None and not holds_key_of(self._context.keys, member):
            return f"{OTHER_KEY}: give this client the keystore that was rotated, or run `fedgrove keys rotate`"
        return self._context.twins.alarm

    @property
    def members_metrics(self) -> MembersStatement | None:
        """What the last round states of the members' own metrics; None where there are none."""
        return self._context.members_metrics()

    def register(self) -> Step:
        """Register keys with the ledger; nothing is sent when these keys are registered already."""
        ledger, keys = self._context.ledger, self._context.keys
        if ledger.client_of(self.account).client and ledger.holds_vrf_key(keys):
            return Step.wait("register", "the chain: the registration is not yet confirmed", self.view.block + 1)
        receipt = ledger.register(keys)
        return Step("register", acted="registered", gas=receipt.gas_used)

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        current = self.view.refresh()
        try:
            return attempt(lambda: self._act(current), self.view.block)
        except (InvalidBlob, InvalidModel, JournalDamaged, MaskingRefused, OrderAbandoned) as fault:
            return Step.wait("sit out", f"this client: {fault}", self.view.deadlines(self.view.rounds.last).close_end)

    def _act(self, current: RoundRecords | None) -> Step:
        member = self.view.rounds.member(self.account)
        if member is None:
            return self.register()
        if current is None:
            return Step.wait("open", "the coordinator: the first round is not yet open")
        self._context.twins.look(self.view.rounds, member.client, self.view.block)
        running = current.end is None
        if self.view.rounds.left(member.client) and not (running and member.client in current.draws):
            return self._leave(current)
        self._context.journal.destroy(before=current.number - 1 if running else current.number)
        turn = ClientTurn(current, self.view.deadlines(current), self.view.block, member)
        step = self._dispute.act(turn)
        if step is None or self.view.rounds.disputed_by(member.client) is not None:
            self._context.work.settle(member.client)
        if step is None and running:
            return self._play(turn)
        over = self._context.over()
        self.finished = bool(over) and (step is None or not step.acted)
        who = f"nobody: {over}" if over else "the coordinator: the next round is not yet open"
        return step or Step.wait("open", who)

    def _leave(self, current: RoundRecords) -> Step:
        """Nothing of this client is summed any more: destroy what it kept for that."""
        if not self.finished:
            self._context.journal.destroy(before=current.number)
            self._context.work.leave()
            self.finished = True
        return Step.wait("done", "nobody: this client has withdrawn its data and left")

    def _play(self, turn: ClientTurn) -> Step:
        """Take the step that is due in a running round."""
        refused = self._refused_terms(turn.current)
        if refused:
            return Step.wait("open", refused)
        due: Step | ClientPhase = phase_of(turn.current, turn.deadlines, turn.block, turn.client)
        leaves = reason_to_leave(self._context, turn) if due is not ClientPhase.DRAW else ""
        if leaves:
            return turn.sit_out(leaves)
        while isinstance(due, ClientPhase):
            due = self._phases[due].act(turn)
        return due

    def _refused_terms(self, current: RoundRecords) -> str:
        """Why this client takes no part in a round that was opened like this; empty when it does."""
        if current.opened.config_digest != cid_of(self._context.config.to_bytes()).digest:
            return "the coordinator: it opened the round under terms this client did not agree to"
        if self.view.rounds.base is None and current.opened.model_digest != self._first_model:
            return "its members: training does not start from the model in the terms"
        ending = self._context.ending()
        return f"the coordinator: it opened the round after the training had ended, as {ending}" if ending else ""


def _phases(context: ClientContext) -> dict[ClientPhase, ClientUnit]:
    return {
        ClientPhase.DRAW: Draw(context),
        ClientPhase.SEAL: AwaitSeal(context),
        ClientPhase.SHARE: PublishShares(context),
        ClientPhase.COMMIT: Commit(context),
        ClientPhase.PUBLISH: Publish(context),
        ClientPhase.RECOVER: ReleaseShares(context),
    }
