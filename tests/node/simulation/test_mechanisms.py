"""What the mechanisms do to a round: clipping, noise, S, spending; and that runs do not depend on where they run."""

import dataclasses

import numpy as np
import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Layout
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.settings import SENDING
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.privacy.clipping import clip_factor, l2_norm, next_clip
from fedgrove.node.privacy.grid import RoundTerms
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation import network_work
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.mechanisms import Uploads, releases_of
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.uploads import ClientPart, Measured
from fedgrove.node.simulation.work import ClientResult
from tests.node.simulation.conftest import simulate, small_plan

SECRET = ClientLevelSettings(delta=1e-2, epsilon=50, clip=0.3, participation="secret")
MECHANISMS = {
    "secret": SECRET,
    "public": ClientLevelSettings(delta=1e-2, epsilon=20, clip=0.3, dropouts=0.2),
    "quantile": dataclasses.replace(SECRET, clipping="quantile"),
    "median": dataclasses.replace(SECRET, clipping="median"),
    "local": LocalSettings(clip=0.5),
    "signds": SignDsSettings(step=0.1),
}
D = 3000
LAYOUT = Layout(("w",), ((D,),))


FORTY = MANY.changed(cast={"clients": 40}, federation={"sampling_rate": 0.5})


def private_plan(settings, **changes) -> Scenario:
    return small_plan(privacy=settings, **{"rounds": 2, "test_samples": 40, **changes})


def round_of(settings, updates: np.ndarray, plan: Scenario | None = None, number: int = 1):
    """Send updates (clients, d) through a mechanism; the next model from zero, what was released, the mechanism."""
    plan = plan or MANY.changed(cast={"clients": 40}, federation={"sampling_rate": 0.5}, privacy=settings)
    mechanism, start = releases_of(plan, LAYOUT), np.zeros(D, np.float32)
    norms = [l2_norm(update) for update in updates]
    results = [ClientResult(client, 1, 0.5, norm, None, {}) for client, norm in enumerate(norms, 1)]
    encoder = mechanism.encoder(number, len(updates))
    if isinstance(encoder, Measured):
        encoder = mechanism.encoder(number, len(updates), results)
    words = np.zeros(encoder.length(LAYOUT), np.uint32)
    for client, update in enumerate(updates, 1):
        words += encoder.encode(start + update, start, LAYOUT, ClientPart(client, number, plan.seed, 1, len(updates)))
    vector, released = mechanism.close(Uploads(number, words, results, {"w": start}))
    return vector, released, mechanism


@pytest.fixture
def updates() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(0, 1, (20, D)).astype(np.float32) * rng.uniform(0.001, 0.02, (20, 1)).astype(np.float32)


# --- one round ---------------------------------------------------------------------------------------------------


def test_the_model_moves_by_the_mean_of_clipped_updates_and_noise_of_the_promised_size(updates):
    settings = ClientLevelSettings(delta=1e-2, epsilon=50, clip=0.5, noise_multipliers=(0.7,), participation="secret")
    vector, released, _ = round_of(settings, updates)
    clipped = sum(update * clip_factor(l2_norm(update), 0.5) for update in updates) / 20
    noise = vector - clipped
    expected = 0.7 * 0.5 / 20  # σS/m
    assert released["noise"] == pytest.approx(expected, rel=0.02)
    assert noise.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * D) + 0.02)
    assert abs(noise.mean()) < 5 * expected / np.sqrt(D)
    assert released["clip"] == released["next_clip"] == 0.5 and released["noise_multiplier"] == 0.7
    assert released["epsilon"] == epsilon_of([GaussianRelease(0.7, 0.5)], 1e-2)


def test_noise_for_dropouts_is_larger_and_counts_as_what_it_is(updates):
    _, plain, _ = round_of(SECRET, updates)
    _, released, _ = round_of(dataclasses.replace(SECRET, dropouts=0.5), updates)
    assert released["noise"] == pytest.approx(plain["noise"] * 2**0.5, rel=1e-3)
    assert released["noise_multiplier"] == 1 and released["effective_multiplier"] == pytest.approx(2**0.5, rel=1e-3)
    assert released["epsilon"] < plain["epsilon"]


def test_variance_between_clients_and_update_scale_are_those_of_the_clipped_updates(updates):
    _, released, _ = round_of(SECRET, updates)
    clipped = np.array([update * clip_factor(l2_norm(update), 0.3) for update in updates], np.float64)
    rounding = RoundTerms(SECRET, 1, D, 0.3, clients=40, rate=0.5, sharers=20).grid.unit ** 2 / 4
    assert released["update_scale"] == pytest.approx((clipped.mean(0) ** 2).mean(), abs=2 * rounding / 20)
    assert released["between_clients_variance"] == pytest.approx(clipped.var(0).mean(), abs=2 * rounding / 20)
    norms = [l2_norm(update) for update in updates]
    assert released["median_norm"] == np.median(norms)
    assert released["clipped"] == np.mean(np.array(norms) > 0.3)


def test_the_papers_median_is_that_of_the_rounds_own_norms(updates):
    _, released, _ = round_of(MECHANISMS["median"], updates)
    assert released["clip"] == np.median([l2_norm(update) for update in updates])
    assert released["clipped"] == 0.5


