"""A federation whose members find out who is like whom, train in clusters, and judge one of them: a real EVM and store.

Two members of five in one group reverse their updates, four times as long, as soon as each cluster trains alone. One
member joins when all others have compared, and one is restarted after everything that it does.
"""

import json
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from chain.networks import embedded
from chain.records import AbsenceRecorded, Closed, Committed
from node.auditing.archive import chain_facts
from node.auditing.verdict import BadRecord
from node.auditor import Auditor
from node.client import Client
from node.clustering.committee import Ballot
from node.clustering.evidence import Direction, Evidence
from node.clustering.mailbox import NotForReader, unseal
from node.clustering.poisoning import SignFlip
from node.clustering.sets import label_counts
from node.clustering.settings import ClusterTerms, ProCflSettings
from node.clustering.similarity import in_the_clear
from node.clustering.state import ClusterState
from node.clustering.stated import Stated
from node.clustering.training import weighted_mean
from node.config import FederationSettings
from node.content import Metrics
from node.coordinator import Coordinator
from node.evaluation import coordinator_tasks, initial_model
from node.journal import Journal
from node.learning.datasets import load_dataset
from node.learning.settings import PartitionSettings, TrainingSettings
from node.simulation.clustered.run import ClusteredSimulation
from node.simulation.executors import InlineExecutor
from node.simulation.plan import Plan
from node.tensors import Tensors, dump, flatten, unflatten
from node.uploads.clusters import shown_to
from tests.node.federation import Federation

CLIENTS, SEED = 10, 3
QUICK = TrainingSettings(epochs=3, batch_size=10, learning_rate=0.1, momentum=0.5)
ATTACKERS = (1, 3)
FIRST_ATTACK = 3
"""Round of training."""
SETTINGS = {"alpha": 0.5, "global_share": 0.2, "seats": 3, "public_samples": 200}
TRAINING_ROUNDS = 4
ROUNDS = 3 + TRAINING_ROUNDS + 2
LATE, RESTARTED = 11, 4


@dataclass
class Story:
    """The federation when it has ended, a simulation of its first rounds of training, and what was trained by whom."""

    federation: Federation
    simulation: ClusteredSimulation
    trained: dict[tuple[int, int], Tensors]

    def records(self, kind: type) -> list:
        return [record for record in self.federation.history().records() if isinstance(record, kind)]

    def committed(self, number: int) -> list[Committed]:
        return [record for record in self.records(Committed) if record.round == number]

    def audit_with(self, number: int, **changes) -> BadRecord:
        """The first bad record if a round had been closed otherwise."""
        records = [
            replace(record, **changes) if isinstance(record, Closed) and record.round == number else record
            for record in self.federation.history().records()
        ]
        facts = chain_facts(self.federation.history())
        return Auditor(facts, records, self.federation.store).run().first_bad_record

    def closed(self) -> list[Closed]:
        return self.records(Closed)

    def states(self) -> list[ClusterState]:
        fetch = self.federation.store.fetch
        return [ClusterState.from_bytes(fetch(end.model_digest, 1 << 26)) for end in self.closed()]

    def stated(self) -> list[Metrics]:
        fetch = self.federation.store.fetch
        return [Metrics.from_bytes(fetch(end.metrics_digest, 1 << 20)) for end in self.closed()]


def watched(client: Client, trained: dict[tuple[int, int], Tensors], attacks: bool) -> Client:
    """A member that notes what it trained; an attacker reverses it, and shows the same."""
    training = client._work._training
    train = training.result

    def result(entry, number):
        state = client._place(entry).previous
        own = trained[(entry.number, number)] = train(entry, number)
        if not attacks or (state.stage == "train" and state.trained + 1 < FIRST_ATTACK):
            return own
        start, _ = training._begin(entry, number)
        wrong = SignFlip(4.0).model(flatten(own), flatten(start), np.random.default_rng(0))
        return unflatten(np.clip(wrong, -8, 8), state.layout)

    training.result = result
    return client


