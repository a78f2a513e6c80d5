"""What others publish of clusters, mutated, goes to the parsers and on to whoever uses what they give.

The base is a real federation's (``clusters_story``): its states, statements, metrics, messages, answers and ballots.
Mutants of states and statements are of two kinds: anything anywhere, and others that may be. A mutant is refused with a
declared error, or used by clients' course, uploads, audit, status and explorer without any other error, in bounded time
and memory. The default run has 200 mutants of each kind, ``-m statistics`` 3,000.
"""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from fedgrove.chain.records import Closed, RoundOpened
from fedgrove.chain.signatures import sign_message
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import StoreError, TooLarge
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.explorer.clusters import Left, hear
from fedgrove.node.methods.procfl.codec import ClusterCodec
from fedgrove.node.methods.procfl.comparing import Party
from fedgrove.node.methods.procfl.ecdh import Comparison, read_points
from fedgrove.node.methods.procfl.evidence import Evidence, Rule
from fedgrove.node.methods.procfl.mailbox import NotForReader, unseal
from fedgrove.node.methods.procfl.messages import InvalidMessage
from fedgrove.node.methods.procfl.round_inputs import accepted, ballots_in, course_of, numbers_in, state_after
from fedgrove.node.methods.procfl.standing import cluster_standing
from fedgrove.node.methods.procfl.state import STAGES, ClusterState
from fedgrove.node.methods.procfl.stated import InvalidStatement, Stated
from fedgrove.node.methods.procfl.statements import ClusterStatements
from fedgrove.node.methods.procfl.suspicion import shown
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.aggregation import recovery
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.content import InvalidBlob, Metrics
from fedgrove.node.roles.client import Client

from tests.node.methods.procfl.story import CLIENTS, Story

pytestmark = pytest.mark.xdist_group("clusters")

REFUSED = (InvalidModel, InvalidBlob, InvalidStatement)
SECONDS, BYTES = 30.0, 256 << 20

MANY = pytest.mark.statistics
COUNTS = [200, pytest.param(3000, marks=MANY)]
ODD = [None, True, -1, 0, 1, 1 << 31, 1 << 53, 1 << 64, 0.5, 1e300, "", "x", "ab" * 32, [], [[]], {}, [0], [[1], []]]


def mutated(value: object, random: Random) -> object:
    """A copy of a JSON value with one thing changed: replaced, removed, repeated, cut short, moved by one."""
    if isinstance(value, dict | list) and value and random.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(list(keys))
        copy = value.copy()
        roll = random.random()
        if roll < 0.7:
            copy[key] = mutated(value[key], random)
        elif roll < 0.8:
            del copy[key]
        elif isinstance(copy, dict):
            copy[random.choice(["7", "-1", "99999999999", "x", "1e3", str(key) + "0"])] = value[key]
        elif roll < 0.9:
            copy.insert(random.randrange(len(copy) + 1), value[key])
        else:
            copy = copy[: random.randrange(len(copy))]
        return copy
    if type(value) is int and random.random() < 0.6:
        return value + random.choice([-1, 1, 1 << 16, 1 << 32])
    return random.choice(ODD)


