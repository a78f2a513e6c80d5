"""A real federation clusters and forgets: one history, which all tests here look at."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from chain.access import Network
from chain.deployment import Deployment
from chain.founding import deploy
from chain.history import History, capture
from chain.keys import Keys
from chain.ledger import Ledger
from chain.networks import embedded
from chain.records import Closed, Failed, FailureReason, Withdrawn
from ipfs.disk import DiskStore
from node.auditing.archive import chain_facts
from node.auditing.certificate import Certificate, NoCertificate, certificate_fault, certify, with_certificate
from node.auditor import Auditor
from node.client import Client
from node.config import FederationConfig, FederationSettings
from node.content import fetch_model
from node.coordinator import Coordinator
from node.explorer.checks import Checks
from node.explorer.index import Index
from node.explorer.pages import Pages
from node.explorer.sources import LiveSource
from node.explorer.survey import survey
from node.explorer.views.clients import forgettings
from node.explorer.watch import Sight, Watch
from node.journal import Journal
from node.kmeans.counts import BinCounts
from node.kmeans.settings import ClusteringSettings
from node.kmeans.state import State
from node.local_work import first_model
from node.rounds import Rounds
from node.step import Step
from node.unlearning.asking import CannotForget, ask
from node.unlearning.notebook import Notebook, read_notebook
from node.unlearning.request import InvalidRequest, Request
from node.uploads.clustering import ClusteringUploads
from node.windows import windows

CLIENTS = 5
TERMS = ClusteringSettings(k=2, dimensions=2, step=0.05, restarts=4, retry_blocks=30)
WIDE = ClusteringSettings(k=2, dimensions=20, step=0.05, restarts=4, retry_blocks=30)


class Liar(ClusteringUploads):
    """Uploads a point more than it has."""

    def encode(self, round, client, secrets, update):
        more = BinCounts.of(np.ones((1, TERMS.dimensions)), np.ones(1))
        return super().encode(round, client, secrets, update + more)


@dataclass
class Federation:
    """Chain, store, keys and directories; roles are made anew at will, as after a kill."""

    network: Network
    directory: Path
    config: FederationConfig
    deployment: Deployment
    store: DiskStore
    founder: Keys
    keys: list[Keys]
    parts: list[np.ndarray]
    log: list[tuple[str, Step]] = field(default_factory=list)

    @classmethod
    def found(cls, network: Network, directory: Path, settings: ClusteringSettings, clients: int) -> "Federation":
        config = FederationConfig(
            federation=FederationSettings(rounds=100), clustering=settings, ledger=windows(clients)
        )
        founder, keys = Keys.generate(), [Keys.generate() for _ in range(clients)]
        for each in (founder, *keys):
            network.fund(each.address, 1)
        deployment = deploy(network, founder.account, founder.address, config.ledger)
        rng = np.random.default_rng(1)
        shape = (20, settings.dimensions)
        parts = [np.clip(rng.normal(rng.uniform(-0.5, 0.5, shape[1]), 0.1, shape), -1, 1) for _ in keys]
        store = DiskStore(directory / "store")
        return cls(network, directory, config, deployment, store, founder, keys, parts)

    def ledger(self, number: int) -> Ledger:
        return Ledger(self.network, self.deployment, self.keys[number - 1].account)

    def journal(self, number: int) -> Journal:
        return Journal(self.directory / f"client-{number}", self.keys[number - 1].storage)

    def client(self, number: int) -> Client:
        place = (self.keys[number - 1], self.config, self.parts[number - 1], self.directory / f"client-{number}")
        return Client(self.ledger(number), self.store, *place)

    def coordinator(self) -> Coordinator:
        ledger = Ledger(self.network, self.deployment, self.founder.account)
        return Coordinator(ledger, self.store, self.config, first_model(self.config))

    def run(self, present: set[int], until: str = "idle", restarting: bool = False) -> None:
        """Fresh roles of those who are there, until the coordinator waits in this phase.

        With ``restarting`` nobody remembers anything from one step to the next but by journal and ledger.
        """
        coordinator, clients = self.coordinator(), {number: self.client(number) for number in present}
        for _ in range(1000):
            if restarting:
                coordinator, clients = self.coordinator(), {number: self.client(number) for number in present}
            steps = [("coordinator", coordinator.step())]
            steps += [(f"client {number}", client.step()) for number, client in clients.items()]
            self.log += [(role, step) for role, step in steps if step.acted or step.phase == "sit out"]
            if steps[0][1].waiting and steps[0][1].phase == until:
                return
            if not any(step.acted for _, step in steps):
                block = self.network.block_number()
                self.network.advance_to(min(step.until for _, step in steps if step.until > block))
        raise AssertionError(f"nothing came of it: {self.log[-5:]}")

    def ask(self, number: int, rows) -> Request:
        withdrawals = [record for record in self.ledger(number).records() if isinstance(record, Withdrawn)]
        return ask(self.ledger(number), number, self.journal(number), withdrawals, rows)[0]

    def notebook(self, number: int) -> Notebook:
        return read_notebook(self.journal(number))

    def state(self) -> State:
        closed = [record for record in self.ledger(1).records() if isinstance(record, Closed)]
        return fetch_model(self.store, closed[-1].model_digest, self.config)

    def present_vectors(self, *numbers: int) -> BinCounts:
        """What the clients' own journals say: the oracle for every sum."""
        total = BinCounts.empty(self.config.clustering.dimensions)
        for number in numbers:
            vectors = self.notebook(number).vectors
            total = total + vectors[max(vectors)]
        return total


