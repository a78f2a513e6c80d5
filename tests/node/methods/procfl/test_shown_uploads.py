"""What a suspected member shows is bound to what it sent; the secret for it lives as long as it can be asked for."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.crypto.signatures import sign_message
from fedgrove.chain.records import Closed, Failed, Sealed, Voided
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import dump, flatten
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.masking.client import mask_words
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.methods.procfl import judging, shown_uploads
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.codec import ClusterCodec
from fedgrove.node.methods.procfl.committee_work import steps_of
from fedgrove.node.methods.procfl.labels import SHARE
from fedgrove.node.methods.procfl.round_inputs import first_message, label_layout, sums_before
from fedgrove.node.methods.procfl.shown_uploads import ShownUploads
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.journal import Journal, RoundNote
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from tests.node.methods.procfl.judged import (
    CASE,
    COORDINATOR,
    JUDGE,
    MEMBERS,
    POISONER,
    SILENT,
    Entry,
    Judged,
    terms,
)

NAMED = ("00" * 32, (1, "00" * 32))
"""The recovery record and the block that metrics name, where nobody looks at them."""


def noised(model: np.ndarray) -> bytes:
    return (model + 0.001 * np.random.default_rng(0).standard_normal(len(model))).astype("<f4").tobytes()


def test_with_noised_who_sends_poison_and_shows_honesty_is_not_found(tmp_path):
    """The paper's way: nothing ties what is shown to what was sent."""
    told = {member: noised(model) for member, model in Judged(tmp_path, "noised").honest.items()}
    assert Judged(tmp_path, "noised").against(told) == ()


def test_with_noised_who_shows_what_it_sent_or_nothing_is_found(tmp_path):
    judged = Judged(tmp_path, "noised")
    told = {member: noised(model) for member, model in judged.sent.items() if member != SILENT}
    assert judged.against(told) == (POISONER, SILENT)


LIES = {
    "the truth": lambda secrets: {},
    "random bytes": lambda secrets: {POISONER: os.urandom(32)},
    "another member's secret": lambda secrets: {POISONER: secrets[SILENT]},
    "nothing of the right length": lambda secrets: {POISONER: b"12"},
}


@pytest.mark.parametrize("lie", LIES)
def test_with_upload_who_sent_poison_is_found_whatever_it_shows(tmp_path, lie):
    judged = Judged(tmp_path, "upload")
    assert judged.against({**judged.secrets, **LIES[lie](judged.secrets)}) == (POISONER,)


def test_words_of_metrics_behind_an_upload_are_no_part_of_what_is_judged(tmp_path):
    judged = Judged(tmp_path, "upload", EvaluationSettings())
    assert judged.against(judged.secrets) == (POISONER,)


def test_a_judge_trains_on_nothing_that_it_holds_out(tmp_path):
    judged = Judged(tmp_path, "upload", EvaluationSettings(0.25))
    inputs = judged.place(judged.rounds.rounds[3])
    assert len(judged.judge._committee._task(inputs, inputs.previous, CASE, JUDGE).samples) == 45


def test_who_is_silent_is_opened_by_its_partners(tmp_path):
    """Its masks are theirs, too: an honest member whose machine failed is judged like the others."""
    judged = Judged(tmp_path, "upload")
    del judged.secrets[SILENT]
    assert judged.against(judged.secrets) == (POISONER,)


def test_two_who_are_silent_hide_each_other_and_have_the_votes_against_them(tmp_path):
    judged = Judged(tmp_path, "upload")
    del judged.secrets[POISONER], judged.secrets[SILENT]
    assert judged.against(judged.secrets) == (POISONER, SILENT)


