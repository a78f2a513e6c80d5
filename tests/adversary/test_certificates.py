"""Somebody gets a certificate of forgetting that says more than is so.

A member asks while a round that sums it is open, so that "nothing had to be computed" is false a minute later; or it
asks and keeps the points that it named; or it leaves and uploads all the same; or members void the round that the
certificate rests on.

What stops it: there is no certificate while a round is open; it speaks of the model in force, says that earlier ones
stay public, and whose word it is which points went; who has left draws no more; an audit makes the
certificate again from what stands then.
"""

from pathlib import Path

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Position, Voided, Withdrawn
from fedgrove.node.audit import certificate
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.certificate import NoCertificate, certificate_fault
from fedgrove.node.methods.kmeans.vector import draw_vector
from fedgrove.node.protocol.rounds import Rounds
from tests.node.devnet.kmeans_members import Federation

# --- while a round is open --------------------------------------------------------------------------------------------


def asking_in_the_middle_of_a_round(directory: Path) -> tuple[str, str, bool]:
    """A member joins, commits, and asks before the round has closed.

    What the certificate says then, or why there is none; the same when the round has closed; and whether the model
    that it left was made with the member's points.
    """
    member = 4

    def committed(rounds: Rounds) -> bool:
        return rounds.latest is not None and rounds.latest.number == 2 and len(rounds.latest.commits) == 4

    with embedded() as network:
        one = Federation.found(network, directory, clients=4)
        one.register(1, 2, 3)
        one.run({1, 2, 3})
        one.register(member)
        one.run(until="never", done=committed)
        request = one.ask(member, [0, 1])
        open_round = said(one, member, request)
        one.run(until="never", done=lambda rounds: rounds.rounds[2].end is not None)
        return open_round, said(one, member, request), member in one.state().clients


def said(one: Federation, member: int, request) -> str:
    try:
        return one.certify(member, request).statement
    except NoCertificate as refusal:
        return str(refusal)


def test_there_is_no_certificate_while_a_round_is_open(tmp_path):
    open_round, closed, summed = asking_in_the_middle_of_a_round(tmp_path)
    assert "round 2 is open" in open_round and summed
    assert "no round has honoured the request of client 4" in closed and "the model in force, of round 2" in closed


@pytest.mark.mutants
def test_it_would_say_that_nothing_had_been_made_of_the_points(tmp_path, monkeypatch):
    monkeypatch.setattr(certificate, "refuse_open", lambda *_: None)
    open_round, _, summed = asking_in_the_middle_of_a_round(tmp_path)
    assert "was made without any point of it" in open_round and "nothing had to be computed" in open_round and summed


# --- what the words say -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Five train. One withdraws points but keeps them. One leaves for good and still tries to draw."""
    with embedded() as network:
        one = Federation.found(network, tmp_path_factory.mktemp("certificates"))
        one.register()
        one.run()
        one.kept = one.ask(2, list(range(15)))
        everything = one.parts[1].copy()
        rng = np.random.default_rng(0)
        one.lies[2] = lambda vector, current: draw_vector(everything, one.config.method, rng)
        one.run()
        one.lies.clear()
        one.stayed = one.ask(4, None)
        stay(one, 4)
        one.run()
        one.last = one.state()
        one.records = one.history().records()
        one.facts = chain_facts(one.history())
        one.papers = {2: one.certify(2, one.kept), 4: one.certify(4, one.stayed)}
        yield one


def stay(one: Federation, leaver: int) -> None:
    """The leaver's software ignores that it has left: it draws as if it were summed."""
    make = one.client

    def client(number):
        made = make(number)
        if number == leaver:
            rules = made.view.law
            rules.barred = lambda *_: ""
            rules.why_barred = lambda member, *_: "it left" if Rounds.left(made.view.rounds, member.client) else ""
            made.view.rounds.left = lambda *_: False
        return made

    one.client = client


def test_a_certificate_says_whose_word_it_is_that_the_points_went(history):
    """The client kept them: nobody else can know, and the certificate does not claim to."""
    sentence = history.papers[2].statement
    assert "The model in force since block" in sentence and "Earlier models stay public" in sentence
    assert "Which they are, and that client 2 left them out, is its own word: masks hide what it sent" in sentence


def test_who_left_draws_no_more_and_is_in_no_sum(history):
    assert any(role == "client 4" and "took back all its data and left" in step.waiting for role, step in history.log)
    assert history.last.clients == (1, 2, 3, 5)
    assert history.last.counts == history.sum_of(history.last.round, 1, 2, 3, 5)
    assert 4 not in history.rounds().rounds[history.last.round].draws
    sentence = history.papers[4].statement
    assert "without any point of client 4" in sentence and "without an upload of client 4" in sentence
    assert history.papers[4].round.summed == (1, 2, 3, 5)
    assert history.audit().verdict == "verified"


def fault(history, paper, records):
    return certificate_fault(paper, history.facts, records, history.store)


def test_a_certificate_holds_while_later_rounds_run_and_when_they_have_ended(history):
    later = next(place for place, record in enumerate(history.records) if getattr(record, "round", 0) == 3)
    for end in range(later, len(history.records)):
        assert fault(history, history.papers[2], history.records[:end]) is None


@pytest.mark.parametrize("client", [2, 4])
def test_a_certificate_does_not_outlive_its_round(history, client):
    """More than half of those that committed void the round: the model of before is in force again."""
    number = history.papers[client].round.number
    place = next(i for i, each in enumerate(history.records) if isinstance(each, Closed) and each.round == number)
    closed = history.records[place]
    block, transaction, index, _ = closed.at
    voided = Voided(Position(block, transaction, index + 1), number, history.records[0].at.transaction)
    bad = fault(history, history.papers[client], [*history.records[: place + 1], voided])
    assert bad is not None and "the model in force, of round" in bad.reason


def test_of_a_request_in_the_block_of_a_closing_it_is_known_which_came_first(history):
    """Other chains put many transactions into a block. What closed before the request was in force when it came."""
    closed = next(each for each in history.records if isinstance(each, Closed))
    asked = next(each for each in history.records if isinstance(each, Withdrawn))
    block, transaction, index, _ = closed.at
    moved = Withdrawn(Position(block, transaction, index + 1), asked.account, asked.client, asked.points, asked.digest)
    records = [*(each for each in history.records if each.at.block <= block), moved]
    with pytest.raises(NoCertificate, match="no round has honoured the request of client 2"):
        certificate.certify(history.facts, records, history.store, 2, history.kept.digest)