@dataclass
class Story:
    """What happened, and what was there at each point of it."""

    federation: Federation
    states: dict[str, State]
    requests: dict[str, tuple[int, Request]]
    history: History
    facts: object
    records: list
    vectors: dict[str, BinCounts]


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Story:
    """Four train; one takes points back; two ask while one of them is away; a fifth joins; one leaves; one lies."""
    states, requests, vectors = {}, {}, {}
    with embedded() as network:
        one = Federation.found(network, tmp_path_factory.mktemp("forgetting"), TERMS, CLIENTS)
        for number in range(1, CLIENTS):
            one.client(number).register()
        one.run({1, 2, 3, 4})
        states["trained"], vectors["trained"] = one.state(), one.present_vectors(1, 2, 3, 4)

        centroid = int(one.notebook(2).centroids[0])
        requests["seeding"] = (2, one.ask(2, [centroid, (centroid + 1) % 20]))
        assert one.ask(2, [centroid, (centroid + 1) % 20]) == requests["seeding"][1]
        one.run({1, 2, 3, 4})
        states["seeding"], vectors["seeding"] = one.state(), one.present_vectors(1, 2, 3, 4)

        ordinary = next(row for row in range(20) if row not in one.notebook(1).centroids)
        requests["ordinary"] = (1, one.ask(1, [ordinary]))
        requests["away"] = (3, one.ask(3, [4, 5, 6]))
        one.run({1, 2, 4}, until="open")
        states["ordinary"] = one.state()
        one.run({1, 2, 3, 4})
        states["away"], vectors["away"] = one.state(), one.present_vectors(1, 2, 3, 4)

        one.client(5).register()
        one.run({1, 2, 3, 4, 5})
        states["joined"] = one.state()

        requests["left"] = (4, one.ask(4, None))
        one.run({1, 2, 3, 4, 5})
        states["left"], vectors["left"] = one.state(), one.present_vectors(1, 2, 3, 5)

        requests["lied"] = (5, one.ask(5, [0]))
        patch = pytest.MonkeyPatch()
        with patch.context() as patched:
            patched.setattr("node.disclosure.kind_of", lambda config: Liar(config))
            one.run({1, 2, 3, 5}, until="open")
        one.run({1, 2, 3, 5})
        states["lied"] = one.state()
        history = capture(network, one.deployment)
        history.verify()
        yield Story(one, states, requests, history, chain_facts(history), history.records(), vectors)


def certificate(story: Story, name: str) -> Certificate:
    client, request = story.requests[name]
    return certify(story.facts, story.records, story.federation.store, client, request.digest)


def test_the_audit_verifies_all_of_it(story):
    verdict = Auditor(story.facts, story.records, story.federation.store).run()
    assert verdict.verdict == "verified", verdict.reason


@pytest.mark.parametrize("name", ["trained", "seeding", "away", "left"])
def test_each_state_holds_the_sum_of_the_vectors_in_the_journals(story, name):
    assert story.states[name].counts == story.vectors[name]


def test_a_request_is_honoured_in_the_next_round(story):
    trained, after = story.states["trained"], story.states["seeding"]
    assert trained.samples == 80 and after.samples == 78
    assert after.contributions[2].samples == 18 and after.contributions[2].round == 2
    assert after.contributions[1] == trained.contributions[1]


def test_who_is_away_is_waited_for_and_who_is_there_is_not_kept_waiting(story):
    assert {name: story.states[name].samples for name in ("ordinary", "away")} == {"ordinary": 77, "away": 74}
    assert story.states["ordinary"].contributions[3].samples == 20
    assert story.states["away"].contributions[3].samples == 17


def test_who_joins_later_is_summed_as_well(story):
    joined = story.states["joined"]
    assert joined.samples == 94 and joined.contributions[1] == story.states["away"].contributions[1]


