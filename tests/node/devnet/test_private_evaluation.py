"""A demonstration's privacy budget pays for everything that leaves a client, rates of the last model included."""

import pytest
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.devnet import demo
from fedgrove.node.devnet.demo import DemoPlan
from fedgrove.node.devnet.demo_request import DemoRequest, InvalidOption, check_request
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.protocol import terms

from tests.node.conftest import run_federation


@pytest.fixture
def few(monkeypatch):
    """Fewer clients than noise allows may tell rates: nobody looks at them here."""
    monkeypatch.setattr(demo, "LEAST_RATED", 4)
    monkeypatch.setattr(terms, "LEAST_RATED", 4)


def test_the_budget_is_spent_to_the_full_and_no_further_when_the_last_model_is_evaluated(few, tmp_path):
    plan = DemoPlan(clients=4, rounds=2, strategy="fedavg", epsilon=40.0, held_out=0.2)
    run = run_federation(tmp_path / "kept", plan)
    rounds = run.report["rounds"]
    assert [each["status"] for each in rounds] == ["closed"] * 3
    assert [each["members"].get("last", False) for each in rounds] == [False, False, True]
    spent = [each["privacy"]["epsilon"] for each in rounds]
    assert spent[0] < spent[1] < spent[2] <= 40.0 < 1.01 * spent[2]
    verdict = Auditor(run.facts, run.records, run.store).run()
    assert verdict.verdict == "verified"
    assert verdict.privacy.epsilon == pytest.approx(spent[2])


@pytest.mark.parametrize(("evaluation", "uploads"), [(None, 5), (EvaluationSettings(0.2), 6)])
def test_the_noise_is_for_as_many_uploads_as_a_client_makes(evaluation, uploads):
    made = demo.common_terms(DemoPlan(clients=300, rounds=5, epsilon=8.0), "digits", evaluation)
    (sigma,) = made["privacy"].noise_multipliers
    spent = epsilon_of([GaussianRelease(sigma, count=uploads)], 1e-3)
    assert spent <= 8.0 < epsilon_of([GaussianRelease(0.999 * sigma, count=uploads)], 1e-3)
    assert made["ledger"].quorum == (3 if evaluation is None else 300)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (DemoPlan(299, epsilon=8.0, held_out=0.2), "held-out with a privacy budget needs 300 clients, not 299"),
        (DemoPlan(300, epsilon=8.0, held_out=0.2, patience=2), "patience must be 0 with a privacy budget"),
        (DemoPlan(300, epsilon=8.0, patience=2), "patience must be 0 with a privacy budget"),
    ],
)
def test_what_noise_does_not_allow_is_a_sentence_about_the_options(plan, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        check_request(DemoRequest(plan))


def test_300_clients_may_evaluate_under_a_budget():
    check_request(DemoRequest(DemoPlan(300, epsilon=8.0, held_out=0.2)))
