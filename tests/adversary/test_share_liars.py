"""Members that lie about shares.

Holders release other shares than they were given, to stop rounds for good, or to have an owner called a liar. Owners
deal shares that recover nothing, to have their holders called liars. Holders call shares bad that are not. Colluding
holders put their shares together, alone or with what honest holders release for two different lists of survivors, to
read an update. What stops them: every share is committed to, so that a wrong one is thrown out alone and its holder is
known; an owner is known by shares that it committed to and that give no secret of its, or by more complaints than there
are colluders; and recovery takes more shares than colluders have.
"""

from collections.abc import Collection
from dataclasses import dataclass

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed
from fedgrove.node.audit.verdict import BadRecord
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking import recovery
from fedgrove.node.masking.keys import is_mask_secret
from fedgrove.node.masking.opening import open_update
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, Sharing, sharing
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.release import held_shares
from fedgrove.node.masking.ring import encode
from fedgrove.node.masking.sealing import Kind
from fedgrove.node.masking.shamir import combine, recover_secret, split
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.roles.client import Client
from tests.node.federation import Federation
from tests.node.masking.liars import Deal, Lists, few_right, of_another_secret, random_shares
from tests.node.masking.rounds import Round

QUICK = TrainingSettings(epochs=1, batch_size=30, learning_rate=0.05)
MEMBERS = 20
HOLDERS, THRESHOLD = 19, 13
SPARE = HOLDERS - THRESHOLD
"""So many holders of a client may be missing, or lie."""
SLANDERERS = range(1, 6)


# --- in a federation --------------------------------------------------------------------------------------------------


