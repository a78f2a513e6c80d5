"""Who lies about shares: a wrong share is thrown out alone, and its holder named; what an owner dealt is its fault."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.node.masking import recovery
from fedgrove.node.masking.keys import is_self_seed
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED
from fedgrove.node.masking.recovery import TooFewShares, _recover_one, recover
from fedgrove.node.masking.sealing import Kind
from tests.node.masking.liars import (
    Lists,
    another_salt,
    another_share,
    dealt,
    few_right,
    of_another_secret,
    random_shares,
    with_garbage,
)
from tests.node.masking.rounds import Round

N = 12
SHARERS = tuple(range(N))
SURVIVORS = tuple(range(N - 2))
OWNER = 4


@pytest.fixture(scope="module")
def work():
    return Round.make(N)


@pytest.fixture(scope="module")
def lists(work):
    return Lists(work.graph, SHARERS, SURVIVORS)


@pytest.fixture(scope="module")
def blobs(work):
    return {p: work.blob(p) for p in SHARERS}


@pytest.fixture(scope="module")
def releases(work, blobs):
    return {p: work.released(p, blobs, SURVIVORS) for p in SHARERS}


@pytest.fixture(scope="module")
def spare(work):
    """Holders of a client that may be missing: k − t."""
    return N - 1 - work.graph.threshold


# --- holders that lie -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lie", [another_share, another_salt])
def test_as_many_liars_as_holders_may_be_missing_change_nothing_and_are_named(work, lists, blobs, releases, spare, lie):
    liars = range(spare)
    wrong = releases | {liar: lists.lying(releases[liar], liar, lie) for liar in liars}
    assert work.recovered(blobs, SURVIVORS, wrong) == work.recovered(blobs, SURVIVORS, releases)
    assert lists.revealed(wrong, blobs).lying_holders(work.graph) == tuple(liars)


def test_a_wrong_share_is_thrown_out_alone(work, lists, blobs, releases):
    """The other shares of its holder count, and the other holders' shares of its owner."""
    wrong = releases | {1: lists.lying(releases[1], 1, owners=[OWNER])}
    revealed, honest = lists.revealed(wrong, blobs), lists.revealed(releases, blobs)
    for owner in SHARERS:
        kind = Kind.SEED if owner in SURVIVORS else Kind.KEY
        found = revealed.shares_of(work.graph, owner, kind)
        lost = {work.graph.holders[OWNER].index(1)} if owner == OWNER else set()
        assert set(found) == set(honest.shares_of(work.graph, owner, kind)) - lost
    assert revealed.lying_holders(work.graph) == (1,)


def test_one_liar_more_stops_the_round_without_blaming_an_owner(work, lists, blobs, releases, spare):
    liars = [holder for holder in work.graph.holders[OWNER]][: spare + 1]
    wrong = releases | {liar: lists.lying(releases[liar], liar, owners=[OWNER]) for liar in liars}
    with pytest.raises(TooFewShares, match="were released") as lack:
        work.recovered(blobs, SURVIVORS, wrong)
    assert lack.value.client == work.graph.client(OWNER) and not lack.value.owner_lied
    assert lists.revealed(wrong, blobs).lying_holders(work.graph) == tuple(liars)


def test_nobody_is_named_in_an_honest_round(work, lists, blobs, releases):
    revealed = lists.revealed(releases, blobs)
    assert revealed.lying_holders(work.graph) == ()
    assert not any(revealed.complaints(work.graph, owner) for owner in SHARERS)


def test_a_share_of_the_other_kind_is_no_share(work, lists, blobs, releases):
    """Who would open e of a survivor, or b of a dropout, releases nothing that parses."""
    data = bytearray(releases[0])
    data[56] ^= Kind.SEED ^ Kind.KEY
    assert 0 not in lists.revealed(releases | {0: bytes(data)}, blobs).releases


