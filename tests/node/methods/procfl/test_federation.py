"""What a federation with clusters does, is what its members, an auditor and a simulation find (``clusters_story``)."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.crypto.signatures import sign_message
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump, flatten
from fedgrove.node.masking.keys import is_mask_secret
from fedgrove.node.masking.ring import decode, encode
from fedgrove.node.methods.procfl.codec import ClusterCodec
from fedgrove.node.methods.procfl.committee import Ballot, opened_ballot, signed_off
from fedgrove.node.methods.procfl.evidence import Evidence, Finding, Rule, evidence_bytes
from fedgrove.node.methods.procfl.labels import label_shares
from fedgrove.node.methods.procfl.mailbox import unseal
from fedgrove.node.methods.procfl.round_inputs import course_of, shown_to
from fedgrove.node.methods.procfl.schedule import ClusterSchedule
from fedgrove.node.methods.procfl.sets import label_counts
from fedgrove.node.methods.procfl.similarity import in_the_clear
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.status.report import build_report
from tests.node.methods.procfl.means import weighted_mean
from tests.node.methods.procfl.mutated import with_commits
from tests.node.methods.procfl.story import CLIENTS, LATE, LIARS, ROUNDS, Story

RULE = Rule()

pytestmark = pytest.mark.xdist_group("clusters")


def test_everything_follows_from_ledger_and_store(story):
    verdict = story.audit()
    assert verdict.verdict == "verified" and verdict.rounds == ROUNDS and not verdict.remarks


def test_the_stages_come_in_turn(story):
    stages = [state.stage for state in story.states()]
    judged = ["watch", "vote", "train"]
    assert stages == ["answer", "count", "train", "watch", *judged, "watch", *judged]


def test_overlaps_are_those_of_the_formula_and_clusters_those_of_the_simulation(story):
    counts = np.array([label_counts(samples.y, 10) for samples in story.federation.samples[:CLIENTS]])
    state = story.states()[2]
    assert state.clients == tuple(range(1, CLIENTS + 1))
    assert (np.array(state.overlaps) == in_the_clear(counts).overlaps).all()
    assert state.clusters == story.simulation.clusters.members == ((1, 3, 5, 7, 9), (2, 4, 6, 8, 10))


def test_a_report_has_the_clusters_as_soon_as_the_overlaps_are_stated(story):
    records = story.history.records()
    end = records.index(story.closed()[1])
    names = ("transactions", "chain_id", "deployment", "head_block", "block_hash", "time")
    until = SimpleNamespace(
        records=lambda: records[: end + 1], **{name: getattr(story.history, name) for name in names}
    )
    report = build_report(until, story.federation.store, {})
    assert len(report["rounds"]) == 2 and report["clusters"]["expelled"] == []
    assert report["clusters"]["members"] == [[1, 3, 5, 7, 9], [2, 4, 6, 8, 10]]


def test_both_groups_label_shares_are_sums_and_nobodys_own(story):
    shares = np.array([label_shares(label_counts(each.y, 10)) for each in story.federation.samples[:CLIENTS]])
    labels = story.states()[2].labels
    assert labels == (tuple(shares[0::2].sum(axis=0)), tuple(shares[1::2].sum(axis=0)))


def test_the_models_are_those_of_the_simulation_to_the_bit(story):
    before = story.states()[3]
    assert before.trained == 1 and len(before.models) == 1
    assert dump(before.models[0]) == dump(story.simulation.tensors)


def test_each_cluster_has_the_mean_of_its_own(story):
    fetch, state = story.federation.store.fetch, story.states()[8]
    assert state.trained == 4 and state.groups == ((5, 7, 9), (2, 4, 6, 8, 10)) and len(state.models) == 2
    own = [flatten(story.sent[(9, client)]) for client in state.groups[0]]
    mean = weighted_mean(own, [Fraction(1, 3)] * 3, state.layout, story.federation.config.masking.bound)
    assert (flatten(state.models[0]) == mean).all()
    uploads = {record.client: fetch(record.digest, 1 << 24) for record in story.committed(9)}
    assert {client for client, upload in uploads.items() if not upload} == {1, 3, LATE}  # two were expelled by then
    assert {len(upload) for upload in uploads.values()} == {
        0,
        4 * state.layout.length + 4,
    }  # and a word that counts failures


def test_the_one_model_is_that_of_its_parts_together(story):
    inputs, state = story.place(4), story.states()[3]
    groups = [group.positions for group in inputs.graph.groups]
    assert groups == [inputs.current.positions(group) for group in state.groups]
    assert state.groups == ((1, 3, 5, 7, 9), (2, 4, 6, 8, 10)) and len(state.trials) == 2
    bound = story.federation.config.masking.bound
    for group, trial in zip(state.groups, state.trials, strict=True):
        own = [flatten(story.sent[(4, client)]) for client in group]
        assert np.allclose(flatten(trial), weighted_mean(own, [Fraction(1, 5)] * 5, state.layout, bound), atol=1e-6)


def test_each_cluster_has_a_leader_that_repeats_the_sum_in_any_case(story):
    schedule = ClusterSchedule(story.federation.config)
    for number, clusters in ((4, ((1, 3, 5, 7, 9), (2, 4, 6, 8, 10))), (9, ((5, 7, 9), (2, 4, 6, 8, 10)))):
        leaders = schedule.leaders(story.place(number))
        assert [leader in members for leader, members in zip(leaders, clusters, strict=True)] == [True, True]
    assert schedule.leaders(story.place(6)) == ()


@pytest.mark.parametrize("number", [1, 8, 9])
def test_leaders_suspects_judges_and_who_answers_repeat_a_closing_in_any_case(story, number):
    """Nobody opens what it sent to a committee, or answers a set, that only the coordinator names."""
    store, config, inputs = story.federation.store, story.federation.config, story.place(number)
    wrong = replace(story.states()[number - 1], session="ab" * 32)
    model, metrics = store.put(wrong.to_bytes()).digest, story.stated()[number - 1]
    if metrics.stated is not None:
        stated = Stated.from_table(metrics.stated)
        signature = sign_message(story.federation.coordinator_keys.account, stated.message(model))
        metrics = metrics.replace(stated=stated.replace(signature=signature.hex()).to_table())
    end = replace(inputs.current.end, model_digest=model, metrics_digest=put_stated(story, metrics))
    inputs = replace(inputs, current=replace(inputs.current, end=end))
    parts = (
        store,
        method_of(config),
        lambda current: inputs,
        0.0,
        lambda end: math.inf,
        story.history.block_hash,
        lambda: inputs.rounds,
    )
    looking = {client: Closings(*parts).fault(inputs.current, client) for client in range(1, CLIENTS + 1)}
    cases = story.states()[9].cases if number == 9 else ()
    asked = {client for case in cases for client in case.named}
    asked |= set(story.states()[0].sets) if number == 1 else set()
    leaders = set(ClusterSchedule(config).leaders(inputs))
    assert {client for client, fault in looking.items() if fault} == leaders | asked
    assert bool(asked) == (number != 8)


def test_when_the_one_model_fell_the_bad_part_was_found(story):
    before, fallen, suspected, judged, after = story.states()[3:8]
    assert fallen.trained == 2 and len(fallen.trials) == 2 and not suspected.trials
    (case,) = suspected.cases
    assert (case.cluster, case.suspects, case.pool) == (0, (1, 3, 5, 7, 9), (2, 4, 6, 8, 10))
    assert case.members == (1, 3) and len(case.committee) == 3
    assert dump(suspected.models[0]) == dump(before.models[0]) != dump(fallen.models[0])
    assert judged.expelled == {1: 0, 3: 0} and judged.clusters == ((5, 7, 9), (2, 4, 6, 8, 10))
    assert dump(judged.models[0]) == dump(before.models[0])  # the best before the fall
    assert after.groups == ((5, 7, 9), (2, 4, 6, 8, 10))


@pytest.mark.parametrize(("trained", "vote"), [(5, 7), (9, 11)])
def test_what_is_judged_is_what_was_sent_to_the_bit(story, trained, vote):
    """By the digests in the judges' evidence. Who told no secret of its own is opened by nobody."""
    place, config = story.place(trained), story.federation.config
    (case,) = story.states()[vote - 1].cases
    weights = course_of(config).weights(place.previous, story.states()[trained - 1].groups)
    sent = []
    for member in case.members:
        terms = (weights[member].numerator, weights[member].denominator, config.masking.bound)
        vector = decode(encode(flatten(story.sent[(trained, member)]), place.previous.layout, *terms), *terms)
        sent.append(cid_of(vector.tobytes()).digest.hex())
    for judge in case.committee:
        seen = _evidence(story, judge, vote).findings
        for member, found, right in zip(case.members, seen, sent, strict=True):
            assert (found is None) == (member in LIARS) and (found is None or found.model.hex() == right)


