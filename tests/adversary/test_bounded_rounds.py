"""Rounds whose updates have bounds, on an embedded chain with real roles."""

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Affirmed, Closed, Failed, Phase, Vouched
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.bounds import vouching
from fedgrove.node.masking.bounds.edges import SketchedMask, sketched_masks
from fedgrove.node.masking.bounds.sketch import Sketch
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.aggregation import recovery
from fedgrove.node.protocol.bounds_settings import BoundsSettings
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.opened import Opened
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.concluding import ReleaseShares
from fedgrove.node.roles.client.contributing import Commit, Publish
from fedgrove.node.roles.client.proving import Affirm, Vouch
from fedgrove.node.roles.client.role import Duty
from fedgrove.node.roles.disclosure import OrderAbandoned
from tests.node.federation import Federation, with_phase

MEMBERS = 6
QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
LEDGER = LedgerSettings(
    seed_delay=1,
    draw_window=20,
    share_window=20,
    commit_window=20,
    vouch_window=20,
    affirm_window=20,
    recover_window=32,
    coordinator_grace=4,
    stages=3,
)


def founded(network, directory, clients=MEMBERS, rounds=1, norm=0.5, **changes) -> Federation:
    """A federation with bounds on updates."""
    agreed = {"masking": MaskingSettings(masked="delta"), "bounds": BoundsSettings(norm)}
    agreed |= {"training": QUICK, "ledger": LEDGER}
    made = Federation.found(network, directory, clients, rounds, **{**agreed, **changes})
    made.register()
    return made


@pytest.fixture
def network():
    with embedded() as made:
        yield made


def test_an_honest_round_closes_and_is_verified(network, tmp_path):
    federation = founded(network, tmp_path)
    federation.run()
    assert len(federation.of(Closed)) == 1 and not federation.of(Failed), federation.log
    assert len(federation.of(Vouched)) == len(federation.of(Affirmed)) == MEMBERS
    verdict = federation.audit()
    assert verdict.verdict == "verified" and not verdict.remarks, verdict


# --- liars -----------------------------------------------------------------------------------------------------------

LIAR = 3
HUGE = 1 << 28


def monster(words: int) -> np.ndarray:
    """A vector that no honest update comes near: uint32 of shape (words,)."""
    vector = np.zeros(words, WORD)
    vector[:50] = HUGE
    return vector


def with_monster(upload: bytes) -> bytes:
    words = np.frombuffer(upload, WORD)
    return (words + monster(len(words))).tobytes()


