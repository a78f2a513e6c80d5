"""Somebody who sees only the models, and wants to know who was drawn; and somebody who reads the ledger, and knows.

Terms with ``participation = "secret"`` count on nobody knowing who takes part: a client that is drawn by lot costs
less. Three things told it all the same. The size of the noise: shares were rounded up to whole clients, and those that
dropped out took theirs with them, so it followed the number of clients, and who knows the others knows the victim. A
round that is full, or too small to be held: then the others decide whether a client is in it. And the ledger: its
readers see who was drawn, and a client that is drawn often spends several times the ε that was stated. What stops it:
noise of one size; no round whose size could matter; and both figures wherever ε is stated.
"""

from dataclasses import replace
from fractions import Fraction
from math import ceil, comb, sqrt
from random import Random

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Drawn
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.training.client_level import ClientLevelAccounting
from fedgrove.node.privacy import client_level
from fedgrove.node.privacy import grid as grids
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.privacy.client_level import fill_up
from fedgrove.node.privacy.discrete import add_noise
from fedgrove.node.privacy.grid import Grid, RoundTerms
from fedgrove.node.privacy.plan import PlannedTraining, cost, outlook
from fedgrove.node.privacy.sampling import least_max_clients, log_chance_that_matters, sampling_fault
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.status.federation import PrivacyReader
from fedgrove.node.status.report import build_report
from tests.node.federation import Federation
from tests.node.privacy.canaries import gaussian_bound
from tests.node.privacy.uploads import noisy_update

# --- the size of the noise --------------------------------------------------------------------------------------------

MEMBERS, DIMENSIONS = 30, 20_000
TERMS = ClientLevelSettings(participation="secret", dropouts=0.2, delta=1e-3)


def seen_noise(drawn: int, gone: int, seed: int) -> float:
    """What the observer measures on the model: the deviation of a round's noise, where all updates were zero."""
    grid = RoundTerms(TERMS, 1, DIMENSIONS, 1.0, clients=MEMBERS, rate=0.2, sharers=drawn).grid
    words = np.zeros(grid.length, np.uint32)
    for client in range(drawn - gone):
        words += noisy_update(grid, np.zeros(DIMENSIONS, np.float32), Random(1000 * seed + client).randbytes)
    fill_up(grid, words, drawn - gone, Random(seed).randbytes(32))
    return float(words.view(np.int32).std())


def told_apart(others: int, gone: int) -> float:
    """How often the observer, who knows all others and who dropped out, guesses whether the victim was drawn."""
    worlds = [[seen_noise(others + victim, gone, 2 * trial + victim) for trial in range(12)] for victim in (0, 1)]
    middle = (np.mean(worlds[0]) + np.mean(worlds[1])) / 2
    sign = np.sign(np.mean(worlds[1]) - np.mean(worlds[0]))
    right = [(sign * (value - middle) > 0) == victim for victim in (0, 1) for value in worlds[victim]]
    return float(np.mean(right))


def full_shares_of_whole_clients(grid: Grid) -> Fraction:
    """As it was: what is needed was rounded up to whole clients, and each gave so much."""
    full = Fraction(grid.noise_multiplier) ** 2 * grid.sensitivity**2 + grids._SMOOTHING
    return full / ceil(grid.sharers * (1 - grid.dropouts))


@pytest.mark.parametrize("gone", [0, 1])
def test_noise_does_not_tell_whether_somebody_was_drawn(gone):
    assert told_apart(4, gone) < 0.9  # the same size in both worlds; a guess from 24 draws is right in half of them


def test_shares_of_whole_clients_told_it(monkeypatch):
    monkeypatch.setattr(Grid, "share_variance", property(full_shares_of_whole_clients))
    assert told_apart(4, 0) == 1.0


def test_noise_that_left_with_a_client_told_it(monkeypatch):
    monkeypatch.setattr(f"{__name__}.fill_up", lambda grid, words, survivors, key: None)
    assert told_apart(4, 1) == 1.0


# --- rounds that are full, or too small -------------------------------------------------------------------------------


def test_what_is_left_out_of_the_accounting_hardly_ever_happens():
    """By exact tails of the binomial distribution, for terms that are accepted and for the first that are not."""
    rounds, rate, quorum = 54, 0.22, 3
    cap = least_max_clients(TERMS, rate, 1000, rounds)
    assert not sampling_fault(TERMS, rate, 1000, quorum, cap, rounds)
    assert "may be full" in sampling_fault(TERMS, rate, 1000, quorum, cap - 1, rounds)
    full = sum(Fraction(comb(999, k)) * 22**k * 78 ** (999 - k) for k in range(cap, 1000)) / Fraction(100) ** 999
    assert 0 < float(full) <= np.exp(log_chance_that_matters(TERMS, rounds))
    enough = next(k for k in range(4, 1000) if not sampling_fault(TERMS, rate, k, quorum, 1000, rounds))
    assert "too few" in sampling_fault(TERMS, rate, enough - 1, quorum, 1000, rounds)
    few = sum(Fraction(comb(enough - 1, k)) * 22**k * 78 ** (enough - 1 - k) for k in range(quorum))
    assert float(few / Fraction(100) ** (enough - 1)) <= np.exp(log_chance_that_matters(TERMS, rounds))
    assert not sampling_fault(replace(TERMS, participation="public"), rate, 5, quorum, 4, rounds)
    assert not sampling_fault(TERMS, 1.0, 5, quorum, 4, rounds)  # everybody is drawn: nothing is counted on


QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
DRAWN_BY_LOT = ClientLevelSettings(
    epsilon=5.0, delta=0.1, participation="secret", sampling_rates=(0.99,), clip=0.5, dropouts=0.25
)