def test_a_majority_expels_the_attackers_of_a_cluster_and_nobody_else(story):
    before, _, suspected, judged = story.states()[7:11]
    (case,) = judged.cases
    assert case.suspects == (2, 4, 6, 8, 10) and case.committee == case.pool == (5, 7, 9)
    assert suspected.cases[0].members == case.members == (2, 4) and case.against == (3, 3)
    assert judged.expelled == {1: 0, 3: 0, 2: 1, 4: 1} and judged.clusters == ((5, 7, 9), (6, 8, 10))
    assert dump(suspected.models[1]) == dump(judged.models[1]) == dump(before.models[0])


def test_ballots_are_public_and_so_is_the_evidence_that_they_follow_from(story):
    federation = story.federation
    (case,) = story.states()[10].cases
    ballots = {record.client: federation.store.fetch(record.digest, 1 << 16) for record in story.committed(11)}
    assert {client for client, data in ballots.items() if data} == set(case.committee)
    for judge in case.committee:
        ballot = opened_ballot(ballots[judge], judge, len(case.members), RULE)
        assert ballot.evidence == _evidence(story, judge, 11).digest() and all(ballot.against)


def test_what_is_shown_is_for_the_judges_only(story):
    """Everybody's keys but a judge's open nothing of what a suspected member put into the store for it."""
    federation = story.federation
    (case,) = story.states()[9].cases
    member = case.members[0]
    silent = {record.client for record in story.committed(10) if not federation.store.fetch(record.digest, 1 << 24)}
    assert silent == {*range(1, CLIENTS + 2)} - {*case.members}
    blob = next(record for record in story.committed(10) if record.client == member).digest
    data = federation.store.fetch(blob, 1 << 24)
    length = len(data) // len(case.committee)
    everybody = [federation.coordinator_keys, *federation.keys]
    for place, judge in enumerate(case.committee):
        sealed = data[place * length :][:length]
        found = {k: _opened(story, keys, member, judge, sealed) for k, keys in enumerate(everybody)}
        secret = found.pop(judge)
        assert is_mask_secret(secret, story.place(9).current.draws[member].mask_key)
        assert not any(found.values())