@settings(max_examples=30)
@given(st.data())
def test_any_lies_that_leave_enough_right_shares_change_nothing(work, lists, blobs, releases, spare, data):
    """Each owner has liars of its own: whoever lies about one owner may be right about the next."""
    wrong, liars = dict(releases), set()
    for owner in SHARERS:
        picked = st.lists(st.sampled_from(work.graph.holders[owner]), max_size=spare, unique=True)
        for holder in data.draw(picked):
            wrong[holder] = lists.lying(wrong[holder], holder, owners=[owner])
            liars.add(holder)
    assert work.recovered(blobs, SURVIVORS, wrong) == work.recovered(blobs, SURVIVORS, releases)
    assert set(lists.revealed(wrong, blobs).lying_holders(work.graph)) == liars


@pytest.mark.parametrize("liars", [3, 10, 49])
def test_in_a_round_of_a_hundred_shares_of_one_in_two_holders_may_be_wrong(liars):
    work, everybody = Round.make(100), range(100)
    assert len(work.graph.holders[0]) - work.graph.threshold == 49
    owners = (0, 99)
    blobs = {p: work.blob(p) for p in owners}
    lists = Lists(work.graph, everybody, everybody)
    releases = {p: work.released(p, blobs, everybody, sharers=everybody) for p in range(1, 99)}
    wrong = releases | {p: lists.lying(releases[p], p) for p in range(1, liars + 1)}
    revealed = lists.revealed(wrong, blobs)
    assert revealed.lying_holders(work.graph) == tuple(range(1, liars + 1))
    for owner in owners:
        assert len(revealed.shares_of(work.graph, owner, Kind.SEED)) == 98 - liars


# --- owners that deal garbage -----------------------------------------------------------------------------------------