def federation(network, path, privacy=DRAWN_BY_LOT, clients=5, rounds=1, **changes) -> Federation:
    masking = MaskingSettings(masked="delta")
    made = Federation.found(network, path, clients, rounds, privacy=privacy, masking=masking, training=QUICK, **changes)
    made.register()
    return made


def full_federation(network, path) -> Federation:
    """Rounds take three of five: who draws first is in, which a block producer decides."""
    probe = Federation.found(network, path / "probe", 5, 1)
    ledger = replace(probe.config.ledger, max_clients=3)
    return federation(network, path, ledger=ledger)


def test_nobody_draws_for_a_round_that_may_be_full(tmp_path):
    with embedded() as network:
        made = full_federation(network, tmp_path)
        coordinator, clients = made.coordinator(), made.clients()
        for _ in range(60):
            made.turn(coordinator, clients)
        assert not made.of(Drawn)
        assert "a round may be full (ledger.max_clients)" in made.said("client 1")[0]


@pytest.mark.mutants
def test_without_that_refusal_whoever_draws_first_is_in_and_all_are_told_of_a_lot(tmp_path, monkeypatch):
    monkeypatch.setattr(ClientLevelAccounting, "unfit", lambda self, number, members: "")
    with embedded() as network:
        made = full_federation(network, tmp_path)
        made.run()
        stated = made.stated()[0].privacy
        assert stated.sharers == 3 and stated.rate == 0.99
        assert stated.epsilon < stated.ledger_epsilon


# --- who can read the ledger ------------------------------------------------------------------------------------------

GEYER = PlannedTraining(clients=100, rate=0.5, rounds=11, parameters=1, delta=1e-3)


def shown_by_a_reader(rounds: int, trials: int = 3000) -> float:
    """ε that a reader of the ledger shows, who looks at the rounds that the victim was drawn in."""
    terms = ClientLevelSettings(participation="secret")
    grid = RoundTerms(terms, 1, 1, 1.0, clients=100, rate=0.5, sharers=50).grid
    update, random = np.full(1, 2.0, np.float32), Random(0)

    def scores(present: bool, count: int) -> np.ndarray:
        seen = np.zeros(count)
        for _ in range(rounds):
            words = np.zeros(count, np.uint32)
            if present:
                words += client_level.quantise(grid, update, random.randbytes)
            add_noise(words, 50 * grid.share_variance, random.randbytes)
            seen += words.view(np.int32)
        return seen

    return gaussian_bound(scores, trials, GEYER.delta)


def test_a_reader_of_the_ledger_shows_more_than_holds_for_models_and_no_more_than_is_stated_for_readers():
    spent = cost(GEYER, 1.0)
    assert (spent.average.rounds, spent.most_drawn.rounds) == (6, 9)
    for each in (spent.average, spent.most_drawn):
        assert spent.models.epsilon < shown_by_a_reader(each.rounds) < each.epsilon


FIGURES = [
    (100, 0.5, 11, 1e-3, 7.79, 9.93, 13.1),
    (1000, 0.22, 54, 1e-5, 11.58, 20.1, 30.3),
    (10_000, 0.0508, 412, 1e-6, 7.84, 31.6, 49.3),
]


@pytest.mark.parametrize("clients, rate, rounds, delta, models, average, most", FIGURES)
def test_the_figures_of_the_docs(clients, rate, rounds, delta, models, average, most):
    spent = cost(PlannedTraining(clients, rate, rounds, 1, delta), 1.0)
    figures = (spent.models.epsilon, spent.average.epsilon, spent.most_drawn.epsilon)
    assert figures == pytest.approx((models, average, most), rel=3e-3)


def test_a_plan_states_both(tmp_path):
    found = outlook(GEYER, 8.0, "secret")
    assert found.cost.models.epsilon <= 8 < found.cost.average.epsilon < found.cost.most_drawn.epsilon


def test_record_report_audit_and_status_state_both(tmp_path):
    schedule = {"sampling_rates": (0.99999,), "epsilon": 5.0}
    with embedded() as network:
        made = federation(network, tmp_path, replace(DRAWN_BY_LOT, **schedule), rounds=2)
        clients = made.clients()
        coordinator = made.coordinator()
        while made.turn(coordinator, clients):
            if coordinator.round == 2 and made.said("client 5")[-1:] == ["shared"]:
                clients.pop(5, None)
        whole, less = 1 / sqrt(0.75), sqrt(4 / 5 / 0.75)  # noise of five, and of four that stayed
        models = epsilon_of([GaussianRelease(whole, 0.99999, 2)], 0.1)
        readers = epsilon_of([GaussianRelease(whole), GaussianRelease(less)], 0.1)
        report = build_report(made.history(), made.store, {})["rounds"][-1]["privacy"]
        assert report["epsilon"] < report["ledger_epsilon"]
        assert report["epsilon"] == pytest.approx(models, rel=5e-3)
        assert report["ledger_epsilon"] == pytest.approx(readers, rel=5e-3)
        verdict = made.audit()
        assert verdict.verdict == "verified"
        view = made.coordinator().view
        view.refresh()
        for spent in (verdict.privacy, PrivacyReader(made.config, made.store).read(view)["spent"]):
            assert (spent.epsilon, spent.to_readers.epsilon) == (report["epsilon"], report["ledger_epsilon"])
            assert "towards readers of the ledger" in str(spent)
        mine = PrivacyReader(made.config, made.store, made.keys[4].address).read(view)["spent"]
        # Its second upload came too late.
        assert mine.client == mine.to_readers.client == 5
        assert mine.to_readers.epsilon == pytest.approx(epsilon_of([GaussianRelease(whole)], 0.1), rel=5e-3)
        assert verdict.to_dict()["privacy"]["to_readers"]["median"] == report["ledger_epsilon"]