def coordinator(made: Federation) -> Coordinator:
    keys, config = made.coordinator_keys, made.config
    tasks = coordinator_tasks(config, keys, made.test)
    return Coordinator(made.ledger(keys), made.store, config, initial_model(config), members=CLIENTS, **tasks)


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Story:
    directory = tmp_path_factory.mktemp("clusters")
    plan = Plan(
        clients=CLIENTS,
        sampled=1.0,
        rounds=TRAINING_ROUNDS + 2,
        training=QUICK,
        partition=PartitionSettings("groups", groups=2, others=0.2),
        train_samples=400,
        test_samples=500,
        seed=SEED,
        clustering=ProCflSettings(**{**SETTINGS, "seats": 0}),
    )
    simulation = ClusteredSimulation(plan, load_dataset("digits"), InlineExecutor(), 1, directory / "simulated")
    results = simulation.run()
    next(results), next(results)
    results.close()
    with embedded() as network:
        settings = FederationSettings(rounds=ROUNDS, seed=SEED)
        made = Federation.found(network, directory, CLIENTS + 1, federation=settings, training=QUICK)
        terms = ClusterTerms(**SETTINGS, counter=made.coordinator_keys.mailbox_public.hex())
        made.config = replace(made.config, clusters=terms)
        data = simulation.data
        made.samples = [data.training.take(part) for part in (*data.parts, data.parts[0])]
        made.test = data.test
        clients = {number: made.client(number) for number in range(1, CLIENTS + 1)}
        trained: dict[tuple[int, int], Tensors] = {}
        for number, client in clients.items():
            client.register()
            watched(client, trained, number in ATTACKERS)
        role = coordinator(made)
        said = 0
        while made.turn(role, clients):
            if len(made.said(f"client {RESTARTED}")) > said:
                said = len(made.said(f"client {RESTARTED}"))
                clients[RESTARTED] = watched(made.client(RESTARTED), trained, False)
            if role.round == 3 and LATE not in clients:
                clients[LATE] = made.client(LATE)
        yield Story(made, simulation, trained)


def test_everything_follows_from_ledger_and_store(story):
    verdict = story.federation.audit()
    assert verdict.verdict == "verified" and verdict.rounds == ROUNDS and not verdict.remarks


def test_the_stages_come_in_turn(story):
    stages = [state.stage for state in story.states()]
    assert stages == ["answer", "count", "train", "watch", "watch", "watch", "vote", "train", "watch"]


def test_overlaps_are_those_of_the_formula_and_clusters_those_of_the_simulation(story):
    counts = np.array([label_counts(samples.y, 10) for samples in story.federation.samples[:CLIENTS]])
    state = story.states()[2]
    assert state.clients == tuple(range(1, CLIENTS + 1))
    assert (np.array(state.overlaps) == in_the_clear(counts).overlaps).all()
    assert state.clusters == story.simulation.clusters.members == ((1, 3, 5, 7, 9), (2, 4, 6, 8, 10))


def test_both_groups_label_counts_are_sums_and_nobodys_own(story):
    counts = np.array([label_counts(samples.y, 10) for samples in story.federation.samples[:CLIENTS]])
    labels = story.states()[2].labels
    assert labels == (tuple(counts[0::2].sum(axis=0)), tuple(counts[1::2].sum(axis=0)))


def test_the_models_are_those_of_the_simulation_to_the_bit(story):
    before = story.states()[4]
    assert before.trained == 2 and len(before.models) == 1
    assert dump(before.models[0]) == dump(story.simulation.tensors)


def test_each_cluster_has_the_mean_of_its_own(story):
    fetch, state = story.federation.store.fetch, story.states()[5]
    assert state.groups == ((1, 3, 5, 7, 9), (2, 4, 6, 8, 10)) and len(state.models) == 2
    own = [flatten(story.trained[(6, client)]) for client in state.groups[1]]
    mean = weighted_mean(own, [Fraction(1, 5)] * 5, state.layout, story.federation.config.masking.bound)
    assert (flatten(state.models[1]) == mean).all()
    uploads = {record.client: fetch(record.digest, 1 << 24) for record in story.committed(6)}
    assert uploads.pop(LATE) == b"" and {len(upload) for upload in uploads.values()} == {4 * state.layout.length}