def test_who_leaves_is_in_no_sum_any_more(story):
    left = story.states["left"]
    assert sorted(left.contributions) == [1, 2, 3, 5] and len({part.round for part in left.contributions.values()}) == 1
    assert np.isnan(story.federation.notebook(4).points).all() and not story.federation.notebook(4).vectors


def test_points_that_were_taken_back_are_overwritten(story):
    client, request = story.requests["seeding"]
    notebook = story.federation.notebook(client)
    assert np.isnan(notebook.points[list(request.rows)]).all()
    assert np.isnan(notebook.points).any(axis=1).sum() == len(request.rows)
    assert not set(request.rows) & set(notebook.centroids.tolist())


def test_a_sum_that_does_not_add_up_fails_the_round_and_is_repeated(story):
    failed = [record for record in story.records if isinstance(record, Failed)]
    assert [record.reason for record in failed] == [FailureReason.INVALID_UPDATE]
    evidence = json.loads(story.federation.store.fetch(failed[0].evidence, 1 << 16))
    assert "its clients state" in evidence["reason"]
    assert story.states["lied"].contributions[5].samples == 19


@pytest.mark.parametrize(
    ("name", "recomputed", "sentence"),
    [
        ("seeding", "seeding", "the 2 points that client 2 took back"),
        ("ordinary", "nothing", "No centroid was drawn again: bins only lost points"),
        ("left", "all", "without any point of client 4: the 4 clients that it counts were summed anew"),
    ],
)
def test_a_certificate_says_what_was_computed_again(story, name, recomputed, sentence):
    found = certificate(story, name)
    assert found.table["recomputed"] == recomputed and sentence in found.sentence
    again = Certificate.from_bytes(found.to_bytes())
    assert certificate_fault(again, story.facts, story.records, story.federation.store) is None
    assert found.table["before"]["points"] - found.table["after"]["points"] == {"left": 20}.get(
        name, len(story.requests[name][1].rows)
    )


def test_a_certificate_names_the_round_that_honoured_the_request_and_not_the_one_that_missed_it(story):
    number = {name: certificate(story, name).table["round"]["number"] for name in ("ordinary", "away", "left")}
    assert number["ordinary"] < number["away"] < number["left"]


def test_the_explorer_says_since_which_round_a_request_is_honoured_as_the_certificate_does(story, tmp_path):
    store = story.federation.store
    index = Index(tmp_path / "index.sqlite", story.federation.deployment)
    index.add(story.history)
    survey(index, store, 1, 10_000)
    source = LiveSource(story.federation.network, story.federation.deployment, store, "embedded", "fedgrove audit …")
    overview, models = (Pages(Watch(source, index)).render(path) for path in ("", "models/"))
    shown = [(each.client, each.round) for each in forgettings(index, Checks(Sight()))]
    index.close()
    rounds = {name: certificate(story, name).table["round"]["number"] for name in story.requests}
    assert shown == [(client, rounds[name]) for name, (client, _) in story.requests.items()]
    assert "Federated K-means: 2 centres of points with 2 coordinates" in overview
    assert "all its points, for good" in overview and "not yet" not in overview
    assert "Accuracy" not in overview and "counts of points over bins" in models


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("statement",), "All is well."),
        (("recomputed",), "nothing"),
        (("round", "number"), 1),
        (("round", "closed_at"), 1),
        (("after", "model"), "00" * 32),
        (("after", "points"), 1),
        (("request", "points"), 1),
        (("request", "account"), "0x" + "00" * 20),
        (("request", "client"), 1),
        (("request", "digest"), "00" * 32),
        (("ledger",), "0x" + "00" * 20),
        (("bins_gained",), 7),
        (("more",), 1),
    ],
)
def test_a_certificate_that_was_changed_is_found_out(story, path, value):
    table = json.loads(certificate(story, "left").to_bytes())
    place = table
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    forged = Certificate.from_bytes(Certificate(table).to_bytes())
    verdict = Auditor(story.facts, story.records, story.federation.store).so_far()
    verdict = with_certificate(verdict, forged, story.facts, story.records, story.federation.store)
    assert verdict.exit_code == 1 and verdict.first_bad_record.field.startswith("certificate")


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
    assert found.table["round"] is None and found.table["recomputed"] == "nothing"


def test_requests_that_cannot_be_honoured_are_refused_before_they_are_on_the_ledger(story):
    records = [record for record in story.records if isinstance(record, Withdrawn)]

    def refuse(number: int, rows, sentence: str) -> None:
        with pytest.raises(CannotForget, match=sentence):
            ask(None, number, story.federation.journal(number), records, rows)

    refuse(1, [20], "there is no point 20: they are numbered from 0 to 19")
    refuse(1, [*story.requests["ordinary"][1].rows, 19], "has been taken back before")
    left = set(range(20)) - set(story.requests["ordinary"][1].rows)
    refuse(1, left, "use --all")
    refuse(4, [1], "client 4 has left")
    with pytest.raises(CannotForget, match="taken part in no round"):
        ask(None, 9, Journal(story.federation.directory / "nobody", bytes(32)), [], [1])


