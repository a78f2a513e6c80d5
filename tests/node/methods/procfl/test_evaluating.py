"""Members of clusters evaluate the models that they train from: exact sums under masks, which an audit recomputes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fedgrove.chain.keys import Keys
from fedgrove.chain.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.held_out import HoldOutRule, marks_of, split
from fedgrove.node.learning.partition import groups
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.learning.training import held_out_sums
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.procfl.evaluating import metrics_sent_before
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.hold_out import KEPT
from fedgrove.node.methods.training.metric_sums import sums_of
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator

from tests.node.federation import Federation

CLIENTS, COMPARING, LIAR, HELD = 6, 2, 4, 10
QUICK = TrainingSettings(epochs=5, batch_size=10, learning_rate=0.1, momentum=0.5)
HELD_OUT = EvaluationSettings(0.25)

pytestmark = pytest.mark.xdist_group("clusters that evaluate")


class LyingMember(Client):
    """Claims a thousand right answers more than it can have, in every round with metrics."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        codec = self._context.disclosure._method.codec
        encode = codec.encode

        def lying(inputs, *rest):
            upload = encode(inputs, *rest)
            if inputs.previous.stage != "train":
                return upload
            words = np.frombuffer(upload, WORD).copy()
            words[-7:-6] += np.uint32(1000)  # the right answers; behind them are two sums of three words
            return words.tobytes()

        codec.encode = lying


def run(network, directory, trained=3, patience=0, liar=None, training=QUICK, global_share=0.3):
    """A federation in two groups of three with main labels of their own, that has run."""
    keys, rounds = Keys.generate(), COMPARING + trained
    own = {"counter": keys.mailbox_public.hex(), "signer": keys.address}
    made = Federation.found(
        network,
        directory,
        CLIENTS,
        coordinator=keys,
        federation=FederationSettings(rounds=rounds, patience=patience),
        training=training,
        evaluation=HELD_OUT,
        method=ProCflTerms(alpha=0.5, global_share=global_share, seats=0, **own),
        membership=MembershipSettings("approved"),
    )
    data = load_dataset("digits").train()
    parts = groups(data.y, CLIENTS, 2, 0.2, np.random.default_rng(3))
    made.samples = [data.take(part[: 4 * HELD]) for part in parts]
    made.register()
    members = {number: made.client(number) for number in range(1, CLIENTS + 1)}
    if liar is not None:
        members[liar] = made.client(liar, LyingMember)
    method = method_of(made.config)
    aides = method.aides(keys, made.test)
    made.run(
        Coordinator(made.ledger(keys), made.store, made.config, method.first_model(), aides, members=CLIENTS), members
    )
    return made


@pytest.fixture
def network():
    with embedded() as made:
        yield made


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    with embedded() as made:
        yield run(made, tmp_path_factory.mktemp("honest"))


def closed(federation):
    return [record for record in federation.records() if isinstance(record, Closed)]


def stated(federation):
    fetch = federation.store.fetch
    return [Metrics.from_bytes(fetch(end.metrics_digest, 1 << 20)).members for end in closed(federation)]


def states(federation):
    return [ClusterState.from_bytes(federation.store.fetch(end.model_digest, 1 << 26)) for end in closed(federation)]


def measured(federation, model_of):
    """The members' sums, found again from their data and their journals' rules: of the model of each."""
    total = None
    for number in range(1, CLIENTS + 1):
        kept = federation.client(number)._context.journal.kept(KEPT)
        rule, samples = HoldOutRule(kept[:32], HELD_OUT.millionths, kept[32:]), federation.samples[number - 1]
        held_out = samples.take(split(marks_of(samples, rule), rule).held_out)
        own = sums_of(held_out_sums(federation.config.trained, model_of(number), held_out), HELD_OUT)
        totals = {name: own.sums[name] + (total.sums[name] if total else 0) for name in own.sums}
        total = MembersMetrics(own.samples + (total.samples if total else 0), totals)
    return total


def test_members_evaluate_the_model_of_their_cluster_and_the_sums_are_exact(honest):
    federation = honest
    found, models = stated(federation), states(federation)
    assert found[:COMPARING] == [None, None]
    assert [each.last for each in found[COMPARING:]] == [False, False, False, True]
    assert {each.samples for each in found[COMPARING:]} == {CLIENTS * HELD}
    last = models[-2]
    assert len(last.models) == 2 and models[-1].to_bytes() == last.to_bytes()
    cluster = {client: number for number, members in enumerate(last.groups) for client in members}
    assert len(cluster) == CLIENTS
    assert found[-1].sums == measured(federation, lambda client: last.models[cluster[client]]).sums
    assert found[COMPARING].sums == measured(federation, lambda client: models[0].models[0]).sums
    assert found[-1].loss < 0.95 * found[COMPARING].loss
    assert federation.audit().verdict == "verified"


def test_a_liar_takes_the_metrics_of_its_own_group_alone(network, tmp_path):
    federation = run(network, tmp_path, liar=LIAR)
    found = stated(federation)[COMPARING:]
    assert f"right answers of {CLIENTS * HELD}" in found[0].void  # one model for all, so one group
    assert [each.samples for each in found[1:]] == [CLIENTS // 2 * HELD] * 3
    assert federation.audit().verdict == "verified"


def test_only_a_loss_that_stays_with_a_model_for_each_cluster_ends_the_training(network, tmp_path):
    federation = run(network, tmp_path, 6, patience=1, training=replace(QUICK, learning_rate=1e-6), global_share=0.3)
    found = stated(federation)[COMPARING:]
    assert [bool(each.ending) for each in found] == [False, False, True, True]
    assert [each.last for each in found] == [False, False, False, True]
    assert federation.audit().verdict == "verified"


@pytest.mark.parametrize("closing", [-2, -1])
def test_false_metrics_of_a_coordinator_are_found(honest, closing):
    end = closed(honest)[closing]
    metrics = Metrics.from_bytes(honest.store.fetch(end.metrics_digest, 1 << 20))
    sums = {**metrics.members.sums, "right": metrics.members.sums["right"] + 1}
    lie = replace(metrics, members=replace(metrics.members, sums=sums))
    member = honest.client(1, check_rounds=1.0)
    member.view.refresh()
    current = member.view.rounds.rounds[end.round]
    assert member._context.closings.fault(current) == ""
    current.end = replace(current.end, metrics_digest=honest.store.put(lie.to_bytes()).digest)
    assert "members' metrics are not the sum of what they sent" in member._context.closings.fault(current)


class Standing(RoundRecords):
    stands = True


@pytest.mark.parametrize(("commits", "known"), [(2, False), (3, True)])
def test_metrics_of_the_same_models_are_never_summed_twice(commits, known):
    """Two sums in which one member is missing would show that member's metrics."""
    base, failed, again = (
        kind(SimpleNamespace(round=n)) for n, kind in enumerate((Standing, RoundRecords, RoundRecords), 1)
    )
    failed.commits.update(dict.fromkeys(range(1, commits + 1)))
    base.commits.update(dict.fromkeys(range(1, 9)))
    inputs = SimpleNamespace(rounds=Rounds(rounds={1: base, 2: failed, 3: again}), current=again)
    assert metrics_sent_before(inputs) is known


@pytest.mark.parametrize("stage", ["labels", "show", "vote"])
def test_nobody_counts_shows_or_judges_when_the_training_has_ended(stage):
    model = {"w": np.zeros(3, np.float32)}
    state = replace(ClusterState.first(model), stage=stage).at_rest
    assert state.stage == "train" and not state.cases
    assert ClusterState.first(model).at_rest == ClusterState.first(model)
