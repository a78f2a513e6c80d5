"""The plays behind the threat model's figures, small: their arithmetic is right, and their verdicts are as stated."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom

from fedgrove.node.masking.collusion import exposure_bound, simulated_exposure
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, FAILURE_BITS, Sharing, partners_of_all, sharing
from fedgrove.node.masking.recovery import TooFewShares
from fedgrove.node.masking.sealing import MaskingRefused
from tests.node.masking.rounds import Round

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


withholding, dropouts = load("play_withholding"), load("play_dropouts")
openings = load("play_openings")


# --- withheld draws, orders, silenced clients -------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "instances"), [(64, 6), (100, 6), (256, 2)])
def test_a_third_that_withholds_draws_exposes_somebody_where_tickets_are_the_order(n, instances):
    hits = sum(withholding.withheld(withholding.Draws.make(n, 0.33, instance)) for instance in range(instances))
    assert hits >= instances - 1


@pytest.mark.parametrize(("n", "orders"), [(64, 20), (100, 20), (256, 5)])
@pytest.mark.parametrize("fraction", withholding.FRACTIONS)
def test_by_the_default_terms_no_order_exposes_anybody(n, orders, fraction):
    """Nor is it enough to silence a few: of a client's partners at least 16 are honest."""
    draws, degree = withholding.Draws.make(n, fraction, 0), partners_of_all(n, DEFAULT_ASSUMED)
    for graph, bad in withholding.graphs(draws, degree, orders):
        assert len(bad) == int(fraction * n)
        assert withholding.honest_partners(graph, bad) >= 16


def test_every_order_is_another(monkeypatch):
    draws = withholding.Draws.make(30, 0.33, 0)
    found = {(graph.neighbours, bad) for graph, bad in withholding.graphs(draws, 4, 8)}
    assert len(found) == 8


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("n", "instances", "least"), [(64, 60, 0.75), (100, 60, 0.85), (256, 15, 0.85), (1000, 3, 0.85)]
)
def test_withheld_draws_at_length(n, instances, least):
    hits = sum(withholding.withheld(withholding.Draws.make(n, 0.33, instance)) for instance in range(instances))
    assert hits >= least * instances
    for graph, bad in withholding.graphs(withholding.Draws.make(n, 0.33, 0), partners_of_all(n, DEFAULT_ASSUMED), 30):
        assert withholding.honest_partners(graph, bad) >= 16


@pytest.mark.statistics
@pytest.mark.parametrize(("n", "fraction", "degree"), [(64, 0.2, 4), (100, 0.33, 6), (256, 0.33, 7), (1000, 0.2, 6)])
def test_the_formula_is_an_upper_bound_and_close(n, fraction, degree):
    colluders, trials = int(fraction * n), 6_000 if n < 1000 else 1_500
    seen = simulated_exposure(n, colluders, degree, trials, np.random.default_rng(5))
    bound = exposure_bound(n, colluders, degree)
    assert 0.5 * bound < seen < bound + 3 * (bound / trials) ** 0.5


# --- dropouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "away"), [(8, 0.2), (12, 0.3)])
def test_shares_are_counted_as_the_recovery_counts_them(n, away):
    """Whoever is away neither commits nor releases; the real code recovers the sum, or does not."""
    work, generator = Round.make(n, mode="pairwise"), np.random.default_rng(n)
    holders = dropouts.Holders(work.graph.holders, work.graph.threshold)
    blobs = {p: work.blob(p) for p in range(n)}
    outcomes = set()
    for _ in range(12):
        left = [p for p in range(n) if generator.random() >= away]
        counted = min(len(set(own) & set(left)) for own in holders.of) >= holders.threshold
        try:
            work.record(blobs, left, left)
            recovered = True
        except (TooFewShares, MaskingRefused):
            recovered = False
        assert recovered == counted
        outcomes.add(recovered)
    assert len(outcomes) == 2


def test_where_everybody_holds_the_chance_is_that_of_one_binomial():
    """Of 100, 50 or fewer are left: then each of them has fewer than 50 others."""
    holders = dropouts.Holders.random(100, Sharing(99, 50))
    for away in (0.2, 0.4):
        chance = dropouts.failure_chance(holders, away, 400, np.random.default_rng(0))
        assert chance == pytest.approx(binom.cdf(50, 100, 1 - away), rel=0.2)


@pytest.mark.parametrize(("n", "shares", "away"), [(40, Sharing(12, 7), 0.2), (33, Sharing(32, 17), 0.35)])
def test_sampling_where_it_happens_agrees_with_counting(n, shares, away):
    holders, generator = dropouts.Holders.random(n, shares), np.random.default_rng(1)
    counted = dropouts.failures(holders, away, 20_000, generator) / 20_000
    sampled = dropouts.failure_chance(holders, away, 2_000, generator)
    assert sampled == pytest.approx(counted, rel=0.15)
    assert counted <= dropouts.union_bound(holders, away)


@pytest.mark.parametrize("n", [100, 256, 1000])
def test_the_default_terms_lose_no_round_of_a_hundred_clients_or_more(n):
    holders = dropouts.Holders.random(n, sharing(n, DEFAULT_ASSUMED))
    generator = np.random.default_rng(n)
    assert dropouts.failures(holders, 0.2, 2_000, generator) == 0
    chance = dropouts.failure_chance(holders, 0.2, 30, generator)
    assert chance <= dropouts.union_bound(holders, 0.2) * 1.001
    assert chance <= 2**-FAILURE_BITS