def test_secrets_that_nobody_asks_for_any_more_are_destroyed(story):
    for number in range(1, CLIENTS + 1):
        journal = _journal(story, number)
        assert journal.kept("comparison") == b"" and journal.kept("shown") == b""
        assert journal.note(ROUNDS) is None


def test_answers_open_for_the_counter_alone(story):
    federation = story.federation
    uploads = {record.client: federation.store.fetch(record.digest, 1 << 24) for record in story.committed(2)}
    session = bytes.fromhex(story.states()[0].session)
    assert unseal([federation.coordinator_keys.mailbox], uploads[1], session)
    for keys in federation.keys:
        with pytest.raises(InvalidContent):
            unseal([keys.mailbox], uploads[1], session)


def test_the_late_member_takes_part_in_nothing(story):
    assert LATE not in story.states()[-1].clients
    assert story.federation.said(f"client {LATE}").count("committed") == ROUNDS - 3


def test_who_is_in_no_sum_spoils_no_history_by_taking_its_upload_away(story):
    expelled = next(record for record in story.committed(9) if record.client == 1)
    verdict = story.audit(expelled, replace(expelled, digest=b"\1" * 32))
    assert verdict.verdict == "verified"
    assert [(each.round, each.client, each.field) for each in verdict.remarks] == [(9, 1, "commit.content")]
    summed = next(record for record in story.committed(9) if record.client == 5)
    bad = story.audit(summed, replace(summed, digest=b"\1" * 32)).first_bad_record
    assert (bad.round, bad.field) == (9, "closed.model")