def test_a_withdrawal_by_somebody_else_is_a_bad_record(story):
    index = next(place for place, record in enumerate(story.records) if isinstance(record, Withdrawn))
    forged = list(story.records)
    forged[index] = replace(forged[index], client=1)
    verdict = Auditor(story.facts, forged, story.federation.store).run()
    assert verdict.first_bad_record.field == "withdrawal"


def test_a_state_that_keeps_a_point_is_found_out(story):
    """The coordinator closes with the counts as they were, and with samples to match."""
    store, config = story.federation.store, story.federation.config
    closed = [place for place, record in enumerate(story.records) if isinstance(record, Closed)]
    right = fetch_model(store, story.records[closed[1]].model_digest, config)
    before = fetch_model(store, story.records[closed[0]].model_digest, config)
    kept = {**right.contributions, 2: replace(right.contributions[2], samples=20)}
    for wrong in (
        before,
        State(before.counts, kept, right.centres),
        State(right.counts, right.contributions, before.centres),
    ):
        forged = list(story.records)
        digest = store.put(wrong.to_bytes()).digest
        forged[closed[1]] = replace(forged[closed[1]], model_digest=digest)
        bad = Auditor(story.facts, forged, store).run().first_bad_record
        assert (bad.round, bad.field) == (2, "closed.model") or wrong.to_bytes() == right.to_bytes()


def test_the_first_round_starts_from_no_points(story):
    opened = next(place for place, record in enumerate(story.records) if type(record).__name__ == "RoundOpened")
    state = story.federation.store.put(story.states["trained"].to_bytes()).digest
    forged = list(story.records)
    forged[opened] = replace(forged[opened], model_digest=state)
    bad = Auditor(story.facts, forged, story.federation.store).run().first_bad_record
    assert bad.round == 1 and "points that nobody contributed" in bad.reason


def test_who_never_answers_is_waited_for_twice_as_long_each_time(story):
    """As if the fourth client had never answered in the first two rounds, nor in a third."""
    kind, rounds, trained = ClusteringUploads(story.federation.config), Rounds(), story.states["trained"]
    others = {client: part for client, part in trained.contributions.items() if client != 4}
    without = State(trained.counts, others, trained.centres)
    waits = []
    for record in story.records:
        rounds.add(record)
        if isinstance(record, Closed):
            waits.append(kind.due(rounds, lambda: without, record.at.block) - record.at.block)
            if record.round == 2:
                break
    assert waits == [TERMS.retry_blocks] * 2
    second = rounds.rounds[2]
    rounds.rounds[3] = replace(second, opened=replace(second.opened, round=3))
    assert kind.due(rounds, lambda: without, 0) == second.end.at.block + 2 * TERMS.retry_blocks


def test_a_round_waits_for_requests_to_gather(story):
    patient = replace(story.federation.config, clustering=replace(TERMS, gather_blocks=40))
    rounds = Rounds()
    for record in story.records:
        rounds.add(record)
        if isinstance(record, Withdrawn):
            break
    for config, wait in ((story.federation.config, 0), (patient, 40)):
        due = ClusteringUploads(config).due(rounds, lambda: story.states["trained"], record.at.block)
        assert due == record.at.block + wait


def test_a_request_survives_the_way_there_and_back():
    request = Request.new([5, 3, 5])
    assert request.rows == (3, 5) and Request.from_bytes(request.to_bytes()) == request
    assert Request.new([]).points == 0 and request.salt not in repr(request)
    for wrong in (b"", b"{}", request.to_bytes() + b" ", b'{"rows":[2,1],"salt":"' + b"00" * 32 + b'"}'):
        with pytest.raises(InvalidRequest):
            Request.from_bytes(wrong)


def test_twenty_dimensions_are_summed_exactly_by_clients_that_forget_all_but_their_journals(tmp_path):
    """There, bins are hashed, and their coordinates summed beside the counts."""
    with embedded() as network:
        wide = Federation.found(network, tmp_path, WIDE, 3)
        for number in (1, 2, 3):
            wide.client(number).register()
        wide.run({1, 2, 3})
        wide.ask(1, [0, 1, 2])
        wide.run({1, 2, 3}, restarting=True)
        history = capture(network, wide.deployment)
        assert wide.state().samples == 57 and wide.state().counts == wide.present_vectors(1, 2, 3)
        assert WIDE.grid.piece_count > 1
        assert Auditor(chain_facts(history), history.records(), wide.store).run().verdict == "verified"