def dealing(work, blobs, deal) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Blobs and releases of a round in which one owner deals other shares."""
    dealing = blobs | {OWNER: dealt(work, OWNER, deal)}
    return dealing, {p: work.released(p, dealing, SURVIVORS) for p in SHARERS}


@pytest.mark.parametrize("deal", [random_shares, of_another_secret])
def test_an_owner_whose_committed_shares_give_no_secret_of_its_is_named_and_no_holder(work, lists, blobs, deal):
    """All its holders find what it committed to, and release it: it has committed itself to the lie."""
    wrong, releases = dealing(work, blobs, deal)
    revealed = lists.revealed(releases, wrong)
    assert revealed.lying_holders(work.graph) == () and not revealed.complaints(work.graph, OWNER)
    with pytest.raises(TooFewShares, match="committed to do not yield its secret") as lack:
        work.recovered(wrong, SURVIVORS, releases)
    assert lack.value.client == work.graph.client(OWNER) and lack.value.owner_lied


def test_enough_shares_that_agree_recover_the_secret_whatever_the_others_are(work, blobs, spare):
    """Few enough are wrong to be corrected: the round goes on, as the secret is the ledger's."""
    wrong, releases = dealing(work, blobs, few_right(N - 1 - spare // 2))
    assert work.recovered(wrong, SURVIVORS, releases).self_seeds[OWNER] == work.secrets[OWNER].self_seed


@pytest.mark.parametrize("count", range(N))
def test_garbage_for_as_many_holders_as_could_not_all_collude_is_the_owners_fault(work, lists, blobs, spare, count):
    """For few the round goes on; for some more it fails, and who lies is open: complaints cost holders nothing."""
    garbage = blobs | {OWNER: with_garbage(blobs[OWNER], range(count))}
    releases = {p: work.released(p, garbage, SURVIVORS) for p in SHARERS}
    revealed = lists.revealed(releases, garbage)
    assert revealed.complaints(work.graph, OWNER) == count and not revealed.lying_holders(work.graph)
    if count <= spare:
        assert work.recovered(garbage, SURVIVORS, releases).self_seeds[OWNER] == work.secrets[OWNER].self_seed
        return
    with pytest.raises(TooFewShares) as lack:
        work.recovered(garbage, SURVIVORS, releases)
    assert lack.value.client == work.graph.client(OWNER)
    assert lack.value.owner_lied == (count >= work.graph.threshold)
    assert (f"{count} of 11 holders received no usable share" in str(lack.value)) == lack.value.owner_lied


@pytest.mark.parametrize("absent", [False, True])
def test_a_blob_that_is_withheld_or_no_blob_is_the_owners_fault(work, lists, blobs, absent):
    """Its digest is on the ledger, so it is among those who shared."""
    known = {p: blob for p, blob in blobs.items() if p != OWNER or not absent}
    known |= {} if absent else {OWNER: b"nonsense"}
    releases = {p: work.released(p, known, SURVIVORS, sharers=SHARERS) for p in SHARERS}
    assert lists.revealed(releases, known).complaints(work.graph, OWNER) == N - 1
    with pytest.raises(TooFewShares, match="11 of 11 holders received no usable share from client 14") as lack:
        recover(work.graph, SHARERS, SURVIVORS, work.seed_hashes(SURVIVORS), releases, known)
    assert lack.value.client == work.graph.client(OWNER) and lack.value.owner_lied


@pytest.mark.parametrize("n", [*range(4, 33), 60, 100])
def test_holders_that_complain_make_no_honest_owner_a_liar(n):
    """As many as the terms assume to collude; in some rounds they are enough to stop it."""
    work, everybody, owner = Round.make(n), range(n), n - 1
    blobs = {owner: work.blob(owner)}
    lists = Lists(work.graph, everybody, everybody)
    colluders = work.graph.holders[owner][: DEFAULT_ASSUMED.colluders_of(n)]
    releases = {p: work.released(p, blobs, everybody, everybody) for p in work.graph.holders[owner]}
    wrong = releases | {p: lists.complaining(releases[p], p, [owner]) for p in colluders}
    seed_hash = work.seed_hashes([owner])[owner]
    revealed = lists.revealed(wrong, blobs)
    assert revealed.complaints(work.graph, owner) == len(colluders)
    try:
        seed = _recover_one(work.graph, owner, Kind.SEED, revealed, lambda secret: is_self_seed(secret, seed_hash))
    except TooFewShares as lack:
        assert len(colluders) > len(work.graph.holders[owner]) - work.graph.threshold
        assert not lack.owner_lied
    else:
        assert seed == work.secrets[owner].self_seed


def test_complaints_together_with_lies_do_not_blame_the_owner(work, lists, blobs, releases, spare):
    """Too few shares are left, but no more holders than may be missing say that the owner is at fault."""
    wrong = dict(releases)
    for place, holder in enumerate(work.graph.holders[OWNER][: spare + 2]):
        lie = lists.complaining if place < spare else lists.lying
        wrong[holder] = lie(releases[holder], holder, owners=[OWNER])
    with pytest.raises(TooFewShares) as lack:
        work.recovered(blobs, SURVIVORS, wrong)
    assert not lack.value.owner_lied


def test_a_seed_hash_that_no_shares_fit_is_the_owners_lie(work, blobs, releases):
    hashes = work.seed_hashes(SURVIVORS) | {3: bytes(32)}
    with pytest.raises(TooFewShares, match="client 11 committed to do not yield its secret") as lack:
        recover(work.graph, SHARERS, SURVIVORS, hashes, releases, blobs)
    assert lack.value.owner_lied


# --- the mend taken out -----------------------------------------------------------------------------------------------


@pytest.mark.mutants
def test_without_commitments_a_few_liars_stop_the_round_and_nobody_is_named(
    work, lists, blobs, releases, spare, monkeypatch
):
    """Half of the spare shares can be corrected; one liar more, and the owner would look like the liar."""
    monkeypatch.setattr(recovery, "is_committed", lambda *_: True)
    monkeypatch.setattr(
        "fedgrove.node.masking.shamir._MAX_SUBSETS", 0
    )  # in a round of this size all subsets could be tried
    liars = range(spare // 2 + 1)
    wrong = releases | {liar: lists.lying(releases[liar], liar) for liar in liars}
    with pytest.raises(TooFewShares) as lack:
        work.recovered(blobs, SURVIVORS, wrong)
    assert lack.value.owner_lied
    assert lists.revealed(wrong, blobs).lying_holders(work.graph) == ()