LIES = {
    "a size": (2, lambda s: {"overlaps": ((99, *s.overlaps[0][1:]), *s.overlaps[1:])}),
    "one model's score of two": (9, lambda s: {"right": s.right[:1]}),
    "more right than tested": (4, lambda s: {"right": tuple(tuple(n + 999 for n in row) for row in s.right)}),
}


@pytest.mark.parametrize("lie", LIES)
def test_members_refuse_statements_that_cannot_be(story, lie):
    number, change = LIES[lie]
    truth = story.stated()[number - 1]
    stated = Stated.from_table(truth.stated)
    wrong = truth.replace(stated=stated.replace(**change(stated)).to_table())
    digest = story.federation.store.put(wrong.to_bytes()).digest
    assert not story.fault(number) and "its metrics are wrong" in story.fault(number, metrics_digest=digest)


def modest(stated: Stated) -> Stated:
    """Another statement that may be true: one overlap, or one label, of which there is one less."""
    if stated.overlaps:
        rows = [list(row) for row in stated.overlaps]
        rows[0][1] = rows[1][0] = rows[0][1] - 1
        return stated.replace(overlaps=tuple(map(tuple, rows)))
    place = next(place for place, count in enumerate(stated.right[0]) if count)
    first = tuple(count - (place == label) for label, count in enumerate(stated.right[0]))
    return stated.replace(right=(first, *stated.right[1:]))


@pytest.mark.parametrize("number", [2, 4, 9])
@pytest.mark.parametrize("who", ["a member", "the coordinator, of another round", "nobody"])
def test_only_the_coordinator_states(story, number, who):
    """When its grace is over, any member may close a round; what it states of the clusters counts for nothing."""
    truth, closing = story.stated()[number - 1], story.closed()[number - 1]
    stated, other = modest(Stated.from_table(truth.stated)), story.closed()[number].model_digest
    member, own = story.federation.keys[0].account, story.federation.coordinator_keys.account
    signatures = {
        "a member": sign_message(member, stated.message(closing.model_digest)),
        "the coordinator, of another round": sign_message(own, stated.message(other)),
        "nobody": b"",
    }
    digest = put_stated(story, truth.replace(stated=stated.replace(signature=signatures[who].hex()).to_table()))
    assert "not signed by procfl.signer" in story.fault(number, metrics_digest=digest)
    bad = story.audit(closing, replace(closing, metrics_digest=digest)).first_bad_record
    assert (bad.round, bad.field) == (number, "closed.metrics")
    right = sign_message(own, stated.message(closing.model_digest))
    digest = put_stated(story, truth.replace(stated=stated.replace(signature=right.hex()).to_table()))
    assert not story.fault(number, metrics_digest=digest)  # it is the signature that was wrong


def put_stated(story: Story, metrics: Metrics) -> bytes:
    return story.federation.store.put(metrics.to_bytes()).digest


@pytest.mark.parametrize("number", [4, 11])
def test_members_refuse_a_statement_out_of_turn_and_a_missing_one(story, number):
    truth = story.stated()[number - 1]
    wrong = truth.replace(stated=None if truth.stated else Stated(tested=(1,)).to_table())
    digest = story.federation.store.put(wrong.to_bytes()).digest
    assert "not called for" in story.fault(number, metrics_digest=digest)


