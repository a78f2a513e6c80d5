"""Members of clusters evaluate the models that they train from: exact sums under masks, which an audit recomputes."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.node.learning.held_out import HoldOutRule, marks_of, split
from fedgrove.node.learning.networks import held_out_sums
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.training.hold_out import KEPT
from fedgrove.node.methods.training.metric_sums import sums_of
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.status.federation import ClusterStageReader
from tests.adversary.clustered import SAMPLES, coordinator, found

CLIENTS, COMPARING, HELD = 6, 2, SAMPLES // 4
HELD_OUT = EvaluationSettings(0.25)

pytestmark = pytest.mark.xdist_group("clusters that evaluate")


def run(network, directory, trained=3, **terms):
    """A federation in two groups of three that has run; its members hold out a quarter of their samples."""
    made = found(network, directory, (0, 0, 0, 1, 1, 1), COMPARING + trained, seats=0, evaluation=HELD_OUT, **terms)
    made.register()
    made.run(coordinator(made))
    return made


@pytest.fixture
def network():
    with embedded() as made:
        yield made


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    with embedded() as made:
        yield run(made, tmp_path_factory.mktemp("honest"), global_share=0.3)


def closed(federation):
    return federation.of(Closed)


def stated(federation):
    return [each.members for each in federation.stated()]


def states(federation):
    return [ClusterState.from_bytes(federation.store.fetch(end.model_digest, 1 << 26)) for end in closed(federation)]


def measured(federation, model_of):
    """The members' sums, found again from their data and their journals' rules: of the model of each."""
    total = None
    for number in range(1, CLIENTS + 1):
        kept = federation.client(number).context.journal.kept(KEPT)
        rule, samples = HoldOutRule(kept[:32], HELD_OUT.millionths, kept[32:]), federation.samples[number - 1]
        held_out = samples.take(split(marks_of(samples, rule), rule).held_out)
        own = sums_of(held_out_sums(federation.config.network, model_of(number), held_out), HELD_OUT)
        totals = {name: own.sums[name] + (total.sums[name] if total else 0) for name in own.sums}
        total = MembersMetrics(own.samples + (total.samples if total else 0), totals)
    return total


def test_members_evaluate_the_model_of_their_cluster_and_the_sums_are_exact(honest):
    said, models = stated(honest), states(honest)
    assert said[:COMPARING] == [None, None]
    assert [each.last for each in said[COMPARING:]] == [False, False, False, True]
    assert {each.samples for each in said[COMPARING:]} == {CLIENTS * HELD}
    last = models[-2]
    assert len(last.models) == 2 and models[-1].to_bytes() == last.to_bytes()
    cluster = {client: number for number, members in enumerate(last.groups) for client in members}
    assert len(cluster) == CLIENTS
    assert said[-1].sums == measured(honest, lambda client: last.models[cluster[client]]).sums
    assert said[COMPARING].sums == measured(honest, lambda client: models[0].models[0]).sums
    assert said[-1].loss < 0.95 * said[COMPARING].loss
    assert honest.audit().verdict == "verified"


def test_status_says_that_the_last_models_are_evaluated(honest):
    view = LedgerView(honest.ledger(honest.coordinator_keys))
    view.refresh()
    reader = ClusterStageReader(honest.config, honest.store, (honest.network.chain_id, honest.deployment.ledger))
    assert reader.read(view)["clusters"].doing == "members evaluate the last models"


def test_only_a_loss_that_stays_with_a_model_for_each_cluster_ends_the_training(network, tmp_path):
    stalled = TrainingSettings(epochs=1, batch_size=20, learning_rate=1e-6)
    federation = run(network, tmp_path, 6, patience=1, training=stalled, global_share=0.3)
    said = stated(federation)[COMPARING:]
    assert [bool(each.ending) for each in said] == [False, False, True, True]
    assert [each.last for each in said] == [False, False, False, True]
    assert federation.audit().verdict == "verified"


@pytest.mark.parametrize("closing", [-2, -1])
def test_false_metrics_of_a_coordinator_are_found(honest, closing):
    end = closed(honest)[closing]
    metrics = Metrics.from_bytes(honest.store.fetch(end.metrics_digest, 1 << 20))
    sums = {**metrics.members.sums, "right": metrics.members.sums["right"] + 1}
    lie = metrics.replace(members=metrics.members.replace(sums=sums))
    member = honest.client(1, check_rounds=1.0)
    member.view.refresh()
    current = member.view.rounds.rounds[end.round]
    assert member.context.closings.fault(current) == ""
    current.end = replace(current.end, metrics_digest=honest.store.put(lie.to_bytes()).digest)
    assert "members' metrics are not the sum of what they sent" in member.context.closings.fault(current)


@pytest.mark.parametrize("stage", ["labels", "show", "vote"])
def test_nobody_counts_shows_or_judges_when_the_training_has_ended(stage):
    model = {"w": np.zeros(3, np.float32)}
    state = replace(ClusterState.first(model), stage=stage).at_rest
    assert state.stage == "train" and not state.cases
    assert ClusterState.first(model).at_rest == ClusterState.first(model)