def other_state(head: dict, random: Random) -> dict:
    """A state's head with some things others that may be."""
    clients, several = head["clients"] or list(range(1, 8)), len(head["clusters"])

    def some(of: list[int], least: int = 0) -> list[int]:
        return sorted(random.sample(of, random.randint(min(least, len(of)), len(of))))

    def apart() -> list[list[int]]:
        places = {client: random.randrange(several + 1) for client in clients}
        return [[client for client in clients if places[client] == k] for k in range(several)]

    def case(cluster: int) -> dict:
        mixed = random.sample(clients, len(clients))
        cut = random.randint(1, len(clients) - 1)
        suspects, pool = sorted(mixed[:cut]), sorted(mixed[cut:])
        members, committee = some(suspects, 1), some(pool, 1)
        if random.random() < 0.4:
            members = committee = []
        against = random.choice([[], [random.randrange(4) for _ in members]])
        named = {"suspects": suspects, "pool": pool, "members": members, "committee": committee, "against": against}
        return {"cluster": cluster, **named}

    def labels() -> list[list[int]]:
        rows = [random.choice([[], [random.randrange(1, 1 << 18) for _ in range(10)]]) for _ in range(several)]
        return rows if any(rows) else []

    def scores() -> dict:
        tested = [random.randrange(40) for _ in range(9)] + [7]
        rows = [[random.randint(0, most) for most in tested] for _ in range(head["references"])]
        return {"tested": tested, "right": rows}

    changes: list[Callable[[], dict]] = [
        lambda: {"stage": random.choice(STAGES)},
        lambda: {"trained": random.randrange(20)},
        lambda: {"clusters": [some(clients) for _ in range(several)]},
        lambda: {"groups": random.choice([apart(), []]), "spoilt": []},
        lambda: {"spoilt": some(list(range(len(head["groups"]))))},
        lambda: {"judged": {str(client): random.randrange(9) for client in some(clients)}},
        lambda: {"expelled": {str(client): random.randrange(max(1, several)) for client in some(clients)}},
        lambda: {"cases": [case(cluster) for cluster in some(list(range(several)))]},
        lambda: {"labels": labels()},
        scores,
        lambda: {
            "sets": {str(client): ["ab" * 32, random.randrange(1, 999)] for client in clients},
            "overlaps": [],
        },
    ]
    for change in random.sample(changes, random.randint(1, 4)):
        head = {**head, **change()}
    return head


def other_statement(table: dict, random: Random) -> dict:
    """A statement of other overlaps, or of other right answers."""
    overlaps = [list(row) for row in table["overlaps"]]
    for _ in range(random.randrange(1, 30) if overlaps else 0):
        left, right = random.sample(range(len(overlaps)), 2)
        overlaps[left][right] = overlaps[right][left] = random.randint(0, overlaps[left][right])
    right = [[random.randint(0, most) for most in table["tested"]] for _ in table["right"]]
    return {**table, "overlaps": overlaps, "right": right}


def flipped(data: bytes, random: Random) -> bytes:
    """Bytes with some changed, removed, repeated, or added."""
    copy = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(copy) + 1)
        roll = random.random()
        if roll < 0.5 and place < len(copy):
            copy[place] ^= 1 << random.randrange(8)
        elif roll < 0.7:
            del copy[place : place + random.randrange(1, 40)]
        elif roll < 0.85:
            copy[place:place] = random.randbytes(random.randrange(1, 40))
        else:
            copy[place:place] = copy[: random.randrange(1, 80)]
    return bytes(copy)


def canonical(value: object) -> bytes:
    """As the code writes it: clients, which are keys of tables, in the order of their numbers."""
    return json.dumps(_keyed(value), sort_keys=True, separators=(",", ":")).encode()


def _keyed(value: object) -> object:
    if isinstance(value, list):
        return [_keyed(each) for each in value]
    if not isinstance(value, dict):
        return value
    numbers = all(key.isdecimal() for key in value)
    return {int(key) if numbers else key: _keyed(each) for key, each in value.items()}


class Overlay:
    """The story's store, with the mutants' blobs beside it in memory."""

    def __init__(self, under: DiskStore) -> None:
        self._under, self._own = under, {}

    def keep(self, data: bytes) -> bytes:
        """The digest of a blob that is there until the next mutant's."""
        digest = cid_of(data).digest
        self._own[digest] = data
        return digest

    def forget(self) -> None:
        self._own.clear()

    def fetch(self, digest: bytes, most: int) -> bytes:
        if digest not in self._own:
            return self._under.fetch(digest, most)
        if len(self._own[digest]) > most:
            raise TooLarge(digest.hex(), f"more than {most} bytes")
        return self._own[digest]

    def stream(self, digest: bytes, most: int) -> Iterator[bytes]:
        yield self.fetch(digest, most)

    def __getattr__(self, name: str) -> object:
        return getattr(self._under, name)