class ShareLiar(Client):
    """Releases another share of everybody than it was given; to others its release looks as it should."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        honestly = self.context.disclosure._release
        self.context.disclosure._release = lambda inputs, client, *rest: self._lie(
            self._lists(inputs.current), honestly(inputs, client, *rest), inputs.current.order.index(client)
        )

    def _lie(self, lists: Lists, blob: bytes, position: int) -> bytes:
        return lists.lying(blob, position)

    def _lists(self, current: RoundRecords) -> Lists:
        inputs = self.context.inputs(current)
        return Lists(inputs.graph, inputs.sharers, inputs.survivors)


class Slanderer(ShareLiar):
    """Says of one honest client that what it shared is garbage."""

    victim = 16

    def _lie(self, lists: Lists, blob: bytes, position: int) -> bytes:
        victim = next(each.position for each in lists.graph.participants if each.client == self.victim)
        return lists.complaining(blob, position, [victim])


class Dealer(Client):
    """Deals other shares than those of its secrets, and commits to them."""

    deal: Deal = staticmethod(random_shares)

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        honestly = self.context.disclosure.shares

        def shares(current, client):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("fedgrove.node.masking.sealing.split", lambda *inputs: self.deal(split(*inputs)))
                return honestly(current, client)

        self.context.disclosure.shares = shares


class OtherDealer(Dealer):
    """Deals shares that agree with each other, of another secret."""

    deal = staticmethod(of_another_secret)


class FramingDealer(Dealer):
    """Deals one right share too few: whoever has most of them could think that the other holders lied."""

    deal = staticmethod(few_right(THRESHOLD - 1))


@dataclass
class Played:
    """What a federation came to with some members replaced."""

    records: list
    remarks: list[BadRecord]
    verdict: str

    def of(self, kind: type) -> list:
        return [record for record in self.records if isinstance(record, kind)]

    def named(self, field: str) -> set[int]:
        return {remark.client for remark in self.remarks if remark.field == field} - {None}


def played(directory, kinds: dict[int, type[Client]], members: int = MEMBERS) -> Played:
    """A federation until its first round has ended."""
    with embedded() as network:
        federation = Federation.found(network, directory, members, rounds=1, training=QUICK)
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        for number, kind in kinds.items():
            clients[number] = federation.client(number, kind)
        while coordinator.round <= 1 and federation.turn(coordinator, clients):
            pass
        verdict = federation.audit()
        records = federation.history().records()
        return Played(records, verdict.remarks, verdict.verdict)


@pytest.mark.parametrize("liars", [4, SPARE])
def test_holders_that_lie_spoil_their_own_shares_and_are_named(tmp_path, liars):
    """More than could be corrected without commitments, up to as many as may be missing."""
    found = played(tmp_path, dict.fromkeys(range(1, liars + 1), ShareLiar))
    assert len(found.of(Closed)) == 1 and not found.of(Failed)
    assert found.verdict == "verified"
    assert found.named("release.content") == set(range(1, liars + 1)) and len(found.remarks) == liars


def test_more_liars_stop_a_round_and_are_named_and_nobody_else(tmp_path):
    liars = set(range(1, SPARE + 2))
    found = played(tmp_path, dict.fromkeys(liars, ShareLiar))
    assert len(found.of(Failed)) == 1 and not found.of(Closed)
    assert found.named("release.content") == liars == {remark.client for remark in found.remarks}


@pytest.mark.parametrize("dealer", [Dealer, OtherDealer, FramingDealer], ids=lambda each: each.__name__)
def test_an_owner_that_deals_garbage_is_named_and_none_of_its_holders(tmp_path, dealer):
    found = played(tmp_path, {7: dealer})
    assert len(found.of(Failed)) == 1 and not found.of(Closed)
    (remark,) = found.remarks
    assert remark.client == 7 and "client 7 committed to do not yield its secret" in remark.reason


def test_colluders_that_complain_do_not_make_a_liar_of_an_honest_client(tmp_path):
    """Five of sixteen, as many as the terms assume, and one more than holders may be missing: they stop the round."""
    found = played(tmp_path, dict.fromkeys(SLANDERERS, Slanderer), members=16)
    assert len(found.of(Failed)) == 1 and not found.of(Closed)
    assert not found.remarks


# --- the mend taken out -----------------------------------------------------------------------------------------------


@pytest.fixture
def no_commitments(monkeypatch):
    """Any share counts, as before; a few wrong ones are corrected."""
    monkeypatch.setattr(recovery, "is_committed", lambda *_: True)


@pytest.mark.mutants
def test_without_commitments_liars_stop_the_round_and_an_honest_owner_is_blamed(tmp_path, no_commitments):
    liars = set(range(1, SPARE // 2 + 2))
    found = played(tmp_path, dict.fromkeys(liars, ShareLiar))
    assert len(found.of(Failed)) == 1 and not found.of(Closed)
    (remark,) = found.remarks
    assert "committed to do not yield its secret" in remark.reason and remark.client not in liars


@pytest.mark.mutants
def test_if_as_many_complaints_as_stop_a_round_blamed_the_owner_an_honest_one_would_be(tmp_path, monkeypatch):
    spare = 15 - terms(16).threshold
    monkeypatch.setattr(recovery, "_is_owners_fault", lambda graph, complaints: complaints > spare)
    found = played(tmp_path, dict.fromkeys(SLANDERERS, Slanderer), members=16)
    assert {remark.client for remark in found.remarks} == {Slanderer.victim}


@pytest.mark.mutants
def test_if_the_audit_took_any_lack_for_the_owners_fault_holders_would_have_it_blamed(tmp_path, monkeypatch):
    monkeypatch.setattr(recovery, "_is_owners_fault", lambda graph, complaints: True)
    found = played(tmp_path, dict.fromkeys(range(1, SPARE + 2), ShareLiar))
    assert found.named("share.content")  # whoever it is: all of them shared as they should


# --- colluding holders ------------------------------------------------------------------------------------------------


def openings(work: Round, blobs: dict[int, bytes], owner: int, holders: Collection[int], kind: Kind) -> dict[int, int]:
    """What these holders have of an owner's secret, by their place among its holders."""
    place = {holder: index for index, holder in enumerate(work.graph.holders[owner])}
    held = {holder: held_shares(work.graph, holder, work.secrets[holder], blobs) for holder in holders}
    return {place[holder]: each.shares[owner][kind].share for holder, each in held.items()}


@pytest.mark.parametrize("n", [8, 20, 32, 60])
@pytest.mark.parametrize("kind", Kind)
def test_holders_below_the_threshold_open_nothing(n, kind):
    """Not even with the ledger's hash or key, against which every guess can be tried; one more, and they do."""
    work, owner = Round.make(n), n - 1
    secret = work.secrets[owner].self_seed if kind == Kind.SEED else work.secrets[owner].mask_secret
    blobs, threshold = {owner: work.blob(owner)}, work.graph.threshold
    shares = openings(work, blobs, owner, work.graph.holders[owner][:threshold], kind)
    fewer = dict(list(shares.items())[:-1])

    def right(value: int) -> bool:
        return value == int.from_bytes(secret)

    assert recover_secret(fewer, threshold, right) is None
    assert not right(combine(fewer))
    assert recover_secret(shares, threshold, right) == int.from_bytes(secret)


