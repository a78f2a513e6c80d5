"""A real federation clusters and forgets: one history, which all tests here look at."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed, Failed, Withdrawn
from fedgrove.common.errors import InvalidInput
from fedgrove.common.wire import Malformed
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.certificate import Certificate, NoCertificate, certificate_fault, certify, with_certificate
from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.pages import Pages
from fedgrove.node.explorer.sources import LiveSource
from fedgrove.node.explorer.survey import survey
from fedgrove.node.explorer.views.clients import forgettings
from fedgrove.node.explorer.watch import IndexWatch, Snapshot
from fedgrove.node.methods.kmeans.asking import ask
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.request import Request
from fedgrove.node.methods.kmeans.schedule import OnRequest
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.rounds import Rounds
from tests.node.devnet.kmeans_members import TERMS, Federation

CLIENTS = 5
WIDE = replace(TERMS, dimensions=20)


def spoil(vector: BinCounts, current) -> BinCounts:
    """A vector with fewer points than none: nobody's sum of counts."""
    return -vector


@dataclass
class Story:
    """What happened, and what was there at each point of it."""

    federation: Federation
    states: dict[str, KMeansState]
    requests: dict[str, tuple[int, Request]]
    history: LedgerHistory
    facts: object
    records: list


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Story:
    """Four train; one takes points back; two ask while one of them is away; a fifth joins; one leaves; one lies."""
    states, requests = {}, {}
    with embedded() as network:
        one = Federation.found(network, tmp_path_factory.mktemp("forgetting"), TERMS, CLIENTS)
        one.register(1, 2, 3, 4)
        one.run({1, 2, 3, 4})
        states["trained"] = one.state()

        requests["points"] = (2, one.ask(2, [3, 4]))
        assert one.ask(2, [3, 4]) == requests["points"][1]
        one.run({1, 2, 3, 4})
        states["points"] = one.state()

        requests["one"] = (1, one.ask(1, [7]))
        requests["away"] = (3, one.ask(3, [4, 5, 6]))
        one.hold({1, 2, 4})
        states["away"] = one.state()
        one.run({1, 2, 3, 4})
        states["back"] = one.state()

        one.register(5)
        one.run()
        states["joined"] = one.state()

        requests["left"] = (4, one.ask(4, None))
        one.run()
        states["left"] = one.state()

        requests["lied"] = (5, one.ask(5, [0]))
        one.lies[5] = spoil
        one.hold({1, 2, 3, 5})
        one.lies.clear()
        one.run({1, 2, 3, 5})
        states["lied"] = one.state()
        history = one.history()
        yield Story(one, states, requests, history, chain_facts(history), history.records())


def certificate(story: Story, name: str) -> Certificate:
    client, request = story.requests[name]
    return certify(story.facts, story.records, story.federation.store, client, request.digest)


def test_the_audit_verifies_all_of_it(story):
    verdict = Auditor(story.facts, story.records, story.federation.store).run()
    assert verdict.verdict == "verified", verdict.reason


@pytest.mark.parametrize(
    ("name", "clients"),
    [
        ("trained", (1, 2, 3, 4)),
        ("points", (1, 2, 3, 4)),
        ("away", (1, 2, 4)),
        ("back", (1, 2, 3, 4)),
        ("joined", (1, 2, 3, 4, 5)),
        ("left", (1, 2, 3, 5)),
        ("lied", (1, 2, 3, 5)),
    ],
)
def test_each_state_is_the_sum_of_what_its_clients_drew_for_it(story, name, clients):
    state = story.states[name]
    assert state.clients == clients
    assert state.counts == story.federation.sum_of(state.round, *clients)


def test_nobody_sends_in_two_rounds_what_it_sent_in_one(story):
    sent = story.federation.sent
    for number in story.federation.everybody:
        rounds = [each for client, each in sent if client == number and len(sent[client, each])]
        vectors = {sent[number, each].levels.tobytes() + sent[number, each].counts.tobytes() for each in rounds}
        assert len(rounds) >= 3 and len(vectors) >= len(rounds) - 1  # two may be equal by chance


def test_a_request_is_honoured_in_the_next_round(story):
    assert story.states["trained"].round == 1 and story.states["points"].round == 2


def test_who_is_away_is_not_counted_until_it_is_back(story):
    away, back = story.states["away"], story.states["back"]
    assert 3 not in away.clients and 3 in back.clients and back.round == away.round + 1


def test_points_that_were_taken_back_are_overwritten(story):
    client, request = story.requests["points"]
    notebook = story.federation.notebook(client)
    assert np.isnan(notebook.points[list(request.rows)]).all()
    assert np.isnan(notebook.points).any(axis=1).sum() == len(request.rows)


def test_who_left_keeps_no_point(story):
    assert np.isnan(story.federation.notebook(4).points).all()


def test_the_ledger_does_not_say_how_many_points_a_client_has(story):
    drawn = {record.samples for record in story.records if type(record).__name__ == "Drawn"}
    assert drawn == {64}