class Arena:
    """The story's blobs, and everybody who reads them."""

    def __init__(self, story: Story, count: int) -> None:
        self.story, self.random, self.count = story, Random(count), count
        self.config, self.store = story.federation.config, Overlay(story.federation.store)
        self.course, self.kind = course_of(self.config), ClusterCodec(self.config)
        self.account = story.federation.coordinator_keys.account
        self.used = 0

    @cached_property
    def states(self) -> list[ClusterState]:
        """What rounds closed with, with models of two parameters."""
        small = {"w": np.zeros(2, np.float32)}
        kinds = ("models", "references", "trials")
        return [
            replace(state, **{kind: (small,) * len(getattr(state, kind)) for kind in kinds})
            for state in self.story.states()
        ]

    @cached_property
    def stated(self) -> list[Metrics]:
        return self.story.stated()

    @cached_property
    def member(self) -> Client:
        """A client that looks back."""
        client = self.story.federation.client(8, store=self.store, check_rounds=1.0)
        client.view.refresh()
        return client

    def mutants(self) -> Iterator[Random]:
        """So many turns, each of which must end in time and without much memory."""
        tracemalloc.start()
        try:
            for _ in range(self.count):
                tracemalloc.reset_peak()
                before, start = tracemalloc.get_traced_memory()[0], time.process_time()
                yield self.random
                self.store.forget()
                assert time.process_time() - start < SECONDS
                assert tracemalloc.get_traced_memory()[1] - before < BYTES
        finally:
            tracemalloc.stop()

    def signed(self, stated: Stated, digest: bytes) -> Stated:
        return replace(stated, signature=sign_message(self.account, stated.message(digest)))

    def called_for(self, state: ClusterState) -> Stated | None:
        """What a coordinator that signs anything would state of a state."""
        if state.stage not in ("count", "watch"):
            return None
        tested = state.tested if any(state.tested) else (9,) * 10
        rows = [[self.random.randint(0, most) for most in tested] for _ in (*state.models, *state.trials)]
        overlaps = [[0] * len(state.clients) for _ in state.clients]
        for place, client in enumerate(state.clients):
            overlaps[place][place] = state.sizes[client]
        if state.stage == "count":
            return self.signed(Stated(tuple(map(tuple, overlaps))), bytes(32))
        return self.signed(Stated(right=tuple(map(tuple, rows)), tested=tuple(tested)), bytes(32))

    def use(self, state: ClusterState) -> None:
        """What clients, uploads, audit, status and explorer do with a state that was accepted."""
        self.used += 1
        random, course = self.random, self.course
        clients = sorted({*range(1, CLIENTS + 2), *list(state.clients)[:20]})
        numbers = {client: random.choice([1, 2, 3, 4, 1 << 31]) for client in clients}
        groups = course.groups(state, numbers)
        if state.stage == "train":
            weights = course.weights(state, groups)
            assert all(weights[client] > 0 for group in groups for client in group)
            course.believed(state, numbers)
        for client in clients[:12]:
            course.options(state, client)
            if state.stage == "train":
                course.number_of(state, client, 0, (1,) * 10)
        draws = {client: SimpleNamespace(samples=n, mask_key=b"\1" * 32) for client, n in numbers.items()}
        current = SimpleNamespace(draws=draws, sealed=True, commits={}, order=tuple(clients))
        assert numbers_in(draws) == numbers
        positions = {client: place for place, client in enumerate(clients)}
        graph = SimpleNamespace(groups=tuple(tuple(positions[client] for client in group) for group in groups))
        inputs = SimpleNamespace(previous=state, current=current, graph=graph, config=self.config, only_evaluates=False)
        for client in clients[:12]:
            assert 0 <= self.kind.expected_bytes(inputs, client) < 1 << 40
        if state.stage == "show":
            state = course.seated(state, random.randbytes(32))
            after = shown(state)
            assert after.stage in ("vote", "train")
        if state.stage == "vote":
            course.voted(state, {case.cluster: [] for case in state.cases})
        cluster_standing(course, state, current, committing=True)
        Left.from_row(*Left(state).to_row())
        assert ClusterState.outline(state.head()).head() == state.head()


