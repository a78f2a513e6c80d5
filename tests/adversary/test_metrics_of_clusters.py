"""Members that lie about how their cluster's model does, and holders who want one member's metrics.

A liar would void the metrics of everybody, so each group is summed apart. Who holds enough shares knows the sum of a
round that the ledger lets fail; were the same metrics summed again when it is repeated, without one member, the
difference would be that member's. So they are sent once, and who makes a round fail takes its metrics away, as the
threat model says.
"""

from types import MappingProxyType

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Failed, Phase
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.procfl import codec, evaluating
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.training.metric_sums import SENT_BEFORE
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.coordinator.summing import Close
from tests.adversary.clustered import SAMPLES, coordinator, found
from tests.node.federation import sending, with_phase, with_word

GROUPS, LIAR, COMPARING = (0, 0, 0, 1, 1, 1), 4, 2
HELD = SAMPLES // 4


def a_thousand_right(inputs, upload):
    """More right answers than there can be, in every round with metrics; seven words are behind them."""
    return with_word(upload, -8, 1000) if inputs.previous.stage == "train" else upload


class Withholding(Close):
    """Does not close the first round of training, whose shares are released."""

    def act(self, turn):
        if turn.current.number != COMPARING + 1:
            return super().act(turn)
        return Step.wait("recover", "nobody", turn.deadlines.recover_end)


@pytest.fixture
def attacked(tmp_path):
    """``attacked(kind)``: a federation with such members, by number, of two groups of three, that has run."""
    with embedded() as network:

        def run(kinds=MappingProxyType({}), kind=Coordinator, trained=1, repeats=0):
            terms = {"seats": 0, "evaluation": EvaluationSettings(0.25), "repeats": repeats}
            made = found(network, tmp_path, GROUPS, COMPARING + trained, **terms)
            made.register()
            everybody = range(1, len(GROUPS) + 1)
            made.run(
                coordinator(made, kind),
                {number: made.client(number, kinds.get(number, Client)) for number in everybody},
            )
            return made

        yield run


def stated(federation):
    return [each.members for each in federation.stated()[COMPARING:]]


def test_a_liar_takes_the_metrics_of_its_own_group_alone(attacked):
    federation = attacked({LIAR: sending(a_thousand_right)})
    assert [(each.there, each.samples) for each in stated(federation)] == [(True, 3 * HELD)] * 2
    assert federation.audit().verdict == "verified"


@pytest.mark.mutants
def test_if_groups_were_checked_together_one_liar_would_take_everybodys(attacked, monkeypatch):
    honestly = evaluating.evaluated

    def at_once(inputs, sums):
        known = [each for each in sums if each.words is not None]
        group = tuple(client for each in known for client in each.group)
        behind = np.add.reduce([each.behind for each in known], axis=0, dtype=WORD)
        return honestly(inputs, [type(known[0])(group, known[0].words, behind=behind)])

    monkeypatch.setattr(codec, "evaluated", at_once)
    assert not any(each.there for each in stated(attacked({LIAR: sending(a_thousand_right)})))


def test_metrics_of_the_same_models_are_not_summed_again(attacked):
    federation = attacked(kind=with_phase(Coordinator, Phase.RECOVER, Withholding), repeats=2)
    assert [record.round for record in federation.of(Failed)] == [COMPARING + 1]
    repeated, last = stated(federation)
    assert (repeated.samples, repeated.sums, repeated.void) == (0, {}, SENT_BEFORE.void) and last.samples == 6 * HELD
    assert federation.audit().verdict == "verified"


@pytest.mark.mutants
def test_if_they_were_holders_of_shares_would_have_two_sums_of_them(attacked, monkeypatch):
    monkeypatch.setattr(Openings, "are_repeated", lambda openings, current: False)
    kind = with_phase(Coordinator, Phase.RECOVER, Withholding)
    assert stated(attacked(kind=kind, repeats=2))[0].samples == 6 * HELD


def a_monster_at_first(inputs, upload):
    """One word so large in the first round of training that the sum of its group is no model."""
    first = inputs.previous.stage == "train" and inputs.current.number == COMPARING + 1
    return with_word(upload, 0, 2_000_000_000) if first else upload


@pytest.fixture
def sent(monkeypatch):
    """Whether any word of the metrics in each group's sum is not zero, by round."""
    seen, honestly = {}, evaluating.evaluated

    def evaluated(inputs, sums):
        seen[inputs.current.number] = [int(each.behind.any()) for each in sums]
        return honestly(inputs, sums)

    monkeypatch.setattr(codec, "evaluated", evaluated)
    return seen


def test_of_a_model_that_stayed_since_its_sum_was_spoilt_nobody_sends_metrics_again(attacked, sent):
    federation = attacked({LIAR: sending(a_monster_at_first)}, trained=2)
    first, second, last = stated(federation)
    assert [each.samples for each in (first, second, last)] == [3 * HELD, 3 * HELD, 6 * HELD]
    assert sorted(sent[COMPARING + 2]) == [0, 1] and sent[COMPARING + 3] == [1, 1]
    assert federation.audit().verdict == "verified"


@pytest.mark.mutants
def test_if_they_did_its_holders_would_have_two_sums_of_them(attacked, sent, monkeypatch):
    monkeypatch.setattr(ClusterState, "is_measured", lambda state, cluster: False)
    federation = attacked({LIAR: sending(a_monster_at_first)}, trained=2)
    assert stated(federation)[1].samples == 6 * HELD and sent[COMPARING + 2] == [1, 1]
