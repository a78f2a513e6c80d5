"""What ``fedgrove status`` shows of a federation with clusters, at every point of its history (``clusters_story``)."""

from dataclasses import replace

import pytest

from fedgrove.chain.records import Closed, Committed
from fedgrove.chain.records.deployment import Terms
from fedgrove.chain.records.phases import Deadlines
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.cli.status import Display
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, crowd
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings
from fedgrove.node.status.federation import ClusterStageReader, StatusReader, waiting_for_statement
from fedgrove.node.status.setbacks import setbacks
from fedgrove.node.status.standing import Standing
from tests.node.methods.procfl.story import LATE, ROUNDS

pytestmark = pytest.mark.xdist_group("clusters")


class Then:
    """What a view of the ledger was when it held so many records."""

    def __init__(self, story, count: int) -> None:
        records = story.history.records()[:count]
        self.rounds, self.block = Rounds(), records[-1].at.block
        self._settings = story.federation.config.ledger
        for record in records:
            self.rounds.add(record)

    def deadlines(self, current) -> Deadlines:
        return current.deadlines(self._settings)


def before(story, kind: type, number: int) -> Then:
    """When the first record of a kind in a round was not there yet."""
    records = story.history.records()
    return Then(story, next(k for k, each in enumerate(records) if isinstance(each, kind) and each.round == number))


def place_of(story) -> tuple[int, str]:
    return story.history.chain_id, story.federation.deployment.ledger


@pytest.fixture
def read(story):
    reader = ClusterStageReader(story.federation.config, story.federation.store, place_of(story))
    return lambda then: reader.read(then)["clusters"]


def test_each_round_says_what_it_is_for_and_who_is_awaited(story, read):
    stages = [read(before(story, Committed, number)) for number in range(1, ROUNDS + 1)]
    judging = ["train", "show", "vote"]
    assert [each.stage for each in stages] == ["blind", "answer", "labels", "train", *judging, "train", *judging]
    assert all(each.awaited == each.acting and LATE not in each.acting for each in stages)
    states = story.states()
    for number in (6, 10):
        (case,) = states[number].cases
        assert stages[number - 1].awaited == case.members and stages[number].awaited == tuple(sorted(case.committee))
        assert " vote on clients " in stages[number].doing


def test_the_coordinator_alone_is_waited_for_where_it_states_something(story, read):
    none = setbacks(Rounds(), Terms(64 * "1", 64 * "1"), 10)
    anyone = Standing(9, 10, 2, "recover", (), "the coordinator or any stand-by to close", 20, none)
    told = {
        number: waiting_for_statement(anyone, read(before(story, Closed, number))).waiting
        for number in range(1, ROUNDS + 1)
    }
    alone = {number for number, waiting in told.items() if waiting != anyone.waiting}
    assert alone == {number for number, metrics in enumerate(story.stated(), 1) if metrics.stated is not None}
    assert told[2] == "the coordinator to close: only it can state how much the sets have in common"
    earlier = replace(anyone, phase="commit")
    assert waiting_for_statement(earlier, read(before(story, Closed, 2))) == earlier


def test_at_the_end_there_are_clusters_and_who_was_expelled(story):
    made = story.federation
    ledger = made.ledger(made.keys[0])
    now = StatusReader(made.network, ledger, made.config, made.store).read()
    rows = Display(made.deployment).rows(now)
    assert {("clusters", "5, 7, 9 | 6, 8, 10"), ("expelled", "clients 1, 2, 3, 4")} <= set(rows)
    assert now.standing.finished and "stage" not in dict(rows)


def test_clusters_of_fewer_than_a_sum_needs_are_said_while_rounds_are_left(story):
    """By these terms three may be summed; by others five of eleven, and clusters have three and five, then three."""
    made, needed = story.federation, crowd(LATE, DEFAULT_ASSUMED)
    strict = replace(made.config, masking=MaskingSettings())
    ledger, last = made.ledger(made.keys[0]), before(story, Closed, ROUNDS)
    for terms, counts in ((made.config, []), (strict, [(0, 3)])):
        standing = ClusterStageReader(terms, made.store, place_of(story)).read(last)["clusters"]
        assert [(each.cluster, len(each.members)) for each in standing.small] == counts
    assert needed == 5
    now = StatusReader(made.network, ledger, strict, made.store).read()
    running = replace(now, standing=replace(now.standing, finished=False))
    told = [text for name, text in Display(made.deployment).rows(running) if name == "warning"]
    assert len(told) == 2 and told[0].startswith(f"cluster 1 has 3 members, but a sum needs {needed}, ")
    assert "warning" not in dict(Display(made.deployment).rows(now))


def test_a_store_that_lacks_the_state_is_named_and_other_federations_have_no_clusters(story, tmp_path):
    made = story.federation
    ledger = made.ledger(made.keys[0])
    lacking = StatusReader(made.network, ledger, made.config, DiskStore(tmp_path)).read()
    assert dict(Display(made.deployment).rows(lacking))["clusters"].startswith("unknown, because the store cannot be ")
    plain: FederationConfig = replace(made.config, method=TrainingTerms())
    assert StatusReader(made.network, ledger, plain, made.store).read().clusters is None
