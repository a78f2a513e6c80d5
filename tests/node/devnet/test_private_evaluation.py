"""A demonstration's privacy budget pays for everything that leaves a client, rates of the last model included."""

import pytest

from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet import terms as devnet_terms
from fedgrove.node.devnet.methods import check_federation
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.protocol import terms
from fedgrove.node.scenario.reading import scenario
from tests.node.conftest import run_federation


@pytest.fixture
def few(monkeypatch):
    """Fewer clients than noise allows may tell rates: nobody looks at them here."""
    monkeypatch.setattr(devnet_terms, "LEAST_RATED", 4)
    monkeypatch.setattr(terms, "LEAST_RATED", 4)


def test_the_budget_is_spent_to_the_full_and_no_further_when_the_last_model_is_evaluated(few, tmp_path):
    plan = scenario(clients=4, rounds=2, strategy="fedavg", epsilon=40.0, held_out=0.2)
    run = run_federation(tmp_path / "kept", plan)
    rounds = run.report["rounds"]
    assert [each["status"] for each in rounds] == ["closed"] * 3
    assert [each["members"].get("last", False) for each in rounds] == [False, False, True]
    spent = [each["privacy"]["epsilon"] for each in rounds]
    assert spent[0] < spent[1] < spent[2] <= 40.0 < 1.01 * spent[2]
    verdict = Auditor(run.facts, run.records, run.store).run()
    assert verdict.verdict == "verified"
    assert verdict.privacy.epsilon == pytest.approx(spent[2])


@pytest.mark.parametrize(("held_out", "uploads"), [(0.0, 5), (0.2, 6)])
def test_the_noise_is_for_as_many_uploads_as_a_client_makes(held_out, uploads):
    told = scenario(clients=300, rounds=5, epsilon=8.0, held_out=held_out)
    made = terms_on(told, load_dataset("digits"), b"")
    (sigma,) = made.privacy.noise_multipliers
    spent = epsilon_of([GaussianRelease(sigma, count=uploads)], 1e-3)
    assert spent <= 8.0 < epsilon_of([GaussianRelease(0.999 * sigma, count=uploads)], 1e-3)
    assert made.ledger.quorum == (300 if held_out else 3)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (scenario(clients=299, epsilon=8.0, held_out=0.2), "held_out with a privacy budget needs 300 clients, not 299"),
        (scenario(clients=300, epsilon=8.0, held_out=0.2, patience=2), "patience must be 0 with a privacy budget"),
        (scenario(clients=300, epsilon=8.0, patience=2), "patience must be 0 with a privacy budget"),
    ],
)
def test_what_noise_does_not_allow_is_a_sentence_about_the_options(plan, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        check_federation(plan)


def test_300_clients_may_evaluate_under_a_budget():
    check_federation(scenario(clients=300, epsilon=8.0, held_out=0.2))