def test_a_majority_expels_the_attackers_and_nobody_else(story):
    suspected, judged = story.states()[6:8]
    (case,) = judged.cases
    assert suspected.cases[0].members == case.members == (1, 3, 5, 7, 9) and set(case.committee) <= set(range(2, 11, 2))
    assert dict(zip(case.members, case.against, strict=True)) == {1: 3, 3: 3, 5: 0, 7: 0, 9: 0}
    assert judged.expelled == dict.fromkeys(ATTACKERS, 0) and judged.clusters[0] == (5, 7, 9)
    assert dump(judged.models[0]) == dump(story.states()[4].models[0])  # the best before the fall
    assert story.states()[8].groups == ((5, 7, 9), (2, 4, 6, 8, 10))


def test_ballots_are_public_and_their_evidence_is_kept_by_the_judges(story):
    federation = story.federation
    (case,) = story.states()[7].cases
    ballots = {record.client: federation.store.fetch(record.digest, 1 << 16) for record in story.committed(8)}
    assert {client for client, data in ballots.items() if data} == set(case.committee)
    for judge in case.committee:
        ballot = Ballot.from_bytes(ballots[judge])
        kept = json.loads(
            Journal(federation.directory / f"client-{judge}", federation.keys[judge - 1].storage).kept("evidence-8-0")
        )
        assert ballot.voter == judge and ballot.evidence == _digest_of(kept)


def test_shown_models_are_for_the_judges_only(story):
    """Everybody's keys but the judges' open nothing of what the suspected members put into the store."""
    federation, state = story.federation, story.states()[6]
    (case,) = state.cases
    blob = next(record for record in story.committed(7) if record.client == case.members[2]).digest
    data = federation.store.fetch(blob, 1 << 24)
    length = len(data) // len(case.committee)
    everybody = [federation.coordinator_keys, *federation.keys]
    for place, judge in enumerate(case.committee):
        readers = [
            k
            for k, keys in enumerate(everybody)
            if _opens(story, keys, case.members[2], judge, data[place * length :][:length])
        ]
        assert readers == [judge]


def test_the_secrets_of_the_comparison_are_destroyed(story):
    for number in range(1, CLIENTS + 1):
        journal = Journal(story.federation.directory / f"client-{number}", story.federation.keys[number - 1].storage)
        assert journal.kept("comparison") == b""


def test_answers_open_for_the_counter_alone(story):
    federation = story.federation
    uploads = {record.client: federation.store.fetch(record.digest, 1 << 24) for record in story.committed(2)}
    session = bytes.fromhex(story.states()[0].session)
    assert unseal([federation.coordinator_keys.mailbox], uploads[1], session)
    for keys in federation.keys:
        with pytest.raises(NotForReader):
            unseal([keys.mailbox], uploads[1], session)


def test_the_late_member_takes_part_in_nothing_and_is_not_absent(story):
    assert LATE not in story.states()[-1].clients
    assert not [record for record in story.records(AbsenceRecorded)]
    assert story.federation.said(f"client {LATE}").count("committed") == ROUNDS - 3


LIES = {
    "a size": (2, lambda m: {"overlaps": ((99, *m.clusters.overlaps[0][1:]), *m.clusters.overlaps[1:])}),
    "one model's score of two": (6, lambda m: {"right": m.clusters.right[:1]}),
    "more right than tested": (5, lambda m: {"right": tuple(tuple(n + 999 for n in row) for row in m.clusters.right)}),
}


@pytest.mark.parametrize("lie", LIES)
def test_the_audit_names_statements_that_cannot_be(story, lie):
    number, change = LIES[lie]
    truth = story.stated()[number - 1]
    wrong = replace(truth, clusters=replace(truth.clusters, **change(truth)))
    bad = story.audit_with(number, metrics_digest=story.federation.store.put(wrong.to_bytes()).digest)
    assert (bad.round, bad.field) == (number, "closed.metrics")


@pytest.mark.parametrize("number", [4, 8])
def test_a_statement_out_of_turn_or_missing_is_bad(story, number):
    truth = story.stated()[number - 1]
    stated = None if truth.clusters else Stated(tested=(1,))
    digest = story.federation.store.put(replace(truth, clusters=stated).to_bytes()).digest
    bad = story.audit_with(number, metrics_digest=digest)
    assert (bad.round, bad.field) == (number, "closed.metrics")