class Monster(Client):
    """Uploads a monster, and vouches as it can."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        disclosure = self.context.disclosure
        mask, voucher = disclosure.mask, disclosure.voucher
        disclosure.mask = lambda *inputs: with_monster(mask(*inputs))
        disclosure.voucher = lambda *inputs: self.lying(lambda: voucher(*inputs))

    def lying(self, vouch: Callable[[], bytes]) -> bytes:
        return vouch()


class Forger(Monster):
    """Vouches for an innocent update, with a proof that is not of what it sent."""

    def lying(self, vouch):
        with patch.object(
            vouching, "_opened", lambda setting, position, upload, laid: ([0] * len(laid), [0] * len(laid))
        ):
            return vouch()


class Mask(Monster):
    """Says that one of its masks is the monster."""

    def place(self, keys: list[MaskKey]) -> int:
        return 0

    def lying(self, vouch):
        def sketched(sketch, keys):
            masks = sketched_masks(sketch, keys)
            at = self.place(keys)
            more = sketch.of(monster(sketch.length + sketch.metrics))
            signed = -more if keys[at].subtract else more
            masks[at] = SketchedMask(masks[at].values + signed, masks[at].blinding)
            return masks

        with patch.object(vouching, "sketched_masks", sketched):
            return vouch()


class Edge(Mask):
    """Says so of the mask that it shares with its first partner."""

    def place(self, keys):
        return 1


class EdgeToAbsent(Mask):
    """Says so of the mask that it shares with a partner that dropped out."""

    def place(self, keys):
        graph = self.context.inputs(self.view.rounds.last).graph
        return next(at for at, key in enumerate(keys) if key.pair and graph.client(key.pair[1]) == ABSENT)


class Sketcher(Monster):
    """Says that the sketch of its upload is that of one without the monster."""

    def lying(self, vouch):
        honest = Sketch.of

        def of(sketch, words):
            return honest(sketch, words - monster(len(words)))

        with patch.object(Sketch, "of", of):
            return vouch()


ABSENT = 6
EXPELLED = (Mask, Sketcher, EdgeToAbsent)
OUT = (Monster, Forger, Edge)


def played(network, directory, liar, **changes) -> Federation:
    federation = founded(network, directory, **changes)
    clients = federation.clients()
    clients[LIAR] = federation.client(LIAR, liar)
    if liar is EdgeToAbsent:
        clients[ABSENT] = federation.client(ABSENT, with_phase(Client, Duty.COMMIT, Silent))
    federation.run(clients=clients)
    return federation


class Silent(Commit):
    """Shares, and is never seen again in the round."""

    def act(self, turn):
        return turn.sit_out("it is away")


def summed(federation) -> tuple[RecoveryRecord, RoundInputs]:
    """The recovery record that the last closing names."""
    (closed,) = federation.of(Closed)
    stated = Metrics.from_bytes(federation.store.fetch(closed.metrics_digest, 1 << 20))
    rounds = Rounds.of(federation.records(), federation.config.ledger)
    place = federation.deployment.chain_id, federation.deployment.ledger
    inputs = method_of(federation.config).inputs(rounds, rounds.rounds[1], place, federation.store)
    return recovery(inputs, federation.store.fetch(bytes.fromhex(stated.recovery), 1 << 20)), inputs


@pytest.mark.parametrize("liar", OUT, ids=lambda each: each.__name__)
def test_who_cannot_prove_its_bounds_is_not_summed(liar, network, tmp_path):
    federation = played(network, tmp_path, liar)
    assert not federation.of(Failed), federation.log
    record, inputs = summed(federation)
    clients = {inputs.graph.client(position) for position in record.self_seeds}
    assert clients == set(range(1, MEMBERS + 1)) - {LIAR} and not record.expelled
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    assert {remark.client for remark in verdict.remarks} == (set() if liar is Monster else {LIAR}), verdict


@pytest.mark.parametrize("liar", EXPELLED, ids=lambda each: each.__name__)
def test_who_lied_about_a_mask_is_expelled_and_named_in_the_same_round(liar, network, tmp_path):
    federation = played(network, tmp_path, liar)
    assert not federation.of(Failed), federation.log
    record, inputs = summed(federation)
    assert [inputs.graph.client(position) for position in record.expelled] == [LIAR], federation.log
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    assert {remark.client for remark in verdict.remarks} == {LIAR}, verdict


class Chained(Client):
    """One of two colluders that tell the same lie about the mask which they share; the first lies about its own, too.

    Once the first is out, its opened key disproves the second.
    """

    ENDS = (LIAR, 5)

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        voucher = self.context.disclosure.voucher
        self.context.disclosure.voucher = lambda *inputs: self.lying(lambda: voucher(*inputs))

    def lying(self, vouch):
        current = self.view.rounds.last
        me = self.view.rounds.member(self.account).client
        partner = current.order.index(next(end for end in self.ENDS if end != me))

        def sketched(sketch, keys):
            masks = sketched_masks(sketch, keys)
            at = next(at for at, key in enumerate(keys) if key.pair is not None and key.pair[1] == partner)
            lie = (np.arange(sketch.width) == 0).astype(WORD)
            masks[at] = replace(masks[at], values=masks[at].values ^ lie)
            if me == self.ENDS[0]:
                masks[0] = replace(masks[0], values=masks[0].values ^ lie)
            return masks

        with patch.object(vouching, "sketched_masks", sketched):
            return vouch()


def chained(network, directory, stages: int, rounds: int = 1) -> Federation:
    federation = founded(network, directory, clients=8, ledger=replace(LEDGER, stages=stages), rounds=rounds)
    clients = federation.clients()
    clients |= {number: federation.client(number, Chained) for number in Chained.ENDS}
    federation.run(clients=clients)
    return federation


def test_a_chain_of_liars_is_expelled_one_stage_each(network, tmp_path):
    federation = chained(network, tmp_path, stages=2)
    assert not federation.of(Failed), federation.log
    record, inputs = summed(federation)
    assert {inputs.graph.client(position) for position in record.expelled} == {*Chained.ENDS}
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    assert {remark.client for remark in verdict.remarks} == {*Chained.ENDS}, verdict


def test_more_liars_than_stages_stop_a_round_and_nothing_is_blamed_on_others(network, tmp_path):
    federation = chained(network, tmp_path, stages=1)
    assert not federation.of(Closed) and len(federation.of(Failed)) == 1, federation.log
    assert federation.audit().verdict != "bad record", federation.audit()


# --- away, and back again --------------------------------------------------------------------------------------------


class HiddenUpdate(Publish):
    """Lists an update that nobody can have."""

    def act(self, turn):
        return None


class HiddenVoucher(Vouch):
    """Lists a voucher that nobody can have."""

    def _publish(self, turn):
        return None


class NoVoucher(Vouch):
    """Is away while members vouch."""

    def act(self, turn):
        return None


class NoVote(Affirm):
    """Is away while members affirm."""

    def act(self, turn):
        return None if turn.phase is Phase.RECOVER else turn.sit_out("it is away")


class NoRelease(ReleaseShares):
    """Is away while members release shares."""

    def act(self, turn):
        return turn.sit_out("it is away")


AWAY = {
    Duty.PUBLISH: (HiddenUpdate, False),
    Duty.VOUCH: (NoVoucher, False),
    Duty.AFFIRM: (NoVote, True),
    Duty.RELEASE: (NoRelease, True),
}


@pytest.mark.parametrize("duty", AWAY, ids=lambda duty: duty.value)
def test_who_is_away_costs_the_others_nothing(duty, network, tmp_path):
    unit, stays = AWAY[duty]
    assert_closes_without(with_phase(Client, duty, unit), network, tmp_path, stays)


def test_a_voucher_that_nobody_can_have_counts_for_nothing(network, tmp_path):
    assert_closes_without(with_phase(Client, Duty.VOUCH, HiddenVoucher), network, tmp_path, stays=False)


def assert_closes_without(kind, network, directory, stays: bool) -> None:
    federation = played(network, directory, kind)
    assert not federation.of(Failed) and len(federation.of(Closed)) == 1, federation.log
    record, inputs = summed(federation)
    clients = {inputs.graph.client(position) for position in record.self_seeds}
    assert clients == set(range(1, MEMBERS + 1)) - (set() if stays else {LIAR})
    assert federation.audit().verdict == "verified", federation.audit()


def test_every_step_survives_a_restart(network, tmp_path):
    federation = founded(network, tmp_path, clients=5)
    for _ in range(1000):
        if not federation.turn(federation.coordinator(), federation.clients()):
            break
    assert len(federation.of(Closed)) == 1 and not federation.of(Failed), federation.log
    assert federation.audit().verdict == "verified"


def test_a_stage_survives_a_restart(network, tmp_path):
    federation = founded(network, tmp_path, clients=5)
    for _ in range(1000):
        clients = {**federation.clients(), LIAR: federation.client(LIAR, Mask)}
        if not federation.turn(federation.coordinator(), clients):
            break
    record, _ = summed(federation)
    assert len(record.expelled) == 1
    assert federation.audit().verdict == "verified"


# --- another branch of the chain -------------------------------------------------------------------------------------


def upto(federation, said: str) -> tuple[dict[int, Client], RoundRecords]:
    """The clients when client 1 has done something, and the round."""
    coordinator, clients = federation.coordinator(), federation.clients()
    while not any(said in each for each in federation.said("client 1")):
        assert federation.turn(coordinator, clients), federation.log
    clients[1].view.refresh()
    return clients, clients[1].view.rounds.last


@pytest.fixture
def releasing(network, tmp_path):
    """A client that released shares, and its round."""
    clients, current = upto(founded(network, tmp_path), "released shares")
    return clients[2].context.disclosure, current


def test_nothing_is_released_under_another_sketch(releasing):
    disclosure, current = releasing
    disclosure.bind_sketch(current, current.sketch_hash)
    moved = {client: replace(each, block_hash=b"\1" * 32) for client, each in current.vouches.items()}
    other = replace(current, by_member={**current.by_member, Vouched: moved})
    with pytest.raises(OrderAbandoned):
        disclosure.released(other, 2, [])


def test_nothing_is_released_for_another_verdict(releasing):
    disclosure, current = releasing
    disclosure.released(current, 2, [])
    fewer = {client: each for client, each in current.affirmations.items() if client < 3}
    other = replace(current, by_member={**current.by_member, Affirmed: fewer})
    with pytest.raises(OrderAbandoned):
        disclosure.released(other, 2, [])


def test_one_voucher_a_round(network, tmp_path):
    clients, current = upto(founded(network, tmp_path), "affirmed")
    disclosure = clients[2].context.disclosure
    voucher = disclosure.voucher(current, 2, current.sketch_hash)
    assert disclosure.voucher(current, 2, current.sketch_hash) == voucher
    with pytest.raises(OrderAbandoned):
        disclosure.voucher(current, 2, b"\1" * 32)


# --- a second sum of one model ---------------------------------------------------------------------------------------


def opened(clients, named=(), number=1, model="00" * 32, further=0) -> Opened:
    return Opened(model, number, tuple(clients), tuple(named), further)


def test_a_second_sum_of_a_model_is_of_the_same_members():
    first = opened((1, 2, 3, 4), named=(4,))
    assert not opened((1, 2, 3, 4), number=2).fault(first, most=0)
    assert not opened((1, 2, 3), number=2).fault(first, most=0)
    assert "clients [3]" in opened((1, 2, 4), number=2).fault(first, most=0)
    assert "clients [5]" in opened((1, 2, 3, 4, 5), number=2).fault(first, most=0)
    assert not opened((1, 2), number=2, model="11" * 32).fault(first, most=0)


def test_further_sums_are_counted_for_life():
    first, second = opened((1, 2, 3)), opened((1, 2), number=2)
    assert not second.fault(first, most=1)
    assert second.after(first).further == 1
    assert opened((1,), number=3).fault(second.after(first), most=1)
    other = opened((1, 2, 3), number=3, model="11" * 32).after(second.after(first))
    assert other.further == 1