def test_a_sum_that_counts_nothing_fails_the_round_and_is_repeated(story):
    failed = [record for record in story.records if isinstance(record, Failed)]
    assert [record.round + 1 for record in failed] == [story.states["lied"].round]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("points", "without the 2 points that client 2 took back"),
        ("one", "without the 1 point that client 1 took back"),
        ("away", "without any point of client 3: the 3 clients that it counts were summed anew"),
        ("left", "without any point of client 4: the 4 clients that it counts were summed anew"),
    ],
)
def test_a_certificate_says_what_was_computed_again(story, name, sentence):
    found = certificate(story, name)
    assert found.recomputed == "all" and sentence in found.statement
    again = Certificate.from_bytes(found.to_bytes())
    assert certificate_fault(again, story.facts, story.records, story.federation.store) is None


def test_a_certificate_names_the_round_that_honoured_the_request_and_not_the_one_that_missed_it(story):
    number = {name: certificate(story, name).round.number for name in story.requests}
    assert number == {"points": 2, "one": 3, "away": 3, "left": 6, "lied": 8}


def test_the_explorer_says_since_which_round_a_request_is_honoured_as_the_certificate_does(story, tmp_path):
    store = story.federation.store
    index = Index(tmp_path / "index.sqlite", story.federation.deployment)
    index.add(story.history)
    survey(index, store, 1, 10_000)
    source = LiveSource(story.federation.network, story.federation.deployment, store, "embedded", "fedgrove audit …")
    overview, models = (Pages(IndexWatch(source, index)).render(path) for path in ("", "models/"))
    shown = [(each.client, each.round) for each in forgettings(index, Checks(Snapshot()))]
    index.close()
    rounds = {name: certificate(story, name).round.number for name in story.requests}
    assert shown == [(client, rounds[name]) for name, (client, _) in story.requests.items()]
    assert "Federated K-means: 2 centres of points with 2 coordinates" in overview
    assert "all its points, for good" in overview and "not yet" not in overview
    assert "Accuracy" not in overview and "counts of points in bins" in models


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("statement",), "All is well."),
        (("recomputed",), "nothing"),
        (("round", "number"), 1),
        (("round", "closed_at"), 1),
        (("after", "model"), "00" * 32),
        (("after", "counted"), 1),
        (("request", "points"), 1),
        (("request", "account"), "0x" + "00" * 20),
        (("request", "client"), 1),
        (("request", "digest"), "00" * 32),
        (("ledger",), "0x" + "00" * 20),
    ],
)
def test_a_certificate_that_was_changed_is_found_out(story, path, value):
    table = json.loads(certificate(story, "left").to_bytes())
    place = table
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    forged = Certificate.from_bytes((json.dumps(table, indent=1, sort_keys=True) + "\n").encode())
    verdict = Auditor(story.facts, story.records, story.federation.store).so_far()
    verdict = with_certificate(verdict, forged, story.facts, story.records, story.federation.store)
    assert verdict.exit_code == 1 and verdict.first_bad_record.field.startswith("certificate")