@pytest.mark.parametrize("shown", ["upload", "noised"])
def test_a_member_shows_what_its_judge_and_nobody_else_can_open(tmp_path, shown):
    judged, journal = Judged(tmp_path, shown), Journal(tmp_path / "member", bytes(32))
    judged.rounds.members[JUDGE] = SimpleNamespace(mailbox_key=judged.keys.mailbox_public)
    training, show, vote = judged.rounds.rounds.values()
    training.draws[SILENT] = SimpleNamespace(samples=1)
    journal.save(RoundNote(1, judged.masks.secrets[1].to_bytes().hex()))
    options = (judged.samples[1], journal)
    member = judged.client(*options, Keys.generate())
    assert dump(member.result(training, SILENT).tensors)
    journal.destroy(before=1)
    blob = member.result(show, SILENT)
    show.commits[SILENT] = SimpleNamespace(digest=judged.store.put(blob).digest)
    state = judged.states[3]
    (told,) = judged.judge._committee._disclosed(judged.place(vote), state, CASE, JUDGE).values()
    assert member._committee._disclosed(judged.place(vote), state, CASE, JUDGE) == {}  # it has another mailbox
    if shown == "upload":
        assert told == judged.secrets[SILENT]
    else:
        start, model = flatten(state.models[0]), np.frombuffer(told, "<f4")
        honest, noise = judged.honest[SILENT] - start, model - judged.honest[SILENT]
        assert 0.7 < np.linalg.norm(noise) / np.linalg.norm(honest) < 1.6  # other batches, and noise as long as it


def test_a_judge_that_was_killed_votes_as_before(tmp_path):
    judged = Judged(tmp_path, "upload")
    judged.against(judged.secrets)
    ballot, journal = judged.judge.result(judged.rounds.rounds[3], JUDGE), Journal(tmp_path / "judge", bytes(32))
    options = (judged.samples[5], journal)
    again = judged.client(*options, judged.keys)
    again._computed = None  # it does not judge a second time
    assert again.result(judged.rounds.rounds[3], JUDGE) == ballot


def test_a_judge_whose_own_training_leads_nowhere_accuses_nobody_whose_model_it_saw(tmp_path, monkeypatch):
    """Who brought the model to where nobody can train from it is not to decide who is expelled for it."""

    def diverging(*_, **__):
        raise DivergedTraining("left the numbers")

    judged = Judged(tmp_path, "upload")
    monkeypatch.setattr(judging, "train", diverging)
    assert judged.against(judged.secrets) == ()


def test_who_claims_many_samples_may_not_come_further_for_it(tmp_path):
    judged = Judged(tmp_path, "upload")
    sizes = {client: ("ab" * 32, 60 if client != POISONER else 60_000) for client in (*MEMBERS, JUDGE)}
    state = replace(judged.states[3], sets=sizes)
    assert steps_of(state, 0, MEMBERS, JUDGE) == (2.0, 1.0, 1.0, 1.0, 1.0)


# --- rounds that are held again ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("commits", "known"), [(0, 0), (2, 0), (3, 1), (6, 1)])
def test_what_was_or_can_be_summed_is_not_sent_again(tmp_path, commits, known):
    """The difference of two sums of the same data would show whoever is missing from one of them.

    Whatever was released on the ledger: three of ten who withheld theirs would know the sum, and let the round fail.
    """
    judged, journal = Judged(tmp_path, "upload"), Journal(tmp_path / "member", bytes(32))
    lost, again = judged.rounds.rounds[1], judged.rounds.rounds[2]
    lost.stands = False
    lost.commits.clear()
    lost.commits.update(dict.fromkeys(lost.order[:commits]))
    again.draws[SILENT] = SimpleNamespace(samples=1)
    options = (judged.samples[1], journal)
    member = judged.client(*options, Keys.generate())
    judged.states[2] = judged.states[1]
    assert sums_before(judged.place(again), judged.place) == known
    assert member._training._begin(again, SILENT)[1] == {"number": 1, "rounds": 6, "seed": 2 * known}
    judged.states[2] = replace(judged.states[1], stage="labels")
    assert member.result(again, SILENT).sum() == (0 if known else SHARE)


@pytest.mark.parametrize(("commits", "sent"), [(2, SHARE), (3, 0)])
def test_label_counts_of_a_round_that_fell_with_its_base_are_not_sent_again(tmp_path, commits, sent):
    """The overlaps were stated anew then; parts may differ in one client from those that were summed."""
    judged = Judged(tmp_path, "upload")
    fell = RoundRecords(SimpleNamespace(round=0), order=(*MEMBERS, JUDGE))
    fell.commits.update(dict.fromkeys(fell.order[:commits]))
    fell.end = Voided(None, 0, bytes(32))
    judged.rounds.rounds = {0: fell, **judged.rounds.rounds}
    judged.states[2] = replace(judged.states[1], stage="labels")
    options = (judged.samples[1], Journal(tmp_path / "member", bytes(32)))
    member = judged.client(*options, Keys.generate())
    assert member.result(judged.rounds.rounds[2], SILENT).sum() == sent


