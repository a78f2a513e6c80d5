"""Members that lie about rates under client-level privacy, and tasks that measure nonsense.

Nobody sees a member's own rate, nor, for the noise, whether it was in the sum. An honest client's software moves the
sum by e at most, whatever its task says. Who leaves that software behind can add what it likes: beyond what all could
tell together it makes the rates void, and the model stands; within that it moves the mean, which the threat model says.
"""

import math
from random import Random

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Failed, Replaced
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.client_level import ClientLevelUploads
from fedgrove.node.methods.training.metric_sums import rates_of, sums_of
from fedgrove.node.privacy.client_level import ClientLevelRound, decode_rates, quantise
from fedgrove.node.privacy.grid import Grid
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol import terms
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.protocol.members_rates import MembersRates
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.roles.coordinator import Coordinator
from tests.adversary.misstating import misstating
from tests.node.federation import Federation, sending, with_word

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=1e-3)
PRIVACY = ClientLevelSettings(epsilon=1000.0, delta=1e-3, clip=0.5, noise_multipliers=(0.05,))
LIAR = 4


def lying(more):
    """A member that adds a multiple of e to the last word of its upload, which is its rate's, in round 1."""

    def changed(inputs, upload):
        if inputs.current.number > 1:
            return upload
        rate = method_of(inputs.config).codec._round(inputs).grid.rate
        return with_word(upload, -1, more * rate)

    return sending(changed)


@pytest.fixture
def attacked(tmp_path, monkeypatch):
    """``attacked(...)``: a federation of four that tells rates, in which one lies in round 1, that has run."""
    monkeypatch.setattr(terms, "LEAST_RATED", 3)
    with embedded() as network:

        def run(more=0, coordinator=Coordinator, repeats=0) -> Federation:
            parts = {"training": QUICK, "evaluation": EvaluationSettings(), "privacy": PRIVACY, "repeats": repeats}
            made = Federation.found(network, tmp_path, 4, masking=MaskingSettings(masked="delta"), **parts)
            made.register()
            members = {number: made.client(number) for number in range(1, 5)}
            if more:
                members[LIAR] = made.client(LIAR, lying(more))
            made.run(made.coordinator(coordinator), members)
            return made

        yield run


@pytest.mark.parametrize("more", [30, -30, 1 << 16])
def test_an_impossible_rate_is_void_and_the_model_stands(attacked, more):
    federation = attacked(more)
    first, last = (each.members for each in federation.stated())
    assert first == MembersRates({}, 0.0, "the members' words of right exceed what they can add up to")
    assert last.there and last.last and not federation.of(Failed)
    assert federation.audit().verdict == "verified"
    said = [said for said in federation.said("coordinator") if said.startswith("closed")]
    assert "the members' metrics are void" in said[0] and "the members found" in said[1]


@pytest.mark.mutants
def test_without_the_limit_it_would_be_stated(attacked, monkeypatch):
    monkeypatch.setattr(Grid, "rate_limit", lambda *_: 1 << 32)
    assert attacked(30).stated()[0].members.rates["right"] > 3


def test_one_liar_within_what_is_possible_moves_the_mean(attacked):
    """As the threat model says: to what all could have told together, here by half of the scale."""
    federation = attacked(4)
    lied, last = (each.members for each in federation.stated())
    assert lied.rates["right"] > last.rates["right"] + 0.5 - 8 * lied.noise
    assert federation.audit().verdict == "verified"


NONSENSE = [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e9, -3.0]


@pytest.mark.parametrize("total", NONSENSE)
@pytest.mark.parametrize("samples", [1, 7, 2**30])
def test_a_task_that_measures_nonsense_moves_the_sum_by_no_more_than_any_other(total, samples):
    planned = ClientLevelRound(PRIVACY, 1, 20, 0.5, 300, 1.0, 300, rates=2)
    totals = {"right": 0, "mine": total, "loss": 0.0, "squared_loss": 0.0}
    settings = EvaluationSettings(0.0, ("right", "mine"))
    rates = rates_of(sums_of(HeldOutSums(samples, totals), settings), settings.metrics)
    words = quantise(planned.grid, np.zeros(20, np.float32), Random(0).randbytes, rates)
    assert np.abs(words.view(np.int32)[-2:]).max() <= planned.grid.rate
    assert np.square(words.view(np.int32).astype(np.int64)).sum() <= planned.grid.sensitivity**2
    moved = decode_rates(planned.grid, words[-2:], 300.0)
    assert all(abs(rate - 0.5) <= 0.5 / 300 + 1e-12 for rate in moved)


LIES = {
    "everything was right": lambda said: said.replace(rates={"right": 1.0}),
    "less noise": lambda said: said.replace(noise=said.noise / 2),
    "counts": lambda said: MembersMetrics(48, {"right": 12, "loss": 1, "squared_loss": 1}, last=said.last),
}


@pytest.mark.parametrize("lie", LIES)
def test_members_replace_false_rates_and_the_audit_names_them(attacked, lie):
    federation = attacked(coordinator=misstating(LIES[lie]), repeats=1)
    assert [record.round for record in federation.of(Replaced)][:1] == [1]
    said = federation.said("client 1")
    wrong = "judged round 1 wrong: its metrics are wrong: the members' metrics are not the sum"
    assert any(wrong in each for each in said)
    remarks = federation.audit()
    assert any("the members' metrics are not the sum" in str(each) for each in (remarks.reason, *remarks.remarks))


def test_a_member_that_sends_no_rates_is_found_by_the_length_of_its_upload(attacked, monkeypatch):
    encode = ClientLevelUploads.encode

    def short(self, inputs, client, *rest):
        words = encode(self, inputs, client, *rest)
        return words[:-4] if client == LIAR and inputs.current.number == 1 else words

    monkeypatch.setattr(ClientLevelUploads, "encode", short)
    federation = attacked(repeats=3)
    failed = {record.round for record in federation.of(Failed)}
    assert 1 in failed and failed <= {1, 2, 3}  # two more are in halves, which may be too small to be summed
    assert federation.stated()[-1].members.there
    found = federation.audit()
    assert found.verdict == "verified" and {(each.round, each.client) for each in found.remarks} >= {(1, LIAR)}