def test_a_certificate_with_another_key_is_refused(story):
    table = json.loads(certificate(story, "left").to_bytes()) | {"more": 1}
    with pytest.raises(NoCertificate, match="unknown field `more`"):
        Certificate.from_bytes((json.dumps(table, indent=1, sort_keys=True) + "\n").encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format": "fedgrove-certificate-1"}', b"x" * (1 << 21)])
def test_what_is_no_certificate_is_refused(data):
    with pytest.raises(NoCertificate):
        Certificate.from_bytes(data)


def test_there_is_no_certificate_before_a_round_has_honoured_the_request(story):
    client, request = story.requests["left"]
    asked = next(
        record for record in story.records if isinstance(record, Withdrawn) and record.digest == request.digest
    )
    early = [record for record in story.records if record.at.block <= asked.at.block + 1]
    with pytest.raises(NoCertificate, match="no round has honoured the request of client 4"):
        certify(story.facts, early, story.federation.store, client, request.digest)


def test_a_removal_before_anything_was_made_of_the_points_needs_no_computation(story):
    """The fifth client might have asked after the fourth round: nothing held a point of it."""
    joined = next(record for record in story.records if type(record).__name__ == "Registered" and record.client == 5)
    early = [record for record in story.records if record.at.block <= joined.at.block]
    place = joined.at._replace(log_index=joined.at.log_index + 1)
    asked = Withdrawn(place, joined.account, 5, 0, b"d" * 32)
    found = certify(story.facts, [*early, asked], story.federation.store, 5, b"d" * 32)
    assert found.round is None and found.recomputed == "nothing"


def test_requests_that_cannot_be_honoured_are_refused_before_they_are_on_the_ledger(story):
    records = [record for record in story.records if isinstance(record, Withdrawn)]

    def refuse(number: int, rows, sentence: str) -> None:
        with pytest.raises(InvalidInput, match=sentence):
            ask(None, number, story.federation.journal(number), records, rows)

    refuse(1, [20], "there is no point 20: points are numbered from 0 to 19")
    refuse(1, [*story.requests["one"][1].rows, 19], "has already been withdrawn")
    left = set(range(20)) - set(story.requests["one"][1].rows)
    refuse(1, left, "use --all")
    refuse(4, [1], "client 4 has left")
    with pytest.raises(InvalidInput, match="not taken part in a round"):
        ask(None, 9, Journal(story.federation.directory / "nobody", bytes(32)), [], [1])


def test_a_withdrawal_by_somebody_else_is_a_bad_record(story):
    index = next(place for place, record in enumerate(story.records) if isinstance(record, Withdrawn))
    forged = list(story.records)
    forged[index] = replace(forged[index], client=1)
    verdict = Auditor(story.facts, forged, story.federation.store).run()
    assert verdict.first_bad_record.field == "withdrawal"


def test_a_state_that_keeps_a_point_is_found_out(story):
    """The coordinator closes with the counts as they were, or the centres, or without a client."""
    store, config = story.federation.store, story.federation.config
    closed = [place for place, record in enumerate(story.records) if isinstance(record, Closed)]
    right = method_of(config).fetch_model(store, story.records[closed[1]].model_digest)
    before = method_of(config).fetch_model(store, story.records[closed[0]].model_digest)
    for wrong in (
        before,
        replace(right, counts=before.counts, centres=before.centres),
        replace(right, centres=right.centres + TERMS.step),
        replace(right, clients=right.clients[1:]),
    ):
        forged = list(story.records)
        digest = store.put(wrong.to_bytes()).digest
        forged[closed[1]] = replace(forged[closed[1]], model_digest=digest)
        bad = Auditor(story.facts, forged, store).run().first_bad_record
        assert (bad.round, bad.field) == (2, "closed.model")


def test_the_first_round_starts_from_no_points(story):
    opened = next(place for place, record in enumerate(story.records) if type(record).__name__ == "RoundOpened")
    state = story.federation.store.put(story.states["trained"].to_bytes()).digest
    forged = list(story.records)
    forged[opened] = replace(forged[opened], model_digest=state)
    bad = Auditor(story.facts, forged, story.federation.store).run().first_bad_record
    assert (bad.round, bad.field) == (1, "opened.model")


def test_who_never_answers_is_waited_for_twice_as_long_each_time(story):
    """As if the fourth client had never answered in the first two rounds, nor in a third."""
    schedule, rounds, trained = OnRequest(story.federation.config), Rounds(), story.states["trained"]
    waits = []
    for record in story.records:
        rounds.add(record)
        if isinstance(record, Closed):
            state = replace(trained, clients=(1, 2, 3), round=record.round, whole=record.round)
            waits.append(schedule.due(rounds, lambda state=state: state, record.at.block) - record.at.block)
            if record.round == 2:
                break
    assert waits == [TERMS.retry_blocks] * 2
    second = rounds.rounds[2]
    rounds.rounds[3] = replace(second, opened=replace(second.opened, round=3))
    rounds.rounds[4] = replace(second, opened=replace(second.opened, round=4))
    assert schedule.due(rounds, lambda: state, 0) == second.end.at.block + 2 * TERMS.retry_blocks


def test_a_round_waits_for_requests_to_gather(story):
    rounds = Rounds()
    for record in story.records:
        rounds.add(record)
        if isinstance(record, Withdrawn):
            break
    for wait in (3, 40):
        config = replace(story.federation.config, method=replace(TERMS, gather_blocks=wait))
        due = OnRequest(config).due(rounds, lambda: story.states["trained"], record.at.block)
        assert due == max(record.at.block, rounds.rounds[1].opened.opened_at) + wait


def test_a_request_survives_the_way_there_and_back():
    request = Request.new([5, 3, 5])
    assert request.rows == (3, 5) and Request.from_bytes(request.to_bytes()) == request
    assert Request.new([]).points == 0 and request.salt not in repr(request)
    for wrong in (b"", b"{}", request.to_bytes() + b" ", b'{"rows":[2,1],"salt":"' + b"00" * 32 + b'"}'):
        with pytest.raises(Malformed):
            Request.from_bytes(wrong)


def test_twenty_dimensions_are_summed_exactly_by_clients_that_forget_all_but_their_journals(tmp_path):
    """There, bins are hashed, and their coordinates summed beside the counts."""
    with embedded() as network:
        wide = Federation.found(network, tmp_path, WIDE, 3)
        wide.register()
        wide.run()
        wide.ask(1, [0, 1, 2])
        wide.run(restarting=True)
        assert wide.state().counts == wide.sum_of(2, 1, 2, 3) and len(wide.notebook(1).left) == 17
        assert WIDE.grid.piece_count > 1
        assert wide.audit().verdict == "verified"
