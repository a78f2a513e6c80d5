"""Join: a client in the sample draws its lot, and leaves a round that too few of the members it knows have joined.

A client that an opening listed as idle takes part again by itself.
"""

from dataclasses import replace
from functools import partial

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import Phase
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.policy import attendance_fault, standstill
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.context import ClientContext, ClientTurn, ClientUnit, holds_key_of

OTHER_KEY = "the ledger has another VRF key for this account than this client, which therefore draws in no round"


class Draw(ClientUnit):
    """Draws the client's lot. The secrets behind the keys are in the journal before the ledger has the keys."""

    def act(self, turn: ClientTurn) -> Step:
        """Draw, or say why not."""
        if turn.phase is Phase.SEEDING:
            reason = "the chain: the round's seed block does not exist yet"
            return Step.wait("seeding", reason, turn.deadlines.seed_block)
        step = resume(self.context, turn)
        if step is not None:
            return step
        barred = self._barred(turn) or self._too_late(turn) or self._still(turn) or self._unaffordable(turn)
        if barred:
            return turn.sit_out(barred)
        alpha = self._alpha(turn)
        if not self._is_drawn(turn, alpha):
            return turn.sit_out("this client: it is not in the round's sample")
        secrets = self.context.disclosure.secrets(turn.current.number)
        keys = (secrets.mask_key, secrets.seal_key)
        try:
            samples = self._samples(turn)
        except CannotTakePart as fault:
            return replace(turn.sit_out(f"this client: {fault.brief}"), detail=str(fault))
        send = partial(self.context.ledger.draw, turn.current.number, self.context.keys, alpha, *keys, samples)
        return self.context.outbox.send(turn.current, "draw", "drew", send)

    def _too_late(self, turn: ClientTurn) -> str:
        return "" if turn.phase is Phase.DRAW else "this client: it did not draw in time"

    def _barred(self, turn: ClientTurn) -> str:
        """Why this client does not draw, or the ledger would refuse it; empty when nothing is in the way."""
        if turn.member.active_from > turn.current.opened.opened_at:
            return "this client: it is active from the next round"
        if not holds_key_of(self.context.keys, turn.member):
            return f"this client: {OTHER_KEY}"
        view = self.context.view
        waiting = self.context.duplicates.waiting(view.rounds, turn.client, turn.current.number)
        barred = waiting or view.law.barred(turn.member, turn.current)
        return f"this client: {barred}" if barred else ""

    def _still(self, turn: ClientTurn) -> str:
        """Why nobody takes part any more, as too many sums were opened; empty where that is not so."""
        released = self.context.journal.releases()
        still = standstill(self.context.view.rounds, self.context.config, turn.current.number, released)
        return f"people: {still}" if still else ""

    def _unaffordable(self, turn: ClientTurn) -> str:
        """Why this client's privacy budget forbids it to draw, empty when it does not."""
        uploads = self.context.journal.uploads()
        refusal = self.context.spending().refusal(turn.client, turn.current.number, uploads)
        return f"this client: {refusal}" if refusal else ""

    def _alpha(self, turn: ClientTurn) -> bytes:
        """The VRF input of a draw: the round's seed on this ledger."""
        ledger, seed = self.context.ledger, self.context.view.seed(turn.current)
        return tree.draw_alpha(ledger.chain_id, ledger.address, turn.current.number, seed)

    def _is_drawn(self, turn: ClientTurn, alpha: bytes) -> bool:
        beta = vrf.proof_to_hash(vrf.prove(self.context.keys.vrf, alpha))
        return tree.is_drawn(beta, turn.current.opened.sampling_rate)

    def _samples(self, turn: ClientTurn) -> int:
        """What it states as its samples: 1 where all weigh the same."""
        weighs = self.context.method.codec.weighs_samples
        return self.context.work.samples(turn.current, turn.client) if weighs else 1


def resume(context: ClientContext, turn: ClientTurn) -> Step | None:
    """Take part again from the next round on, where the round's opening listed this client as idle; once a listing.

    None where it was not listed, or did so already.
    """
    opened, account = turn.current.opened, turn.member.account
    if account not in opened.barred or turn.member.bar(opened.opened_at):
        return None
    # The ledger's latest word, not the confirmed one: nothing is paid for again while it is being confirmed.
    if context.ledger.client_of(account).active_from > opened.opened_at:
        return None
    acted = "took part again, after the opening had listed it as idle"
    return context.outbox.send(turn.current, "resume", acted, context.ledger.resume)


def reason_to_leave(context: ClientContext, turn: ClientTurn) -> str:
    """Reason why a client that has drawn leaves the round, as in ``Step.waiting``; empty if it stays.

    Asked in each phase after the draw, as the journal can be lost at any time. A client that has committed stays,
    whoever else drew: its update is in the sum.
    """
    if context.journal.note(turn.current.number) is None:
        return "this client: its journal of the round is missing"
    if turn.current.sealed is None or turn.client in turn.current.commits:
        return ""
    alone = attendance_fault(context.view.rounds, turn.current, context.config)
    return f"its members: this client refuses the round, {alone}" if alone else ""