VERDICTS = {
    "nobody": lambda state: {"expelled": {}, "clusters": story_clusters(state)},
    "one without a majority": lambda state: {"expelled": {**state.expelled, 5: 0}},
    "votes": lambda state: {"cases": (replace(state.cases[0], against=(3, 3, 2, 0, 0)),)},
}


@pytest.mark.parametrize("lie", VERDICTS)
def test_the_audit_counts_the_votes_itself(story, lie):
    state = story.states()[7]
    wrong = replace(state, **VERDICTS[lie](state))
    bad = story.audit_with(8, model_digest=story.federation.store.put(wrong.to_bytes()).digest)
    assert (bad.round, bad.field) == (8, "closed.model")


def test_a_ballot_that_was_exchanged_is_found(story):
    """A judge's ballot for one that votes against an honest member: the state is not what the ballots say."""
    federation, judge = story.federation, story.states()[7].cases[0].committee[0]
    record = next(record for record in story.committed(8) if record.client == judge)
    ballot = Ballot.from_bytes(federation.store.fetch(record.digest, 1 << 16))
    other = federation.store.put(replace(ballot, against=(True,) * 5).to_bytes()).digest
    records = [replace(each, digest=other) if each == record else each for each in federation.history().records()]
    bad = Auditor(chain_facts(federation.history()), records, federation.store).run().first_bad_record
    assert (bad.round, bad.field) == (8, "closed.model")


def test_members_refuse_what_the_coordinator_cannot_have_counted(story):
    """A client that recomputes the round says so, and would dispute it."""
    federation = story.federation
    client = federation.client(2)
    client.view.refresh()
    entry = client.view.rounds.rounds[2]
    truth = story.stated()[1]
    wrong = replace(truth, clusters=Stated(overlaps=((1,),)))
    entry.end = replace(entry.end, metrics_digest=federation.store.put(wrong.to_bytes()).digest)
    assert "overlaps" in client._closings.fault(entry)


def test_rsa_finds_the_overlaps_with_no_counter(tmp_path):
    """The paper's protocol among three members: all of it follows from the ledger, and is verified."""
    with embedded() as network:
        settings = FederationSettings(rounds=5)
        made = Federation.found(network, tmp_path, 3, federation=settings, training=QUICK)
        made.config = replace(made.config, clusters=ClusterTerms(alpha=0.3, psi="rsa"))
        made.samples = [samples.take(np.arange(12)) for samples in made.samples]
        made.register()
        tasks = coordinator_tasks(made.config, made.coordinator_keys, made.test)
        assert set(tasks) == {"evaluate", "statements"}
        role = Coordinator(
            made.ledger(made.coordinator_keys), made.store, made.config, initial_model(made.config), **tasks
        )
        made.run(role)
        story = Story(made, None, {})
        counts = np.array([label_counts(samples.y, 10) for samples in made.samples])
        states = story.states()
        assert [state.stage for state in states] == ["ask", "answer", "report", "train", "train"]
        assert (np.array(states[3].overlaps) == in_the_clear(counts).overlaps).all() and states[4].trained == 1
        assert made.audit().verdict == "verified" and not any(metrics.clusters for metrics in story.stated())


def story_clusters(state: ClusterState):
    return ((1, 3, 5, 7, 9), *state.clusters[1:])


def _opens(story: Story, keys, member: int, judge: int, sealed: bytes) -> bool:
    client = story.federation.client(2)
    client.view.refresh()
    try:
        unseal([keys.mailbox], sealed, shown_to(client._place(client.view.rounds.rounds[7]), member, judge))
    except NotForReader:
        return False
    return True


def _digest_of(kept: dict) -> bytes:
    """The digest that evidence in a judge's journal has."""
    tables = kept["evidence"]
    directions = tuple(None if each is None else Direction(**each) for each in tables["directions"])
    rows = tuple(None if row is None else tuple(row) for row in tables["right"])
    evidence = Evidence(tuple(tables["tested"]), tuple(tables["reference"]), rows, directions)
    return evidence.digest([bytes.fromhex(each) for each in kept["models"]], bytes.fromhex(kept["salt"]))