# --- two lists of survivors -------------------------------------------------------------------------------------------


def read_by_two_lists(work: Round, colluders: int) -> bool:
    """Whether a coordinator that shows honest holders two lists of survivors reads an update, with so many colluders.

    On one list the victim survived, on the other it dropped out: half of the honest holders release shares of its
    self-mask seed, the others of its mask secret; colluding holders give away both.
    """
    n, victim = work.graph.n, 0
    everybody, without = range(n), range(1, n)
    blobs = {victim: work.blob(victim)}
    holders = work.graph.holders[victim]
    bad, honest = holders[:colluders], holders[colluders:]
    released = {Kind.SEED: set(honest[::2]), Kind.KEY: set(honest[1::2])}
    found = {}
    for kind, survivors in ((Kind.SEED, everybody), (Kind.KEY, without)):
        parsed = Lists(work.graph, everybody, survivors).revealed(
            {p: work.released(p, blobs, survivors, everybody) for p in released[kind]}, blobs
        )
        shares = parsed.shares_of(work.graph, victim, kind)
        shares |= openings(work, blobs, victim, bad, kind)
        found[kind] = recover_secret(
            shares, work.graph.threshold, lambda value, kind=kind: is_secret(work, victim, kind, value)
        )
    if None in found.values():
        return False
    seed, key = (found[kind].to_bytes(32) for kind in Kind)
    record = RecoveryRecord(bytes(32), {victim: seed}, {})
    opened = open_update(work.graph, victim, {victim: key}, everybody, record, work.masked(victim, everybody))
    samples = work.graph.participants[victim].samples
    bare = encode(work.vectors[victim], work.layout, samples, work.graph.total_samples, work.bound)
    return bool((opened == bare).all())


def is_secret(work: Round, owner: int, kind: Kind, value: int) -> bool:
    if value >= 1 << 256:
        return False
    if kind == Kind.KEY:
        return is_mask_secret(value.to_bytes(32), work.graph.participants[owner].mask_key)
    return value.to_bytes(32) == work.secrets[owner].self_seed


SHARINGS = {
    "8 clients, default": (8, sharing(8, DEFAULT_ASSUMED)),
    "20 clients, default": (20, sharing(20, DEFAULT_ASSUMED)),
    "32 clients, default": (32, sharing(32, DEFAULT_ASSUMED)),
    "60 clients, default": (60, sharing(60, DEFAULT_ASSUMED)),
    "20 clients, two thirds": (20, Sharing(19, int(19 * 2 / 3) + 1)),
    "20 clients, one half": (20, Sharing(19, int(19 / 2) + 1)),
    "20 clients, nine tenths": (20, Sharing(19, int(19 * 0.9) + 1)),
}


@pytest.mark.parametrize("which", SHARINGS)
def test_two_lists_are_of_use_beyond_the_bound_only(which):
    """Up to 2t − k − 1 colluding holders gain nothing; one more reads the victim's update, bit for bit."""
    n, shares = SHARINGS[which]
    bound = max(0, 2 * shares.threshold - shares.holders - 1)
    work = Round.make(n, mode="pairwise", shares=shares)
    if bound:
        assert not read_by_two_lists(work, bound)
    assert read_by_two_lists(work, bound + 1)


def test_by_default_two_lists_gain_a_third_of_a_small_round_nothing_and_one_colluder_of_a_large_one_all():
    """In larger rounds it must not happen that members see different chains."""
    bounds = {n: 2 * found.threshold - found.holders - 1 for n in (8, 20, 32, 33, 60, 100) for found in [terms(n)]}
    assert bounds == {8: 2, 20: 6, 32: 10, 33: 1, 60: 0, 100: 0}


def terms(n: int) -> Sharing:
    return sharing(n, DEFAULT_ASSUMED)


def test_the_figures_of_this_file():
    assert terms(MEMBERS) == Sharing(HOLDERS, THRESHOLD)
    assert DEFAULT_ASSUMED.colluders_of(MEMBERS) == SPARE == 6
    assert DEFAULT_ASSUMED.colluders_of(16) == len(SLANDERERS) == 15 - terms(16).threshold + 1