@pytest.mark.parametrize(("lost", "believed"), [(False, (5 * SHARE, *(0,) * 9)), (True, (1,) * 10)])
def test_counts_that_add_up_although_all_send_zeros_are_not_believed(tmp_path, lost, believed):
    """One member alone would say which labels its judges draw their samples in proportion to."""
    judged, layout, everybody = Judged(tmp_path, "upload"), label_layout(10), range(6)
    judged.rounds.rounds[1].stands = not lost
    found, judged.states[2] = judged.rounds.rounds[2], replace(judged.states[1], stage="labels", labels=())
    for place, client in enumerate(MEMBERS):
        words = np.array([5 * SHARE * (client == POISONER), *(0,) * 9], np.uint32)
        mask_words(judged.masks.graph, place, judged.masks.secrets[place], everybody, words, layout)
        found.commits[client] = SimpleNamespace(digest=judged.store.put(words.tobytes()).digest)
    found.commits[JUDGE] = SimpleNamespace(digest=bytes(32))
    found.shares.update(dict.fromkeys((*MEMBERS, JUDGE)))
    record = judged.masks.record({p: judged.masks.blob(p) for p in everybody}, everybody, everybody)
    assert ClusterCodec(judged.config).outcome(judged.place(found), record).model.labels[0] == believed


def test_who_takes_its_first_message_away_stops_one_round_and_not_the_next(tmp_path):
    judged = Judged(tmp_path, "upload")
    first = {SILENT: judged.store.put(b"blinded").digest.hex(), POISONER: "ab" * 32}
    judged.states[2] = replace(judged.states[1], sets={client: (digest, 60) for client, digest in first.items()})
    again = judged.rounds.rounds[2]
    assert first_message(judged.place(again), SILENT) == b"blinded"
    with pytest.raises(NotFound):
        first_message(judged.place(again), POISONER)
    again.stands, judged.states[3] = False, judged.states[2]
    place = judged.place(judged.rounds.rounds[3])
    assert [first_message(place, client) for client in (SILENT, POISONER)] == [b"blinded", b""]


def test_overlaps_that_nobody_would_read_close_no_round():
    """Else every member would dispute the closing of an honest coordinator."""
    clients = tuple(range(1, 601))
    sets = {client: ("ab" * 32, 100) for client in clients}
    state = replace(ClusterState.first({"w": np.zeros(1, np.float32)}), stage="count", sets=sets, clients=clients)
    overlaps = Stated(overlaps=((100,) * 600,) * 600)
    signature = sign_message(COORDINATOR, overlaps.message(cid_of(state.to_bytes()).digest))
    stated = Metrics(2, *NAMED, stated=overlaps.replace(signature=signature.hex()).to_table())
    assert "too many clients" in method_of(terms("upload")).statement_fault(state, stated)


def test_models_that_nobody_would_read_close_no_round():
    config = terms("upload")
    config = replace(config, federation=replace(config.federation, max_blob_mib=1))
    first = ClusterState.first({"w": np.zeros(1 << 17, np.float32)})
    assert not method_of(config).statement_fault(first, Metrics(2, *NAMED))
    state = replace(first, stage="train", models=first.models * 2)
    assert "too many clusters" in method_of(config).statement_fault(state, Metrics(2, *NAMED))


# --- how long the secret lives ----------------------------------------------------------------------------------------


