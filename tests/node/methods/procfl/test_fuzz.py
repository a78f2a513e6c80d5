"""What others publish of clusters, mutated, goes to the parsers and on to whoever uses what they give.

The base is a real federation's (``clusters_story``): its states, statements, metrics, messages, answers and ballots.
Mutants of states and statements are of two kinds: anything anywhere, and others that may be. A mutant is refused with a
declared error, or used by clients' course, uploads, audit, status and explorer without any other error, in bounded time
and memory. The default run has 200 mutants of each kind, ``-m statistics`` 3,000.
"""

import json
from dataclasses import replace

import pytest

from fedgrove.chain.records import Closed, RoundOpened
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import NotFound, StoreError
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.methods.procfl.codec import ClusterCodec
from fedgrove.node.methods.procfl.round_inputs import accepted, state_after
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.aggregation import named_recovery
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.status.clusters import Left, hear
from tests.node.methods.procfl.mutated import canonical, flipped, mutated, other_state, other_statement
from tests.node.methods.procfl.story import Story

pytestmark = pytest.mark.xdist_group("clusters")

REFUSED = (InvalidContent,)


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
            except InvalidContent:
                continue
            try:
                arena.use(accepted(arena.config, found, bytes(32), arena.called_for(found)))
            except InvalidContent:
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
            lie = arena.signed(Stated.from_table(table).replace(signature=""), digest)
            arena.use(accepted(arena.config, random.choice([state, state, random.choice(arena.states)]), digest, lie))
        except InvalidContent:
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
    codec = member.context.method.codec
    member.context.method.codec = Known(codec, codec.outcome(member.context.inputs(current), _recovery(story, number)))
    for random in arena.mutants():
        value = json.loads(arena.stated[number - 1].to_bytes())
        value = mutated(mutated(value, random), random) if random.random() < 0.8 else mutated(value, random)
        data = canonical(value) if random.random() < 0.9 else flipped(canonical(value), random)
        end = replace(truth, metrics_digest=arena.store.keep(data))
        current.end = end
        try:
            fault = member.context.closings.fault(current)
        except NotFound as lack:  # members judge that when they have waited for the recovery record
            fault = str(lack)
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
    return named_recovery(inputs)


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
