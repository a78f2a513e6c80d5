"""The client itself: what it does between rounds, and which phase is due in a running one."""

from collections.abc import Sized
from concurrent.futures import Executor
from enum import Enum
from functools import partial
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records import Phase
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.method import Workplace
from fedgrove.node.protocol.policy import opening_fault
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Kind, Step, attempt
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.protocol.weight import OwnWeight
from fedgrove.node.roles.client.concluding import Judge, ReleaseShares, lot
from fedgrove.node.roles.client.context import ClientContext, ClientTurn, ClientUnit, Outbox, holds_key_of
from fedgrove.node.roles.client.contributing import Commit, Publish, PublishShares
from fedgrove.node.roles.client.joining import OTHER_KEY, Draw, reason_to_leave, resume
from fedgrove.node.roles.client.proving import Affirm, Vouch
from fedgrove.node.roles.context import RoleContext
from fedgrove.node.roles.disclosure import Disclosure, OrderAbandoned
from fedgrove.node.roles.duplicates import Duplicates


class Duty(Enum):
    """What a running round asks of a client."""

    DRAW = "draw"
    SEAL = "seal"
    SHARE = "share"
    COMMIT = "commit"
    PUBLISH = "publish"
    VOUCH = "vouch"
    AFFIRM = "affirm"
    RELEASE = "release"


_UNITS: dict[Duty, type[ClientUnit]] = {
    Duty.DRAW: Draw,
    Duty.SHARE: PublishShares,
    Duty.COMMIT: Commit,
    Duty.PUBLISH: Publish,
    Duty.VOUCH: Vouch,
    Duty.AFFIRM: Affirm,
    Duty.RELEASE: ReleaseShares,
}