class Life:
    """A member's journal, and a ledger of a round of training, its fourth of nine rounds, and what comes after."""

    def __init__(self, directory: Path, monkeypatch) -> None:
        self.journal, self.rounds = Journal(directory, bytes(32)), Rounds()
        self.stages: dict[int, str] = {}
        monkeypatch.setattr(shown_uploads, "state_after", lambda base, *_: self.state(base.number))
        self.secrets = RoundSecrets.generate(os.urandom)
        self.journal.save(RoundNote(4, self.secrets.to_bytes().hex()))
        for number in range(1, 4):
            self.end(number, "train")
        self.begin(4)
        self.shown().keep(4)

    def shown(self) -> ShownUploads:
        """As after a restart."""
        return ShownUploads(None, terms("upload"), self.journal, lambda current: None)

    def state(self, number: int) -> ClusterState:
        case = Case(0, MEMBERS, (JUDGE,)) if self.stages[number] == "show" else CASE
        cases = (case,) if self.stages[number] in ("show", "vote") else ()
        return ClusterState(self.stages[number], ({},), cases=cases)

    def begin(self, number: int) -> None:
        self.rounds.rounds[number] = RoundRecords(SimpleNamespace(round=number))

    def draw(self, *members: int) -> None:
        """Have these members judged, in place of all."""
        case = Case(0, MEMBERS, (JUDGE,), members, (JUDGE,))
        self.state = lambda number: ClusterState("vote", ({},), cases=(case,))

    def end(self, number: int, stage: str = "", stands: bool = True) -> None:
        """End a round; ``stage`` is what comes after it."""
        found = self.rounds.rounds[number] = (Entry if stands else RoundRecords)(SimpleNamespace(round=number))
        digest = b"%d" % number
        found.end = Closed(None, number, digest, stage.encode()) if stands else Voided(None, number, digest)
        self.stages[number] = stage

    def fail(self, number: int) -> None:
        """Have a sealed round fail."""
        found = self.rounds.rounds[number] = RoundRecords(SimpleNamespace(round=number))
        found.once[Sealed], found.end = SimpleNamespace(), Failed(None, number)

    def kept(self, client: int = SILENT) -> bytes | None:
        """What is left of the secret when the member has looked at the ledger."""
        self.shown().settle(self.rounds, client)
        return (self.journal.kept("shown") or b"")[8:]

    def asked(self) -> bytes:
        show = SimpleNamespace(rounds=self.rounds, current=SimpleNamespace(number=max(self.rounds.rounds)))
        return self.shown().plain(show)


@pytest.fixture
def life(tmp_path, monkeypatch) -> Life:
    return Life(tmp_path, monkeypatch)


def test_the_secret_outlives_its_round_until_the_vote_is_closed(life):
    secret = life.secrets.mask_secret
    assert life.kept() == secret  # the round runs
    life.end(4, "show")
    life.journal.destroy(before=4)
    assert life.kept() == secret and life.journal.note(4) is None
    life.begin(5)
    assert life.kept() == life.asked() == secret
    life.end(5, "vote")
    assert life.kept() == secret
    life.begin(6)
    assert life.kept() == secret
    life.end(6, "train")
    assert life.kept() == b""


def test_a_round_to_show_that_is_voided_finds_the_secret_again(life):
    life.end(4, "show")
    life.end(5, "vote")
    assert life.kept()
    life.end(5, stands=False)
    life.begin(6)
    assert life.kept() == life.asked() == life.secrets.mask_secret


def test_the_secret_goes_when_nobody_is_suspected_or_others_are(life):
    life.end(4, "show")
    assert life.kept(client=99) == b""
    life.begin(5)
    with pytest.raises(CannotTakePart, match="lost the secret"):
        life.asked()


def test_the_secret_goes_when_others_of_its_cluster_are_drawn(life):
    life.end(4, "show")
    assert life.kept()
    life.end(5, "vote")
    life.draw(POISONER)
    assert life.kept(client=SILENT) == b""


@pytest.mark.parametrize("stage", ["train", "watch"])
def test_the_secret_goes_as_soon_as_its_round_closed_without_suspicion(life, stage):
    life.end(4, stage)
    assert life.kept() == b""


def test_the_secret_goes_when_its_round_came_to_nothing(life):
    life.end(4, stands=False)
    assert life.kept() == b""


def test_the_secret_goes_when_no_round_is_left(life):
    life.end(4, "show")
    assert life.kept()
    repeats = terms("upload").federation.repeats
    for number in range(5, 6 + repeats):
        life.fail(number)
        assert bool(life.kept()) == (number < 5 + repeats)


def test_a_new_round_of_training_replaces_it(life):
    life.end(4, "train")
    later = RoundSecrets.generate(os.urandom)
    life.journal.save(RoundNote(5, later.to_bytes().hex()))
    life.begin(5)
    life.shown().keep(5)
    life.shown().keep(5)
    assert life.kept() == later.mask_secret
    life.shown().destroy()
    assert life.kept() == b""