def test_a_tracked_quantile_moves_s_by_the_noisy_fraction(updates):
    settings = dataclasses.replace(SECRET, clipping="quantile", quantile_noise=0.5)
    _, released, _ = round_of(settings, updates)
    norms = np.array([l2_norm(update) for update in updates])
    assert released["below"] == pytest.approx((norms <= 0.3).mean(), abs=4 * 0.5 / 20)
    assert released["next_clip"] == next_clip(0.3, released["below"], settings)


def test_a_round_of_nobody_has_noise_where_it_is_secret_and_changes_nothing_where_all_know():
    nobody = np.zeros((0, D), np.float32)
    vector, released, _ = round_of(SECRET, nobody)
    assert vector.std() == pytest.approx(0.3 / 20, rel=0.1)
    assert released["epsilon"] > 0 and released["median_norm"] is None
    vector, released, _ = round_of(MECHANISMS["public"], nobody)
    assert vector is None and released["epsilon"] == 0


def test_where_all_know_the_client_that_took_part_most_is_counted(updates):
    settings = ClientLevelSettings(delta=1e-2, epsilon=50, clip=0.3, noise_multipliers=(2.0,))
    _, released, mechanism = round_of(settings, updates)
    assert released["epsilon"] == epsilon_of([GaussianRelease(2.0)], 1e-2)
    words = np.zeros(D, np.uint32)
    again = Uploads(2, words, [ClientResult(7, 1, 0.5, 0.0, None, {})], {"w": np.zeros(D, np.float32)})
    assert mechanism.close(again)[1]["epsilon"] == epsilon_of([GaussianRelease(2.0, count=2)], 1e-2)


def test_a_local_upload_is_clipped_noisy_and_counted(updates):
    settings = LocalSettings(epsilon=10, delta=1e-3, clip=0.2)
    vector, released, _ = round_of(settings, updates)
    assert vector.std() == pytest.approx(released["noise"] / 20**0.5, rel=0.1)
    assert released["most_uploads"] == 1 and released["epsilon"] == pytest.approx(10)


def test_votes_move_a_few_dimensions_by_parts_of_the_step(updates):
    settings = SignDsSettings(dimensions=30, top=0.05, step=0.4, step_decay=0.5)
    vector, released, _ = round_of(settings, updates, number=3)
    assert released["step"] == pytest.approx(0.1) and released["upload_bytes"] == 4 + 4 * 30
    votes = vector * 20 / 0.1
    assert np.allclose(votes, np.rint(votes), atol=1e-4) and 0 < np.abs(votes).sum() <= 600 + 1e-2
    assert released["epsilon"] == pytest.approx(100, rel=1e-3) and released["delta"] == settings.delta


def test_noise_follows_from_the_seed_and_rounds_differ(updates):
    first, again = (round_of(SECRET, updates)[0] for _ in range(2))
    other = round_of(
        SECRET,
        updates,
        FORTY.changed(federation={"seed": 1}, privacy=SECRET),
    )[0]
    later = round_of(SECRET, updates, number=2)[0]
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other) and not np.array_equal(first, later)


def test_a_ring_that_is_too_small_for_those_who_may_be_drawn_shows_at_once():
    plan = MANY.changed(cast={"clients": 1_000_000}, federation={"sampling_rate": 0.001}, privacy=SECRET)
    releases_of(plan, LAYOUT)
    later = dataclasses.replace(SECRET, noise_multipliers=(1.0, 1.0), sampling_rates=(0.001, 0.9), phases=(50,))
    with pytest.raises(InvalidInput, match="does not fit into 32 bits"):
        releases_of(dataclasses.replace(plan, privacy=later), LAYOUT)


def test_a_hostile_update_counts_as_none():
    encoder = releases_of(FORTY.changed(privacy=SECRET), LAYOUT).encoder(1, 1)
    hostile = np.full(D, np.nan, np.float32)
    assert not encoder.encode(hostile, np.zeros(D, np.float32), LAYOUT, ClientPart(1, 1, 0, 1, 1)).any()


# --- whole runs --------------------------------------------------------------------------------------------------


def test_a_training_that_diverges_counts_as_no_update(digits, monkeypatch):
    def diverge(*_: object, **__: object) -> None:
        raise DivergedTraining("it left the numbers")

    monkeypatch.setattr(network_work, "train", diverge)
    record = simulate(private_plan(SECRET), digits).record
    assert len(record.rounds) == 2 and record.rounds[0].train_loss is None
    assert record.rounds[0].privacy["update_scale"] == 0
    with pytest.raises(DivergedTraining):
        simulate(small_plan(), digits)


def test_training_ends_with_the_budget_and_the_last_model_is_tested(digits):
    settings = dataclasses.replace(SECRET, epsilon=5)
    record = simulate(private_plan(settings, rounds=50, evaluate_every=50), digits).record
    assert 1 < len(record.rounds) < 50
    assert record.rounds[-1].accuracy is not None and record.rounds[0].accuracy is None
    assert record.rounds[-1].privacy["epsilon"] <= 5 and record.rounds[-1].privacy["delta"] <= 1e-2


@pytest.mark.parametrize(
    ("settings", "strategy", "word"),
    [
        (dataclasses.replace(SECRET, epsilon=0.01), "fedavg", "does not afford a single round"),
        *((SignDsSettings(), each, f"another strategy than {each}") for each in SENDING),
        (LocalSettings(budget=100.0), "fedavg", "budget is enforced in federations only"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_a_sentence(settings, strategy, word, digits):
    with pytest.raises(InvalidConfig, match=word):
        Simulation(private_plan(settings, strategy=strategy), digits, InlineExecutor(), 1)
