"""Why an account's last round counted, or did not: read off the ledger, for the owner of the account."""

from dataclasses import dataclass

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records import Closed, Failed, Phase, Skipped, Voided
from fedgrove.chain.records.phases import Deadlines
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import Member, RoundRecords


@dataclass(frozen=True)
class Participation:
    """Whether an account's update counted in a round, and if not, why (one clause)."""

    round: int
    counted: bool
    reason: str


def last_participation(
    ledger: Ledger, view: LedgerView, account: str, keys: Keys | None = None
) -> Participation | None:
    """Result of an account's participation in the latest round that has ended.

    None before the first has, and for a coordinator that is no client.
    Only the account's own keys can tell whether it was in a sample that it did not draw in.
    """
    ended = view.rounds.ended()
    only_coordinates = account == ledger.deployment.coordinator and view.rounds.member(account) is None
    if not ended or only_coordinates:
        return None
    current = ended[-1]
    reason = _Look(ledger, view, current, account, keys).reason()
    return Participation(current.number, not reason, reason)


def fate(current: RoundRecords, quorum: int) -> str:
    """Why a round that has ended left no model, in one clause; empty when it did leave one."""
    if current.stands:
        return ""
    match current.ending:
        case Closed():
            said = current.judgements(Phase.CLOSED).values()
            judges, clients = sum(not any(each.model_digest) for each in said), len(current.commits)
            return f"the round was voided: {judges} of its {clients} clients judged that it has no result"
        case Voided():
            return "the round was voided: it trained from a model that others replaced"
        case Skipped():
            return f"the round was skipped: only {len(current.draws)} drew"
        case Failed():
            return f"the round failed: {why_failed(current, quorum)}"


def why_failed(current: RoundRecords, quorum: int) -> str:
    """As far as the ledger tells, why a round failed, in one clause."""
    judges = len(current.judgements(Phase.RECOVER))
    counts = (len(current.draws), len(current.commits), judges, len(current.releases))
    return failure(quorum, current.sealed is not None, *counts)


def failure(quorum: int, is_sealed: bool, drawn: int, committed: int, judges: int, released: int) -> str:
    """Why a round failed, in one clause, by how many clients did what in it; ``quorum`` is the ledger's."""
    if not is_sealed:
        return f"its order was not sealed in time, though {drawn} drew"
    if 2 * committed <= drawn:
        return f"{committed} of the {drawn} clients that drew committed"
    if committed < quorum:
        return f"{committed} of the {drawn} clients that drew committed, and the quorum is {quorum}"
    if 2 * judges > committed:
        return f"{judges} of its {committed} clients judged that nothing may be summed"
    return f"nobody closed it in time, with shares of {released} clients released"


class _Look:
    """One account in one ended round."""

    def __init__(
        self, ledger: Ledger, view: LedgerView, current: RoundRecords, account: str, keys: Keys | None
    ) -> None:
        self._ledger = ledger
        self._view = view
        self._entry = current
        self._account = account
        self._keys = keys
        self._deadlines: Deadlines = view.deadlines(current)

    def reason(self) -> str:
        """Why the account's update did not count; empty when it did."""
        member, current = self._view.rounds.member(self._account), self._entry
        if member is None:
            return "the account is not registered"
        if member.client in current.commits:
            failed = self._fate()
            return f"it committed, but {failed}" if failed else ""
        if member.client in current.draws:
            return self._dropped(member)
        return self._barred(member) or self._silent(member)

    def _fate(self) -> str:
        return fate(self._entry, self._view.settings.quorum)

    def _dropped(self, member: Member) -> str:
        """It drew and did not commit."""
        current, ends = self._entry, self._deadlines
        shared = member.client in current.shares
        done = "drew and shared" if shared else "drew"
        missed, until = ("commit", ends.commit_end) if shared else ("share", ends.share_end)
        if current.sealed is None or current.ending.at.block <= until:
            return f"it {done}, but {self._fate()}"
        return f"it {done}, but did not {missed} in time (by block {until})"

    def _barred(self, member: Member) -> str:
        """Reason why it was not allowed to draw; empty if it was."""
        current, known = self._entry, self._ledger.client_of(self._account)
        active_from = max(member.active_from, known.active_from)
        if not known.approved:
            return "the federation's admin has not approved the account"
        if active_from > current.opened.opened_at:
            began = f"the round began in block {current.opened.opened_at}"
            return f"it was not yet active: {began}, but it is active from block {active_from} on"
        if member.account in current.opened.barred and not member.bar(current.opened.opened_at):
            return "it was idle when the round opened, as it drew in none of the rounds before"
        if current.seed is None or current.ending.at.block <= self._deadlines.draw_end:
            return self._fate()
        if len(current.draws) >= self._view.settings.max_clients:
            return f"the round was full with {len(current.draws)} clients"
        return ""

    def _silent(self, member: Member) -> str:
        """It could have drawn if it was in the sample."""
        current = self._entry
        base = self._view.rounds.base_of(current.number)
        if base is not None and base.overruled(member.client):
            return (
                f"it did not draw: it judges that round {base.number}, from whose model it trained, has another result"
            )
        late = f"did not draw in time (by block {self._deadlines.draw_end})"
        if current.opened.sampling_rate == tree.EVERYONE:
            return f"it {late}"
        if self._keys is None:
            return f"it was not in the sample, or {late}; only its keystore can tell which"
        alpha = tree.draw_alpha(self._ledger.chain_id, self._ledger.address, current.number, current.fixed_seed.seed)
        beta = vrf.proof_to_hash(vrf.prove(self._keys.vrf, alpha))
        drawn = tree.is_drawn(beta, current.opened.sampling_rate)
        return f"it was in the sample, but {late}" if drawn else "it was not in the sample"