VERDICTS = {
    "nobody": {"expelled": {1: 0, 3: 0}, "clusters": ((5, 7, 9), (2, 4, 6, 8, 10))},
    "one without a majority": {"expelled": {1: 0, 3: 0, 2: 1, 4: 1, 6: 1}, "clusters": ((5, 7, 9), (8, 10))},
}


@pytest.mark.parametrize("lie", VERDICTS)
def test_members_count_the_votes_themselves(story, lie):
    wrong = replace(story.states()[10], **VERDICTS[lie])
    digest = story.federation.store.put(wrong.to_bytes()).digest
    assert "not the sum" in story.fault(11, model_digest=digest)


def test_the_audit_names_a_statement_that_cannot_be_and_a_verdict_without_votes(story):
    put, ends = story.federation.store.put, story.closed()
    truth = story.stated()[1]
    wrong = put(truth.replace(stated={**truth.stated, "overlaps": truth.stated["overlaps"][1:]}).to_bytes())
    bad = story.audit(ends[1], replace(ends[1], metrics_digest=wrong.digest)).first_bad_record
    assert (bad.round, bad.field) == (2, "closed.metrics")
    (case,) = story.states()[10].cases
    record = next(record for record in story.committed(11) if record.client == case.committee[0])
    honest = Finding(b"\1" * 32, 1, 1)
    other = put(signed_off(Evidence((honest, honest)), record.client, RULE))
    bad = story.audit(record, replace(record, digest=other.digest)).first_bad_record
    assert (bad.round, bad.field) == (11, "closed.model")  # it is not what these ballots say


def test_a_vote_whose_evidence_does_not_open_counts_for_nothing(story):
    """Without it two of three judges still make a majority; without two there is none."""
    inputs, put = story.place(11), story.federation.store.put
    (case,) = inputs.previous.cases
    commits = dict(inputs.current.commits)
    against = []
    for judge in case.committee:
        ballot = Ballot(judge, (True, True), b"\7" * 32).to_bytes() + bytes(evidence_bytes(2))
        commits[judge] = replace(commits[judge], digest=put(ballot).digest)
        current = with_commits(inputs.current, dict(commits))
        state = ClusterCodec(story.federation.config).outcome(replace(inputs, current=current), None).model
        against.append((state.cases[0].against, bool(state.expelled.keys() & {2, 4})))
    assert against == [((2, 2), True), ((1, 1), False), ((0, 0), False)]


def test_a_coordinator_needs_the_key_that_counts_and_samples_to_watch_models_on(story):
    federation = story.federation
    with pytest.raises(InvalidConfig, match="not the coordinator's mailbox key"):
        method_of(federation.config).aides(federation.keys[0], federation.test)
    stranger = replace(federation.coordinator_keys, account=federation.keys[0].account)
    with pytest.raises(InvalidConfig, match="not the coordinator's account"):
        method_of(federation.config).aides(stranger, federation.test)
    with pytest.raises(InvalidConfig, match="give test data"):
        method_of(federation.config).aides(federation.coordinator_keys, None)


def _opened(story: Story, keys: Keys, member: int, judge: int, sealed: bytes) -> bytes:
    try:
        return unseal([keys.mailbox], sealed, shown_to(story.place(10), member, judge))
    except InvalidContent:
        return b""


def _journal(story: Story, number: int) -> Journal:
    return Journal(story.federation.directory / f"client-{number}", story.federation.keys[number - 1].storage)


def _evidence(story: Story, judge: int, vote: int) -> Evidence:
    """A judge's evidence on its only case."""
    digest = next(record.digest for record in story.committed(vote) if record.client == judge)
    (case,) = story.states()[vote - 1].cases
    data = story.federation.store.fetch(digest, 1 << 16)
    return Evidence.from_bytes(data[len(data) - evidence_bytes(len(case.members)) :])