@pytest.fixture(params=COUNTS)
def arena(story, request) -> Arena:
    return Arena(story, request.param)


def test_states(arena):
    """A member that closes a round in the coordinator's stead, whose state nobody signs."""
    for random in arena.mutants():
        state = random.choice(arena.states)
        if random.random() < 0.85:
            head = json.loads(state.head())
            if random.random() < 0.6:
                head = other_state(head, random)
            for _ in range(random.choice([0, 0, 1, 2])):
                head = mutated(head, random)
            data = canonical(head) if random.random() < 0.95 else flipped(canonical(head), random)
            whole = len(data).to_bytes(8) + data + state.to_bytes()[8 + len(state.head()) :]
        else:
            whole = flipped(state.to_bytes(), random)
            data = whole[8 : 8 + len(state.head())]
        for read in (lambda whole=whole: ClusterState.from_bytes(whole), lambda data=data: ClusterState.outline(data)):
            try:
                found = read()
            except InvalidModel:
                continue
            try:
                arena.use(accepted(arena.config, found, bytes(32), arena.called_for(found)))
            except InvalidStatement:
                continue
    assert arena.used >= arena.count / 4


def test_statements(arena):
    """A coordinator that signs whatever it states, of any state that rounds may have closed with."""
    numbers = [k for k, metrics in enumerate(arena.stated) if metrics.stated is not None]
    for random in arena.mutants():
        k = random.choice(numbers)
        state, table = arena.states[k], dict(arena.stated[k].stated)
        if random.random() < 0.6:
            table = other_statement(table, random)
        for _ in range(random.choice([0, 0, 1, 2])):
            table = mutated(table, random)
        digest = cid_of(state.to_bytes()).digest
        try:
            lie = arena.signed(replace(Stated.from_table(table), signature=b""), digest)
            arena.use(accepted(arena.config, random.choice([state, state, random.choice(arena.states)]), digest, lie))
        except InvalidStatement:
            pass
        metrics = canonical({**json.loads(arena.stated[k].to_bytes()), "stated": table})
        left = hear(state.head(), digest, metrics, arena.config)
        assert left is None or Left.from_row(*left.to_row())
    assert arena.used >= arena.count / 4


def test_metrics_that_a_round_closed_with(arena):
    """To clients that check the closing, to the audit, and to whoever is to go on from it."""
    story, number = arena.story, 4
    records = story.history.records()
    place = next(k for k, each in enumerate(records) if isinstance(each, Closed) and each.round == number)
    after = next(each for each in records if isinstance(each, RoundOpened) and each.round == number + 1)
    auditor = Auditor(chain_facts(story.history), records[:place], arena.store)
    auditor.add((), story.history.head_block)
    auditor._content.closed |= {number, number + 1}
    assert auditor.run().verdict == "verified"
    truth = records[place]
    member, current = arena.member, arena.member.view.rounds.rounds[number]
    # The sum is the same for all; it is the metrics that are read anew.
    codec = member._context.method.codec
    member._context.method.codec = Known(
        codec, codec.outcome(member._context.inputs(current), _recovery(story, number))
    )
    for random in arena.mutants():
        value = json.loads(arena.stated[number - 1].to_bytes())
        value = mutated(mutated(value, random), random) if random.random() < 0.8 else mutated(value, random)
        data = canonical(value) if random.random() < 0.9 else flipped(canonical(value), random)
        end = replace(truth, metrics_digest=arena.store.keep(data))
        current.end = end
        fault = member._context.closings.fault(current)
        current.end = truth
        assert isinstance(fault, str) and "failed with" not in fault
        auditor.rounds.rounds[number].end = end
        try:
            auditor._content._check(after)
            state_after(auditor.rounds.rounds[number], arena.config, arena.store)
        except (*REFUSED, RuleBroken, StoreError):
            pass
        arena.used += bool(fault)
    assert arena.used > arena.count / 2