def test_thirty_two_nearest_holders_lost_a_third_of_the_rounds_of_a_hundred_and_all_of_a_thousand():
    before = dropouts.Holders.nearest(100, dropouts.OLD), dropouts.Holders.nearest(1000, dropouts.OLD)
    small, large = (dropouts.failures(holders, 0.2, 2_000, np.random.default_rng(0)) for holders in before)
    assert 0.2 < small / 2_000 < 0.4 and large > 0.95 * 2_000


@pytest.mark.parametrize(("n", "least", "most"), [(8, 0.15, 0.25), (16, 0.15, 0.25), (32, 0.03, 0.06)])
def test_small_rounds_fail_as_often_as_the_documentation_says(n, least, most):
    """Their threshold is so high that two lists of survivors gain nothing: fewer holders may be away."""
    holders = dropouts.Holders.random(n, sharing(n, DEFAULT_ASSUMED))
    assert least < dropouts.failures(holders, 0.2, 20_000, np.random.default_rng(0)) / 20_000 < most


@pytest.mark.statistics
@pytest.mark.parametrize("n", [100, 1000])
def test_no_round_of_a_hundred_thousand_fails(n):
    holders = dropouts.Holders.random(n, sharing(n, DEFAULT_ASSUMED))
    assert dropouts.failures(holders, 0.2, 100_000, np.random.default_rng(7)) == 0


# --- what opened sums tell -------------------------------------------------------------------------------------------


def rank_allowed(n: int) -> int:
    """One for all together, and for each partition one less than it has cells."""
    play = openings.Play(n, range(1, n + 1))
    for _ in range(2):
        play.hold(range(1, n + 1))
    partition = play.cells.partition(2)
    return 1 + play.openings.most_partitions(2) * (len(partition.cells) - 1)


@pytest.mark.parametrize("n", [8, 20])
def test_colluders_who_spoil_read_no_more_than_the_cells_of_all_partitions(n):
    most = openings.terms(n).masking.assumed.colluders_of(n)
    for seed in range(3):
        for spoilers in (1, most):
            found = openings.spoilt(n, spoilers, 30, seed)
            assert 1 < found.rank <= rank_allowed(n) and found.own < 0.6
    assert openings.spoilt(n, 0, 30, 0).rank == 1  # nobody spoils anything: all together, each time


def test_the_attacker_reads_everybody_where_any_set_is_summed():
    """As long as nothing limits which sums of one model are opened; so the small figures are not the attacker's."""
    learners, rng, model = openings.Learners(8, 0), np.random.default_rng(0), np.zeros((65, 10), np.float32)
    read, truth = openings.Read(range(1, 9)), []
    for time in range(24):
        truth.append(learners.updates(model))
        read.add(time, set(map(int, rng.choice(8, 5, replace=False) + 1)), truth[-1])
    own = np.mean(truth, axis=0) - np.mean(truth, axis=(0, 1))
    found = read.own_parts(0.01)
    assert openings.correlation(found, own) > 0.9
    assert abs(openings.correlation(np.roll(found, 1, axis=0), own)) < 0.4


def test_an_onlooker_reads_more_with_each_absence_and_nothing_without():
    quiet, seldom, often = (openings.passive(8, absence, 60, 0) for absence in (0.0, 0.02, 0.12))
    assert abs(quiet.own) < 0.01 < seldom.own < often.own
    assert often.own > 0.5 > abs(often.control)
    squads = openings.passive(8, 0.12, 60, 0, squad=4)
    assert squads.own < often.own and squads.lost > 0.1


def test_a_federation_stands_still_where_each_cell_of_each_partition_has_a_spoiler():
    assert not any(openings.stands_still(20, 1, seed) for seed in range(5))
    assert openings.stands_still(20, 20, 0)


def test_where_a_round_closed_in_cells_spoilers_bring_no_standstill_later():
    """So a play may end there."""
    seed = next(seed for seed in range(20) if not openings.stands_still(8, 2, seed))
    spoilers = np.random.default_rng([seed, 8, 2]).choice(8, 2, replace=False) + 1
    play = openings.Play(8, map(int, spoilers), seed)
    for _ in range(60):
        assert not play.standstill
        play.hold(range(1, 9))


def test_the_page_of_openings_is_written(tmp_path):
    openings.main(["--short", "--out", str(tmp_path / "page.md")])
    text = (tmp_path / "page.md").read_text()
    assert all(f"## {title}\n" in text for title in openings.TABLES)
    assert max(map(len, filter(lambda line: not line.startswith("|"), text.splitlines()))) <= 120


# --- the tables -------------------------------------------------------------------------------------------------------


@pytest.mark.statistics
@pytest.mark.parametrize("play", [withholding, dropouts], ids=lambda play: play.__name__)
def test_the_tables_are_made(play):
    for make, head in play.TABLES.values():
        rows = list(make(0.002))
        assert len(rows) > 1 and {len(row) for row in rows} == {len(head)}
