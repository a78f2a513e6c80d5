"""Members with a few keys, with or without the coordinator, who want to be a cluster's judges.

They want to see its members' models and to expel them. A committee of whoever was left over did that: with three
clusters suspected at once, by a false statement or by poison of their own, two keys were all judges of eight members.
What stops it: a committee has all its seats or there is none; the pool that it is drawn from holds half of all who
trained; lots are drawn when the fall is on the ledger, and never again; half of a cluster at most is judged on one
vote; a vote counts only with evidence that it follows from; a committee that says nothing expels nobody and stops
nothing.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import SeedFixed
from fedgrove.node.masking.opening import open_update
from fedgrove.node.masking.ring import encode
from fedgrove.node.methods.procfl import committee, suspicion
from fedgrove.node.methods.procfl import round_inputs as cluster_rounds
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot, by_lot, drawn_members, pool_of
from fedgrove.node.methods.procfl.committee_work import CommitteeWork
from fedgrove.node.methods.procfl.evidence import Evidence, Finding, Rule
from fedgrove.node.methods.procfl.round_inputs import lots_of  # another module's story replaces the module's
from fedgrove.node.methods.procfl.similarity import in_the_clear
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.roles.client import Client
from tests.adversary import clustered
from tests.node.federation import Federation
from tests.node.masking.rounds import Round

GROUPS = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2)
VICTIMS, ACCOMPLICES = set(range(1, 9)), {9, 10, 11}
FEW_COLLUDE = MaskingSettings(colluders=0.1)  # else three clusters are too small to be summed
ROUNDS = 3 + 4  # compare, count labels; train twice, show, vote


@pytest.fixture
def federation(tmp_path) -> Iterator[Federation]:
    with embedded() as network:
        made = clustered.found(network, tmp_path, GROUPS, ROUNDS, seats=5, shown="upload", masking=FEW_COLLUDE)
        made.register()
        yield made


class Spies:
    """Accomplices that vote against everybody, and note whose models they saw."""

    def __init__(self, clients: dict[int, Client]) -> None:
        self.seen: set[int] = set()
        for number in ACCOMPLICES:
            work = clients[number].context.work._committee
            work._models = self._noting(work._models)
            work.votes = self._against_all(work.votes)

    def _noting(self, models):
        def noting(number, case, told):
            found = models(number, case, told)
            self.seen.update(found)
            return found

        return noting

    def _against_all(self, votes):
        def against_all(number, state, client, computed):
            votes(number, state, client, computed)  # for what it sees
            away = Finding(b"\1" * 32, -10_000, 10_000)
            cases = [case for case in state.cases if client in case.committee]
            lies = (Evidence((away,) * len(case.members)) for case in cases)
            return b"".join(committee.signed_off(lie, client, Rule()) for lie in lies)

        return against_all


def attack(made: Federation) -> tuple[list, Spies]:
    """After the second round of training the coordinator says that both clusters of the victims fell."""
    role, clients = clustered.coordinator(made), made.clients()
    spies = Spies(clients)

    def lie(state, truth):
        others = [k for k, members in enumerate(state.clusters) if not ACCOMPLICES & set(members)]
        return clustered.nothing_right(truth, *others) if state.trained == 2 else truth

    clustered.state_falsely(made, role, lie)
    made.run(role, clients)
    return clustered.states(made), spies


def test_a_handful_judges_nobody(federation):
    states, spies = attack(federation)
    assert not spies.seen and not states[-1].expelled and not any(state.cases for state in states)
    assert states[-1].trained == 4  # training goes on, from the models before the fall that was stated
    assert federation.audit().verdict == "verified"


def leftovers(monkeypatch, drawn=drawn_members) -> None:
    """As it was: who is outside all suspected clusters judges, however few they are; a majority is one of them."""
    monkeypatch.setattr(suspicion, "is_fair", lambda terms, pool, trained: pool > 0)

    def seated(terms, state, case, lots, opens):
        members = drawn(case.suspects, len(state.groups[case.cluster]) // 2, lots, {}, opens)
        return replace(case, members=tuple(members), committee=case.pool[: terms.seats])

    monkeypatch.setattr(suspicion, "_seated", seated)


@pytest.mark.mutants
def test_without_full_committees_three_keys_see_and_expel_half_of_two_clusters(federation, monkeypatch):
    leftovers(monkeypatch)
    states, spies = attack(federation)
    assert len(spies.seen) == 4 and spies.seen <= VICTIMS and set(states[-1].expelled) == spies.seen


@pytest.mark.mutants
def test_without_halves_either_they_see_and_expel_everybody(federation, monkeypatch):
    leftovers(monkeypatch, drawn=lambda suspects, *_: sorted(suspects))
    states, spies = attack(federation)
    assert spies.seen == VICTIMS == set(states[-1].expelled)
    assert federation.audit().verdict == "verified"  # nothing on the ledger shows it


# --- the next attackers: to be drawn ----------------------------------------------------------------------------------

SEATS, MEMBERS, LIARS = 3, 12, 3


def captured(least_pool: float, least_overlap: float, alike: bool) -> float:
    """How often accomplices get a majority of the seats, over many falls, if the coordinator states which they are.

    Of the others, who train in groups of four, it accuses as many as leave a committee. Accomplices claim samples of
    all labels. ``alike``: honest members have some of all, too.
    """
    counts = np.eye(4, dtype=np.int64)[np.arange(MEMBERS + LIARS) % 3] * 40 + (4 if alike else 0)
    counts[MEMBERS:] = 11 if alike else 500
    similarity = in_the_clear(counts)
    honest, liars = list(range(MEMBERS)), list(range(MEMBERS, MEMBERS + LIARS))
    groups = [tuple(honest[start::3]) for start in range(3)]
    terms = ProCflTerms(
        seats=SEATS,
        counter="ab" * 32,
        signer="0x" + "ab" * 20,
        least_pool=least_pool,
        least_overlap=least_overlap,
    )
    best, lots = 0.0, random.Random(7)
    for accused in range(1, 4):
        free = {client for group in groups[accused:] for client in group} | set(liars)
        pool = pool_of(similarity, groups[0], free, least_overlap)
        if not suspicion.is_fair(terms, len(pool), MEMBERS + LIARS):
            continue
        drawn = (by_lot(pool, lots.randbytes(32), "judge")[:SEATS] for _ in range(2000))
        best = max(best, sum(2 * len(set(liars).intersection(seats)) > SEATS for seats in drawn) / 2000)
    return best


def test_a_coordinator_that_accuses_most_of_the_others_does_not_choose_the_judges():
    """With half of all who trained in the pool, three of fifteen are rarely two of three judges."""
    fair, few = captured(0.5, 0.1, alike=True), captured(0.0, 0.1, alike=True)
    assert few == 1.0  # it accuses all the others, and who is left are the accomplices
    assert fair < 0.25


def test_who_claims_samples_of_all_labels_is_not_the_only_judge_where_honest_members_have_none():
    assert captured(0.5, 0.01, alike=False) == 0.0 and captured(0.0, 0.01, alike=False) == 1.0


@pytest.mark.parametrize(
    ("pool", "accomplices", "seats", "documented"),
    [
        (90, 5, 5, 0.0008),
        (90, 10, 3, 0.032),
        (90, 20, 5, 0.071),
        (50, 10, 5, 0.048),
        (50, 20, 5, 0.31),
        (50, 10, 9, 0.01),
    ],
)
def test_accomplices_have_a_majority_as_often_as_the_documentation_says(pool, accomplices, seats, documented):
    """docs/clustering.md, of 100 who trained; played by lot."""
    tries = 3000
    drawn = (by_lot(range(1, pool + 1), lot.to_bytes(32), "judge")[:seats] for lot in range(tries))
    often = sum(2 * sum(judge <= accomplices for judge in each) > seats for each in drawn) / tries
    spread = (documented * (1 - documented) / tries) ** 0.5
    assert abs(often - documented) < 4 * spread + 0.05 * documented  # figures are rounded


class Seeded(RoundRecords):
    """A round of the ledger, of which there is a number, a seed, and whether it closed."""

    number = 0
    stands = False


def ledger(seeds: list[bytes]) -> Rounds:
    """Round 4 fell; each round after it came to nothing, but for its seed."""
    rounds = Rounds()
    for number, seed in enumerate([b"", *seeds], 4):
        current = Seeded(SimpleNamespace(round=number))
        current.number, current.stands = number, number == 4
        if seed:
            current.once[SeedFixed] = SimpleNamespace(seed=seed)
        rounds.rounds[number] = current
    return rounds


def majorities(drawn_by, lot: int) -> int:
    """How many of 40 repeated rounds have accomplices as two of three judges, of twelve who may."""
    seeds = random.Random(lot)
    rounds, found = ledger([seeds.randbytes(32) for _ in range(40)]), 0
    for number in range(5, 45):
        seats = by_lot(range(1, 13), drawn_by(rounds, number), "judge")[:3]
        found += len({1, 2, 3}.intersection(seats)) > 1
    return found


def test_who_has_the_round_repeated_gets_the_same_judges():
    assert {majorities(lots_of, lot) for lot in range(50)} <= {0, 40}
    rounds = ledger([b"\1" * 32, b"\2" * 32])
    assert lots_of(rounds, 5) == lots_of(rounds, 6) == b"\1" * 32
    assert lots_of(ledger([b"", b"\2" * 32]), 6) == b"\2" * 32  # one that was skipped has no seed
    assert lots_of(ledger([b""]), 5) is None


@pytest.mark.mutants
def test_if_each_round_drew_anew_they_would_be_drawn_in_time():
    def anew(rounds, number):
        return rounds.rounds[number].seed.seed

    assert sum(majorities(anew, lot) > 0 for lot in range(20)) >= 19  # each alone in 99.6 of 100


# --- the next attackers: whose masks come off besides -----------------------------------------------------------------


def bare(n: int, seed: int, guarded: bool) -> int:
    """How many who are not drawn a judge reads, bit for bit, when half of the suspects have told it their mask secrets.

    They were summed in groups of three to five: who is in one has masks with nobody else.
    """
    everybody = tuple(range(n))
    groups = tuple(everybody[start : start + 3] for start in range(0, n - n % 3, 3))
    groups = (*groups[:-1], groups[-1] + everybody[n - n % 3 :])
    made = Round.make(n, seed, groups=groups)
    clients = [made.graph.client(place) for place in everybody]
    record = made.record({place: made.blob(place) for place in everybody}, everybody, everybody)
    current = SimpleNamespace(commits=dict.fromkeys(clients))
    opens = cluster_rounds.opened_by(SimpleNamespace(current=current, graph=made.graph, survivors=everybody))
    lots = seed.to_bytes(32)
    drawn = set(drawn_members(clients, n // 2, lots, {}, opens if guarded else None))
    told = {place: made.secrets[place].mask_secret for place in everybody if clients[place] in drawn}
    read = 0
    for place in everybody:
        if clients[place] in drawn:
            continue
        words = open_update(made.graph, place, told, everybody, record, made.masked(place, everybody))
        if words is not None:
            own = made.graph.participants[place].samples
            plain = encode(made.vectors[place], made.layout, own, made.graph.total_samples, made.bound)
            assert (words == plain).all()
            read += 1
    return read


def test_half_of_a_cluster_is_half_of_it():
    assert sum(bare(n, seed, guarded=True) for n in (6, 8, 10) for seed in range(20)) == 0


@pytest.mark.mutants
def test_without_the_guard_the_secrets_of_half_open_others():
    """A member whose partners are all drawn has no mask left that a judge cannot take off."""
    assert sum(bare(n, seed, guarded=False) > 0 for n in (6, 8, 10) for seed in range(20)) > 20


# --- judges that lie, and judges that say nothing ---------------------------------------------------------------------


def judged(made: Federation, votes) -> list:
    """The federation to its end if one cluster is said to fell, and all its judges vote like this."""
    role, clients = clustered.coordinator(made), made.clients()
    for client in clients.values():
        work = client.context.work._committee
        work.votes = lambda *args, own=work: votes(own, *args)

    def lie(state, truth):
        return clustered.nothing_right(truth, 0) if state.trained == 2 else truth

    clustered.state_falsely(made, role, lie)
    made.run(role, clients)
    return clustered.states(made)


def no_evidence(work: CommitteeWork, number, state, client, computed) -> bytes:
    """Votes against everybody, with the digest of nothing."""
    cases = [case for case in state.cases if client in case.committee]
    return b"".join(_unfounded(case, client) for case in cases)


def _unfounded(case: Case, client: int) -> bytes:
    size = len(case.members)
    ballot = Ballot(client, (True,) * size, os.urandom(32)).to_bytes()
    return ballot + bytes(committee.vote_bytes(size) - len(ballot))


@pytest.mark.parametrize("votes", [no_evidence, lambda *_: b""], ids=["without evidence", "no votes"])
def test_a_committee_that_shows_no_evidence_or_says_nothing_expels_nobody(tmp_path, votes):
    with embedded() as network:
        made = clustered.found(network, tmp_path, (0, 0, 0, 1, 1, 1), ROUNDS, seats=3)
        made.register()
        states = judged(made, votes)
        (case,) = states[-1].cases
        assert len(case.members) == 1 and len(case.committee) == 3 and case.against == (0,)
        assert states[-1].stage == "train" and not states[-1].expelled and made.audit().verdict == "verified"


@pytest.mark.mutants
def test_if_evidence_need_not_open_they_expel(tmp_path, monkeypatch):
    def believed(data, voter, members, rule):
        return Ballot.from_bytes(data[: len(data) - committee.evidence_bytes(members)])

    monkeypatch.setattr(cluster_rounds, "opened_ballot", believed)
    with embedded() as network:
        made = clustered.found(network, tmp_path, (0, 0, 0, 1, 1, 1), ROUNDS, seats=3)
        made.register()
        states = judged(made, no_evidence)
        assert states[-1].cases[0].against == (3,) and len(states[-1].expelled) == 1
