"""A client concludes: it releases shares, and judges what the round came to."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.records import Closed, Phase, Replaced
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.closing import Result
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.step import Kind
from fedgrove.node.roles.client.concluding import NOTHING, Judge, ReleaseShares, lot
from tests.node.roles.fakes import DEADLINES, ME, Events, client_turn_at, context_with, entry_with, view_at

# --- A client releases shares when the commitments are final, and publishes only what the ledger lists ----------------


SHARES = b"released"


class Releasing:
    """A client in a round of two, both of which committed; the ledger lists its release once it is ``mined``."""

    def __init__(self, gone=(), released=SHARES, mined=True, refuses=(), releases=(), commits=(ME,), judged=()):
        self.events = Events()
        self.current = entry_with(draws=(ME, 2), shares=(ME, 2), commits=commits, releases=releases)
        self.current.judgements(Phase.RECOVER).update(dict.fromkeys(judged))
        if ME in releases:
            self.current.releases[ME].digest = cid_of(SHARES).digest
        self.context = context_with(
            self.events,
            view_at(52, rounds=Rounds(), refresh=self._refresh if mined else lambda: None),
            refuses=refuses,
            journal=SimpleNamespace(count_release=self.events.noting("count")),
            disclosure=SimpleNamespace(
                unpublished=lambda current, client: list(gone),
                released=self.events.noting("journal", released),
                listed_release=lambda current, client: SHARES,
            ),
        )
        self.unit = ReleaseShares(self.context)

    def _refresh(self):
        if "release" in self.events.names():
            self.current.releases[ME] = SimpleNamespace(digest=cid_of(SHARES).digest)

    def act(self, block=52):
        return self.unit.act(client_turn_at(block, self.current))


def test_it_waits_until_the_list_of_commitments_is_final():
    place = Releasing()
    step = place.act(block=DEADLINES.commit_end - 1)
    assert (step.phase, step.waiting, step.until) == ("commit", "client 2 to commit", DEADLINES.commit_end)
    assert not place.events


def test_shares_are_in_the_journal_then_on_the_ledger_then_in_the_store():
    place = Releasing()
    step = place.act()
    assert (step.phase, step.acted) == ("recover", "released shares")
    assert place.events.names() == ["journal", "release", "count", "put"]
    assert place.events[1] == ("release", 1, cid_of(SHARES).digest, bytes(32))


@pytest.mark.parametrize("place", [{"mined": False}, {"mined": False, "refuses": ("release",)}])
def test_what_the_ledger_does_not_list_stays_at_home(place):
    place = Releasing(**place)
    place.act()
    assert place.events.names() == ["journal", "release"]


def test_what_is_listed_is_published_once_also_after_a_crash():
    place = Releasing(releases=(ME,))
    assert place.act().acted == "published the shares that it released"
    step = place.act()
    assert (step.phase, step.acted, step.until) == ("close", "", DEADLINES.recover_end)
    assert place.events.names() == ["count", "put"]


def test_it_gives_others_half_of_the_window_to_publish():
    place = Releasing(gone=(2,))
    patience = DEADLINES.commit_end + place.context.view.settings.recover_window // 2
    step = place.act(block=patience - 1)
    assert (step.waiting, step.until) == ("client 2 to publish their committed updates", patience)
    assert step.kind is Kind.FETCHES
    assert not place.events
    assert place.act(block=patience).acted == "released shares"
    assert place.events[0][-1] == [2]


def test_what_would_expose_somebody_is_not_released_but_judged():
    place = Releasing(released=MaskingRefused("too few are left"))
    step = place.act()
    said = "this client releases no shares, too few are left"
    assert (step.phase, step.acted) == ("judge", f"judged that nothing may be summed: {said}")
    assert place.events.names() == ["journal", "judge"]
    assert place.events[-1] == ("judge", 1, Phase.RECOVER, NOTHING, NOTHING)


@pytest.mark.parametrize(
    "options",
    [{"commits": (2,)}, {"judged": (ME,)}, {"releases": (2, 3)}],
    ids=["it did not commit", "it has judged", "enough have released"],
)
def test_where_its_judgement_would_not_be_taken_it_only_waits(options):
    place = Releasing(released=MaskingRefused("too few are left"), **options)
    step = place.act()
    assert step.waiting == "other members: this client releases no shares, too few are left"
    assert step.until == DEADLINES.recover_end and place.events.names() == ["journal"]


@pytest.mark.parametrize(
    ("confirmed", "fault", "found", "releases"),
    [(True, "", False, True), (False, "", True, True), (False, "", False, False), (False, "it is wrong", True, False)],
    ids=["others confirm it", "this client recomputed it", "nobody says anything", "it is wrong"],
)
def test_it_releases_only_on_a_model_that_it_or_enough_others_found_right(confirmed, fault, found, releases):
    place = Releasing()
    base = entry_with(0, end=object.__new__(Closed))
    base.once[Replaced] = CLOSING
    place.context.view.rounds.rounds[0] = base
    place.context.closings = SimpleNamespace(
        is_confirmed=lambda current: confirmed,
        fault=lambda current, client, block: fault,
        is_found_right=lambda current: found,
    )
    step = place.act()
    assert ("release" in place.events.names()) is releases
    assert releases or "other members to confirm the closing of round 0" in step.waiting


def test_it_releases_nothing_for_a_round_that_is_overdue():
    place = Releasing()
    step = place.act(block=DEADLINES.recover_end)
    assert "overdue" in step.waiting and not place.events


# --- A client judges the closed round that it would train from when that is wrong -------------------------------------


RIGHT = Result(b"model", b"metrics", b"record")
OTHER = (b"o" * 32, b"p" * 32)
WINDOW_END = 16
HELD = b"a model that the store has"
CLOSING = SimpleNamespace(model_digest=cid_of(HELD).digest, metrics_digest=b"s" * 32)


class Judging:
    """A round that closed, and of which ``fault`` is said; ``right`` is what it should have come to.

    ``own`` are the digests of what this client judged before; ``held`` says whether the store has the closing's model.
    """

    def __init__(self, fault="", commits=(ME, 2), releases=(ME,), right=RIGHT, own=None, held=True):
        self.events = Events()
        parts = {"draws": (ME, 2), "commits": commits, "releases": releases}
        self.base = entry_with(1, **parts, end=object.__new__(Closed)) if commits is not None else None
        if self.base is not None:
            self.base.once[Replaced] = CLOSING
        if own is not None:
            self.base.judgements(Phase.CLOSED)[ME] = SimpleNamespace(model_digest=own[0], metrics_digest=own[1])
        closings = SimpleNamespace(
            fault=lambda base, client=0, certainly=False, block=0: look(base, client, certainly),
            right_result=self.events.noting("right", right),
            right_model=lambda base: HELD,
        )
        look = self.events.noting("look", fault)
        settings = {"seed_delay": DEADLINES.seed_block, "draw_window": WINDOW_END - DEADLINES.seed_block}
        rounds = Rounds(rounds={1: self.base} if self.base is not None else {})
        view = view_at(5, settings=settings, rounds=rounds, refresh=lambda: None)
        disclosure = SimpleNamespace(
            unpublished=lambda current, client: [], released=self.events.noting("journal", SHARES)
        )
        config = SimpleNamespace(max_blob_bytes=1 << 20)
        self.context = context_with(self.events, view, closings=closings, disclosure=disclosure, config=config)
        if held:
            self.context.store.blobs[CLOSING.model_digest] = HELD
        self.unit = Judge(self.context)

    def act(self, block=5, number=2):
        return self.unit.act(client_turn_at(block, entry_with(number)))

    def in_its_round(self, block):
        """The turn in which the judged round is still the latest."""
        return self.unit.act(client_turn_at(block, self.base))

    def confirm(self):
        return self.unit.confirm(client_turn_at(5, self.base))


def test_a_round_that_is_right_is_no_reason_to_stop():
    place = Judging()
    assert place.act() is None and place.events == [("look", place.base, ME, False)]


def test_a_model_that_nobody_has_is_recomputed_and_published():
    place = Judging(held=False)
    for _ in range(2):
        assert place.act() is None
    assert place.events == [("look", place.base, ME, True), ("put", HELD), ("look", place.base, ME, False)]


def test_before_the_first_round_closed_there_is_nothing_to_look_at():
    place = Judging(commits=None)
    assert place.act() is None and not place.events


def test_a_wrong_round_is_judged_with_what_is_right():
    place = Judging(fault="its model is not the sum")
    step = place.act()
    assert (step.phase, step.kind) == ("judge", Kind.JUDGED)
    assert step.acted == "judged round 1 wrong: its model is not the sum"
    assert place.events.names() == ["look", "right", "put", "put", "put", "judge"]
    assert place.events[-1] == ("judge", 1, Phase.CLOSED, cid_of(b"model").digest, cid_of(b"metrics").digest)
    assert place.context.store.has(cid_of(b"record").digest)


def test_a_wrong_round_that_came_to_nothing_is_judged_with_zeros_once_no_shares_can_come():
    place = Judging(fault="its model is not the sum", right=None)
    step = place.act(block=DEADLINES.recover_end - 1)
    assert (step.acted, step.until) == ("", DEADLINES.recover_end) and "judge" not in place.events.names()
    place.act(block=DEADLINES.recover_end)
    assert place.events[-1] == ("judge", 1, Phase.CLOSED, NOTHING, NOTHING)


def test_shares_are_released_behind_a_wrong_closing_while_the_ledger_takes_them():
    place = Judging(fault="its model is not the sum", releases=())
    assert place.in_its_round(52).acted == "released shares"
    assert place.act(52).acted == "released shares"  # when the next round runs, too
    assert place.in_its_round(DEADLINES.recover_end).phase == "judge"


def test_who_saw_no_result_goes_on_from_one_that_others_put_in_place():
    place = Judging(own=(NOTHING, NOTHING))
    assert place.act() is None


@pytest.mark.parametrize(("proven", "follows"), [(True, True), (False, False)])
def test_who_saw_no_result_says_the_one_that_another_proves_and_looks_for_none_itself(proven, follows):
    place = Judging(own=(NOTHING, NOTHING), fault="it is wrong")
    place.base.judgements(Phase.CLOSED)[2] = SimpleNamespace(model_digest=OTHER[0], metrics_digest=OTHER[1])
    place.context.closings.rank = lambda base, judged: (0, *OTHER) if proven else None
    step = place.act(block=DEADLINES.recover_end)
    assert ("judge", 1, Phase.CLOSED, *OTHER) in place.events if follows else "has another result" in step.waiting
    assert "right" not in place.events.names()


@pytest.mark.parametrize(
    ("left_out", "others", "own", "follows"),
    [(1, 0, None, True), (0, 1, None, False), (1, 0, True, True), (0, 0, True, False)],
    ids=["others lack fewer cells", "it lacks fewer", "it said what lacks more", "it said what lacks none"],
)
def test_of_proven_results_that_without_the_fewest_cells_is_said(left_out, others, own, follows):
    result = replace(RIGHT, left_out=left_out)
    said = {ME: result.rank, 2: (others, *OTHER)}
    if own and not follows:
        said[2] = max(said.values())  # as good by count, and behind by its digests
    place = Judging(fault="its model is not the sum", right=result, own=result.rank[1:] if own else None)
    place.base.judgements(Phase.CLOSED)[2] = SimpleNamespace(model_digest=OTHER[0], metrics_digest=OTHER[1])
    ranks = {rank[1:]: rank for rank in said.values()}
    place.context.closings.rank = lambda base, judged: ranks.get((judged.model_digest, judged.metrics_digest))
    step = place.act(block=DEADLINES.recover_end)
    judged = [event for event in place.events if event[0] == "judge"]
    if own and not follows:
        assert not judged and "round 1 has another result" in step.waiting
    else:
        assert judged == [("judge", 1, Phase.CLOSED, *(OTHER if follows else result.rank[1:]))]


def test_a_result_that_lacks_a_cell_is_not_said_while_shares_may_come():
    place = Judging(fault="its model is not the sum", right=replace(RIGHT, left_out=1))
    assert "to release shares" in place.act(block=DEADLINES.recover_end - 1).waiting
    assert place.act(block=DEADLINES.recover_end).kind is Kind.JUDGED


def test_a_judgement_that_the_ledger_refused_is_sent_again_when_others_say_the_same():
    place = Judging(fault="it is wrong", own=(NOTHING, NOTHING))
    place.context.closings.rank = lambda base, judged: (0, *OTHER)
    place.context.ledger.judge = refused = Mock(side_effect=ContractRevert("nobody says so"))
    for client in (2, 3):
        place.base.judgements(Phase.CLOSED)[client] = SimpleNamespace(model_digest=OTHER[0], metrics_digest=OTHER[1])
        for _ in range(2):
            assert "nobody says so" in place.act(block=DEADLINES.recover_end).waiting
    assert refused.call_count == 2


def test_a_client_that_did_not_commit_waits_for_those_that_did():
    place = Judging(fault="its model is not the sum", commits=(2,))
    step = place.act()
    assert "members of round 1: this client refuses its model" in step.waiting
    assert place.events.names() == ["look"]


@pytest.mark.parametrize(("fault", "goes_on"), [("", True), ("its model is not the sum", False)])
def test_a_client_goes_on_from_an_earlier_round_that_it_judged_otherwise_where_others_put_it_right(fault, goes_on):
    place = Judging(fault=fault, own=OTHER)
    later = entry_with(2, draws=(2, 3), commits=(2, 3), end=object.__new__(Closed))
    later.once[Replaced] = CLOSING
    place.context.view.rounds.rounds[2] = later
    step = place.act(number=3)
    assert step is None if goes_on else "round 1 has another result" in step.waiting


def test_a_client_that_judged_otherwise_waits_and_computes_nothing():
    place = Judging(fault="its model is not the sum", own=OTHER)
    place.context.closings.rank = lambda base, judged: (0, *OTHER)
    assert "this client judges that round 1 has another result" in place.act().waiting
    assert place.events.names() == ["look"]


@pytest.mark.parametrize(("number", "end"), [(2, WINDOW_END), (1, DEADLINES.recover_end)])
def test_a_model_that_cannot_be_had_is_waited_for_and_then_refused(number, end):
    place = Judging(fault=NotFound(cid_of(b"model"), "nobody has it"))
    with pytest.raises(NotFound):
        place.act(block=end - 1, number=number)
    step = place.act(block=end, number=number)
    assert step.acted.startswith("judged round 1 wrong: ") and "nobody has it" in step.acted


def test_the_last_closing_is_confirmed_by_those_that_committed_and_recomputed_it():
    place = Judging()
    assert place.confirm().acted == "confirmed the closing of round 1"
    assert place.events.names() == ["look", "judge"]
    assert place.events[-1] == ("judge", 1, Phase.CLOSED, CLOSING.model_digest, CLOSING.metrics_digest)


@pytest.mark.parametrize(
    "options",
    [{"commits": (2,)}, {"own": (CLOSING.model_digest, CLOSING.metrics_digest)}, {"fault": "its model is wrong"}],
    ids=["it did not commit", "it has judged", "the closing is wrong"],
)
def test_no_closing_is_confirmed_twice_or_wrongly(options):
    place = Judging(**options)
    assert place.confirm() is None and "judge" not in place.events.names()


def test_a_lot_is_a_clients_own_and_one_for_each_closing():
    ends = [SimpleNamespace(round=number, model_digest=bytes(32), metrics_digest=bytes(32)) for number in (1, 2)]
    keys = [Keys.generate() for _ in range(2)]
    lots = {lot(own, end) for own in keys for end in ends}
    assert len(lots) == 4 and all(0 <= each < 1 for each in lots)
    assert lot(keys[0], ends[0]) in lots


def test_a_lot_is_the_first_eight_bytes_of_the_output_as_a_fraction(monkeypatch):
    end = SimpleNamespace(round=1, model_digest=bytes(32), metrics_digest=bytes(32))
    monkeypatch.setattr(vrf, "proof_to_hash", lambda proof: bytes([0xC0]) + bytes(63))
    assert lot(Keys.generate(), end) == 0.75
