"""Mutated messages, answers, ballots and what members show; the rest is as in ``test_fuzz``."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.comparing import Party
from fedgrove.node.methods.procfl.ecdh import Comparison, read_points
from fedgrove.node.methods.procfl.evidence import Evidence, Rule
from fedgrove.node.methods.procfl.mailbox import unseal
from fedgrove.node.methods.procfl.round_inputs import ballots_in
from fedgrove.node.methods.procfl.statements import ClusterStatements
from tests.node.methods.procfl.mutated import flipped, with_commits

pytestmark = pytest.mark.xdist_group("clusters")


@pytest.fixture(scope="module")
def parties() -> list[Party]:
    return [
        Party(bytes(32), client, each, bytes([client]) * 32) for client, each in enumerate([(3, 2, 0), (2, 2, 1)], 1)
    ]


def test_comparisons_by_diffie_hellman(arena, parties):
    """Blinded sets and answers, to partners and to the counter."""
    left, right = parties
    blinded = [party.blinder.blinded for party in (left, right)]
    answers = [left.blinder.answer(2, blinded[1]), right.blinder.answer(1, blinded[0])]
    for random in arena.mutants():
        sent = [flipped(data, random) if random.random() < 0.4 else data for data in (*blinded, *answers)]
        for use in (
            lambda sent=sent: read_points(sent[0], bytes(32), 1),
            lambda sent=sent: Party(bytes(32), 2, (2, 2, 1), b"\2" * 32).blinder.answer(1, sent[0]),
            lambda sent=sent: Comparison(bytes(32), 1, 2, *sent[:2]).count(*sent[2:]),
        ):
            arena.used += _refused(use, InvalidContent)
    assert arena.used


def _refused(use: Callable[[], object], *declared: type[Exception]) -> int:
    try:
        use()
    except declared:
        return 1
    return 0


def test_sealed_answers_to_the_counter(arena):
    """It opens what it can, and states overlaps that everybody accepts."""
    story = arena.story
    keys = story.federation.coordinator_keys
    counter, inputs = ClusterStatements(keys), story.place(2)
    state = inputs.previous
    uploads = {record.client: arena.store.fetch(record.digest, 1 << 24) for record in story.committed(2)}
    client = next(client for client in state.sets if uploads[client])
    for random in arena.mutants():
        sealed = flipped(uploads[client], random)
        _refused(lambda sealed=sealed: unseal([keys.mailbox], sealed, bytes.fromhex(state.session)), InvalidContent)
        if random.random() < 0.1:  # to count all pairs takes a while
            digest = arena.store.keep(sealed)
            commits = {**inputs.current.commits, client: replace(inputs.current.commits[client], digest=digest)}
            odd = replace(inputs, current=with_commits(inputs.current, commits), store=arena.store)
            counted = replace(story.states()[1], stage="count")
            overlaps = counter._overlaps(odd, counted)
            arena.course.clustered(counted, overlaps)
            arena.used += 1
    assert arena.used


def test_ballots_and_evidence(arena):
    story = arena.story
    (case,) = story.states()[10].cases
    judge = case.committee[0]
    ballot = next(arena.store.fetch(r.digest, 1 << 16) for r in story.committed(11) if r.client == judge)
    assert len(ballots_in(ballot, [case], judge, Rule())) == 1
    for random in arena.mutants():
        data = flipped(ballot, random)
        found = ballots_in(data, [case], judge, Rule())
        assert len(found) == (data == ballot)  # a bit of either changed, and the evidence does not open
        _refused(lambda data=data: Evidence.from_bytes(data[45:]), InvalidContent)


def test_what_members_show(arena):
    """A judge opens what it can of it, and has no model of who showed something else."""
    story = arena.story
    place = story.place(11)
    state = place.previous
    (case,) = state.cases
    judge = case.committee[0]
    work = story.federation.client(judge, store=arena.store).context.work._committee
    base = place.rounds.base_of(11)
    member = case.members[0]
    shown_blob, truth = arena.store.fetch(base.commits[member].digest, 1 << 16), base.commits[member]
    try:
        for random in arena.mutants():
            odd = flipped(shown_blob, random)
            base.commits[member] = replace(truth, digest=arena.store.keep(odd))
            told = work._disclosed(place, state, case, judge)
            assert all(len(secret) == 32 for secret in told.values())
            arena.used += member not in told
    finally:
        base.commits[member] = truth
    assert arena.used