def duty_of(turn: ClientTurn) -> Duty:
    """What is due in a running round.

    It depends on what the client has done, not on the clock alone: a client that is late goes straight to releasing
    shares, where it still helps others to recover.
    """
    current, client = turn.current, turn.client
    if client not in current.draws:
        return Duty.DRAW
    if current.sealed is None:
        return Duty.SEAL
    if client not in current.shares and turn.phase is Phase.SHARE:
        return Duty.SHARE
    if client in current.commits:
        return Duty.PUBLISH
    if client in current.shares and turn.phase in (Phase.SHARE, Phase.COMMIT):
        return Duty.COMMIT
    return Duty.RELEASE


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
    weight : int, optional
        How much its updates count, for a member that begins; the journal keeps it (``node.protocol.weight``).

    Raises
    ------
    JournalDamaged
        The directory is the journal of another federation, or of other keys.
    InvalidInput
        The journal keeps another weight.
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
        weight: int | None = None,
    ) -> None:
        method, view = method_of(config), LedgerView(ledger, confirmations)
        first = method.starting_model(store)
        parameters = method.parameters_of(method.read_model(first))
        base = RoleContext(ledger, store, config, method, view, parameters)
        journal = Journal(directory, keys.storage)
        journal.bind(ledger.chain_id, ledger.address)
        own = OwnWeight(journal)
        self.weight = own.begin(weight, lambda: method.weight_of(data) or 1)
        place = (store, data, journal, executor, base.rounds, base.inputs, keys)
        workplace = Workplace(*place, lambda current: own.of(current.opened.model_digest), device)
        self.context = ClientContext(
            ledger,
            store,
            config,
            method,
            view,
            parameters,
            keys=keys,
            journal=journal,
            disclosure=Disclosure(journal, store, method, base.inputs),
            work=method.work(workplace),
            closings=Closings(
                store, method, base.inputs, check_rounds, partial(lot, keys), ledger.block_hash, base.rounds
            ),
            duplicates=Duplicates(journal),
            outbox=Outbox(view),
        )
        self._judge = Judge(self.context)
        self.units: dict[Duty, ClientUnit] = {duty: unit(self.context) for duty, unit in _UNITS.items()}
        self._terms, self._first_model = cid_of(config.to_bytes()).digest, cid_of(first).digest
        self.view = view
        self.finished = False

    @property
    def account(self) -> str:
        return self.context.keys.address

    @property
    def alarm(self) -> str:
        """Alarm for people, in one sentence; empty if there is none."""
        member = self.view.rounds.member(self.account)
        if member is not None and not holds_key_of(self.context.keys, member):
            return f"{OTHER_KEY}: give this client the keystore that was rotated, or run `fedgrove keys rotate`"
        return self.context.duplicates.alarm

    @property
    def members_metrics(self) -> MembersStatement | None:
        """What the last round states of the members' own metrics; None where there are none."""
        return self.context.members_metrics()

    @property
    def answered(self) -> int:
        """In how many rounds the ledger lists an upload of this account."""
        member = self.view.rounds.member(self.account)
        return sum(member.client in each.commits for each in self.view.rounds.rounds.values()) if member else 0

    def spent(self) -> float:
        """ε that it has spent up to the latest round, 0 without a mechanism of privacy; raises StoreError."""
        member, latest = self.view.rounds.member(self.account), self.view.rounds.latest
        if member is None or latest is None or self.context.config.privacy is None:
            return 0.0
        return self.context.spending().epsilon(member.client, latest.number)

    def register(self) -> Step:
        """Register keys with the ledger; nothing is sent when these keys are registered already."""
        ledger, keys = self.context.ledger, self.context.keys
        entry = ledger.client_of(self.account)
        if entry.client and ledger.holds_vrf_key(keys):
            return Step.wait("register", "the chain: the registration is not yet confirmed", self.view.block + 1)
        membership = ledger.deployment.membership
        if not entry.client and not entry.approved and membership != "open":
            who = "the admin" if membership == "approved" else "the founder"
            reason = f"{who}: account {self.account} is not approved as a member's"
            return Step.wait("register", reason, self.view.block + 1)
        receipt = ledger.register(keys)
        return Step.act("register", "registered", receipt.gas_used)

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        current = self.view.refresh()
        try:
            return attempt(lambda: self._act(current), self.view.block)
        except (InvalidContent, JournalDamaged, MaskingRefused, OrderAbandoned) as fault:
            end = self.view.deadlines(self.view.rounds.last).recover_end
            return Step.wait("sit out", f"this client: {fault}", end, Kind.SITS_OUT)

    def _act(self, current: RoundRecords | None) -> Step:
        # (1) without a registration nothing else is this client's
        member = self.view.rounds.member(self.account)
        if member is None:
            return self.register()
        if current is None:
            return Step.wait("open", "the coordinator: the first round is not yet open")
        # (2) another process with this keystore is looked for while the journal can still say what this one made
        self.context.duplicates.look(self.view.rounds, member.client, self.view.block)
        # (3) who took back everything is done, once nothing of it is summed any more
        running = current.end is None
        if self.view.rounds.left(member.client) and not (running and member.client in current.draws):
            return self._leave(current)
        # (4) secrets of rounds that nobody can sum any more are destroyed
        self.context.journal.destroy(before=self._last_summed(current, member.client))
        # (5) the closing that the model in force comes from is judged before this client trains from it
        turn = ClientTurn(current, self.view.deadlines(current), self.view.block, member)
        step = self._judge.act(turn)
        if step is None:
            self.context.work.settle(member.client)
        # (6) in a running round, the one thing that is due; others may rely on what it found of the last closing
        if step is None and running:
            played = self._play(turn)
            return played if played.acted else self._judge.tell(turn) or played
        # (7) between rounds: be there in the next one, or confirm the last closing and end
        over = self.context.over()
        if step is None:
            step = self._judge.confirm(turn) if over else resume(self.context, turn)
        self.finished = bool(over) and (step is None or not step.acted)
        who = f"nobody: {over}" if over else "the coordinator: the next round is not yet open"
        return step or Step.wait("open", who)

    def _last_summed(self, current: RoundRecords, client: int) -> int:
        """The last round in which nobody needs this client's shares any more.

        Behind a closing that is wrong, for all it knows, it may have to release what it has not released yet.
        """
        last = current.number - 1 if current.end is None else current.number
        base, closings = self.view.rounds.base, self.context.closings
        if base is None or client in base.releases or closings.is_found_right(base):
            return last
        may_release = self.view.block < self.view.deadlines(base).recover_end
        return min(last, base.number - 1) if may_release else last

    def _leave(self, current: RoundRecords) -> Step:
        """Nothing of this client is summed any more: destroy what it kept for that."""
        if not self.finished:
            self.context.journal.destroy(before=current.number)
            self.context.work.leave()
            self.finished = True
        return Step.wait("done", "nobody: this client has withdrawn its data and left")

    def _play(self, turn: ClientTurn) -> Step:
        """Take the step that is due in a running round: draw, share, train and commit, publish, release."""
        # (1) a round under other terms, from another model or after the end is none of this client's
        expected = (self._terms, self._first_model, self.context.ending(), self.context.opener)
        refused = opening_fault(self.view.rounds, turn.current, *expected)
        if refused:
            return Step.wait("open", refused)
        # (2) whoever may be alone among colluders leaves before it shares anything
        due = duty_of(turn)
        leaves = reason_to_leave(self.context, turn) if due is not Duty.DRAW else ""
        if leaves:
            return turn.sit_out(leaves)
        # (3) the duty; a published update is followed by its voucher, where it has bounds, and the release of shares
        if due is Duty.SEAL:  # anyone may, and the coordinator does
            return Step.wait("seal", "anyone: the order of the round is not yet sealed", turn.deadlines.seal_end)
        following = (Duty.VOUCH, Duty.AFFIRM) if due is Duty.PUBLISH and self.view.settings.is_bounded else ()
        acts = (self.units[each].act(turn) for each in (due, *following, Duty.RELEASE))
        step = next((step for step in acts if step is not None), None)
        assert step is not None, "releasing shares is never done before the round is over"
        return step