def _recovery(story: Story, number: int):
    inputs = story.place(number)
    return recovery(inputs, story.federation.store.fetch(inputs.current.recovered.digest, 1 << 24))


class Known:
    """A codec whose sum of a round is known."""

    def __init__(self, codec: ClusterCodec, right: object) -> None:
        self._codec, self._right = codec, right

    def __getattr__(self, name: str) -> object:
        return getattr(self._codec, name)

    def outcome(self, *_: object) -> object:
        return self._right


def test_closings_in_an_audit(arena):
    """Mutated states and metrics as the closing of a round: the verdict is a bad record, never another error."""
    story = arena.story
    records = story.history.records()
    number = 2
    place = next(k for k, each in enumerate(records) if isinstance(each, Closed) and each.round == number)
    auditor = Auditor(chain_facts(story.history), records[:place], arena.store)
    auditor._content.closed |= {number}
    assert auditor.run().verdict == "verified"
    state, metrics, truth = story.states()[number - 1], story.stated()[number - 1], records[place]
    for random in arena.mutants():
        head = mutated(json.loads(state.head()), random) if random.random() < 0.5 else json.loads(state.head())
        said = mutated(json.loads(metrics.to_bytes()), random)
        data = canonical(head)
        whole = len(data).to_bytes(8) + data + state.to_bytes()[8 + len(state.head()) :]
        end = replace(truth, model_digest=arena.store.keep(whole), metrics_digest=arena.store.keep(canonical(said)))
        try:
            auditor._content._check(end)
        except RuleBroken as failure:
            assert failure.record.round == number
            arena.used += 1
        # And those that would go on from it, before anybody has disputed it.
        rounds = arena.member.view.rounds
        current, before = rounds.rounds[number], rounds.rounds[number].end
        current.end = end
        try:
            method_of(arena.config).inputs(rounds, rounds.rounds[number + 1], (1, "0x" + "5f" * 20), arena.store)
        except (*REFUSED, StoreError):
            pass
        finally:
            current.end = before
    assert arena.used > arena.count / 2


# --- messages ---------------------------------------------------------------------------------------------------------


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
            arena.used += _refused(use, InvalidMessage)
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
        _refused(lambda sealed=sealed: unseal([keys.mailbox], sealed, bytes.fromhex(state.session)), NotForReader)
        if random.random() < 0.1:  # to count all pairs takes a while
            digest = arena.store.keep(sealed)
            commits = {**inputs.current.commits, client: replace(inputs.current.commits[client], digest=digest)}
            odd = replace(inputs, current=replace(inputs.current, commits=commits), store=arena.store)
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
        _refused(lambda data=data: Evidence.from_bytes(data[45:]), ValueError)


def test_what_members_show(arena):
    """A judge opens what it can of it, and has no model of who showed something else."""
    story = arena.story
    place = story.place(11)
    state = place.previous
    (case,) = state.cases
    judge = case.committee[0]
    work = story.federation.client(judge, store=arena.store)._context.work._committee
    base = place.rounds.base_of(11)
    member = case.members[0]
    shown_blob, truth = arena.store.fetch(base.commits[member].digest, 1 << 16), base.commits[member]
    try:
        for random in arena.mutants():
            odd = flipped(shown_blob, random)
            base.commits[member] = replace(truth, digest=arena.store.keep(odd))
            told = work._told(place, state, case, judge)
            assert all(len(secret) == 32 for secret in told.values())
            arena.used += member not in told
    finally:
        base.commits[member] = truth
    assert arena.used
