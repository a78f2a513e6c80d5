"""A whole federation: sums are exact under masks, removals leave nothing behind."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.methods.kmeans import vector
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.datasets import reference_loss, split_by_cluster
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.simulation.kmeans import federation as simulation
from fedgrove.node.simulation.kmeans.federation import Federation, SimulationSettings

CENTRES = np.array([[-0.8, 0.0, 0.3], [0.8, 0, 0], [0, 0.8, -0.5]])


def parts_of(clients: int, dimensions: int = 3) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(3), 100)
    points = np.zeros((300, dimensions))
    points[:, :3] = CENTRES[clusters]
    return split_by_cluster(points + rng.normal(0, 0.03, points.shape), clusters, clients, 2, rng)


def federation(clients: int = 8, dimensions: int = 3, seed: int = 1, **options) -> Federation:
    grid = BinGrid.covering(dimensions, 1 / np.sqrt(300))
    return Federation(
        parts_of(clients, dimensions), SimulationSettings(3, grid, **options), np.random.default_rng(seed)
    )


def plain_sum(running: Federation) -> BinCounts:
    dimensions = next(iter(running.clients.values())).centroids.shape[1]
    return sum((client.vector() for client in running.clients.values()), BinCounts.empty(dimensions))


@pytest.mark.parametrize("dimensions", [3, 20])
@pytest.mark.parametrize("clients", [2, 3, 8])
def test_the_server_learns_the_sum(clients, dimensions):
    running = federation(clients, dimensions)
    trained = running.train()
    assert trained.counts == plain_sum(running) and trained.counts.total == 300


@pytest.mark.parametrize("options", [{}, {"uniform": True}, {"iterations": 20}])
def test_the_clusters_are_found(options):
    running = federation(**options)
    trained = running.train()
    assert np.linalg.norm(trained.model.centres[:, None] - CENTRES, axis=2).min(axis=0).max() < 0.1
    points = np.concatenate(parts_of(8))
    assert reference_loss(points, 3) <= running.nearest_loss() * (1 + 1e-9) <= running.induced_loss() * (1 + 1e-9)


@pytest.mark.parametrize("options", [{}, {"iterations": 20}])
def test_after_removals_the_sum_is_that_of_what_is_left(options):
    running = federation(dimensions=20, **options)
    running.train()
    centroid = int(running.clients[2].seeding.centroids[1])
    for requests, redrawn in (
        ({0: [3]}, None),
        ({2: [centroid]}, {2: 2}),
        ({1: [0, 1, 2], 5: [7, 8]}, None),
        ({3: np.arange(len(running.clients[3]))}, {3: 3}),
    ):
        done = running.forget({index: np.array(rows) for index, rows in requests.items()})
        assert done.counts == plain_sum(running)
        assert redrawn is None or done.redrawn == redrawn
        assert done.model.centres.shape == (3, 20)
    assert done.counts.total == 300 - 7 - len(parts_of(8, 20)[3])


def test_clients_leave_whole():
    running = federation()
    before = running.train()
    left = running.leave([1, 4])
    assert sorted(running.clients) == [0, 2, 3, 5, 6, 7]
    assert left.counts == plain_sum(running)
    assert left.counts.total == before.counts.total - len(parts_of(8)[1]) - len(parts_of(8)[4])
    assert running.forget({0: np.array([0])}).counts == plain_sum(running)
    running.leave([0, 2, 3, 5])
    with pytest.raises(ValueError, match="two clients must stay"):
        running.leave([6])


@pytest.mark.parametrize("options", [{}, {"iterations": 20}])
def test_on_a_ledger_everybody_is_summed_anew(options):
    running = federation(dimensions=20, least_share=1, **options)
    trained, before = running.train(), {index: client.vector() for index, client in running.clients.items()}
    renewed = running.renew({0: np.array([3]), 5: np.array([7, 8])})
    assert renewed.counts == plain_sum(running) and renewed.counts.total == 297
    assert sum(client.vector() != before[index] for index, client in running.clients.items()) >= 6
    assert renewed.upload_bytes == trained.upload_bytes and len(running.clients[5]) == len(parts_of(8, 20)[5]) - 2
    with pytest.raises(InvalidInput):
        running.renew({5: np.array([7])})


def test_on_a_ledger_a_random_part_of_the_points_is_counted():
    running = federation()
    running.train()
    totals = [running.renew({}).counts.total for _ in range(5)]
    assert len(set(totals)) > 1 and all(150 - 60 < total < 300 for total in totals)
    assert sum(map(len, running.clients.values())) == 300
    points = np.concatenate(parts_of(8))
    assert reference_loss(points, 3) <= running.nearest_loss() * (1 + 1e-9) <= running.induced_loss() * (1 + 1e-9)


def test_a_client_that_draws_none_of_its_points_counts_nothing_and_keeps_them(monkeypatch):
    monkeypatch.setattr(vector, "thinned", lambda count, *_: np.arange(count if count > 1 else 0))
    parts = [*parts_of(4), np.array([CENTRES[0]])]
    running = Federation(parts, SimulationSettings(3, BinGrid.covering(3, 1 / np.sqrt(300))), np.random.default_rng(1))
    running.train()
    assert running.renew({}).counts.total == 300
    assert len(running.clients[4]) == 1 and running.induced_loss() > 0


def test_nothing_is_drawn_where_nothing_changed():
    running = federation()
    trained = running.train()
    assert running.forget({}).model is trained.model
    assert running.forget({0: np.array([], int)}).model is trained.model


def test_a_request_that_cannot_be_met_changes_nothing():
    running = federation()
    before = running.train()
    for requests in ({9: np.array([0])}, {0: np.array([0]), 1: np.array([10_000])}):
        with pytest.raises(InvalidInput):
            running.forget(requests)
    with pytest.raises(InvalidInput):
        running.leave([9])
    assert plain_sum(running) == before.counts


def test_training_again_would_undo_removals():
    running = federation()
    running.train()
    with pytest.raises(ValueError, match="points that are left"):
        running.train()


@pytest.mark.statistics
@pytest.mark.parametrize("way", ["forget", "renew"])
def test_a_federation_forgets_as_if_it_had_been_trained_without(way, runs=2_500):
    """What the server learns after removals at two clients, against training on what is left: χ² over the counts."""
    grid = BinGrid.covering(1, 0.05)
    parts = [np.array([[0.0], [0.1], [0.2], [0.9], [0.4]]), np.array([[-0.5], [-0.4], [0.6], [-0.9], [0.5]])]
    requests = [{0: np.array([3])}, {1: np.array([0, 3]), 0: np.array([0])}]
    left = [parts[0][[1, 2, 4]], parts[1][[1, 2, 4]]]
    settings = SimulationSettings(2, grid, restarts=1, reach=1, least_share=1)

    def unlearned(rng: np.random.Generator) -> BinCounts:
        running = Federation(parts, settings, rng)
        running.train()
        return [getattr(running, way)(request) for request in requests][-1].counts

    def retrained(rng: np.random.Generator) -> BinCounts:
        return Federation(left, settings, rng).train().counts

    tables = [
        Counter(
            tuple(zip(counts.levels.ravel().tolist(), counts.counts.tolist(), strict=True))
            for counts in (method(np.random.default_rng([number, run])) for run in range(runs))
        )
        for number, method in enumerate((unlearned, retrained))
    ]
    outcomes = sorted(tables[0] | tables[1])
    assert len(outcomes) > 1
    assert chi2_contingency([[table[outcome] for outcome in outcomes] for table in tables]).pvalue > 0.001


def test_removals_need_training_first():
    with pytest.raises(ValueError, match="call train first"):
        _ = federation().round
    with pytest.raises(ValueError, match="two clients"):
        Federation(parts_of(8)[:1], SimulationSettings(3, BinGrid.covering(3, 0.1)), np.random.default_rng(0))


def test_a_removal_sends_less_than_training():
    running = federation()
    trained, removed = running.train(), running.forget({0: np.array([1])})
    assert trained.upload_bytes == 8 * (2 * 3 * 8 + 2)
    assert removed.upload_bytes == 8 * (2 * 2 * 3 + 2)


def test_the_same_generator_gives_the_same_federation():
    one, other, third = (federation(seed=seed).train() for seed in (5, 5, 6))
    assert one.model.centres.tobytes() == other.model.centres.tobytes()
    assert one.counts != third.counts


def test_a_wrong_upload_is_told_not_decoded(monkeypatch):
    original, calls = Federation._mask, itertools.count()

    def wrong(self, *arguments):
        masked = original(self, *arguments)
        if next(calls) == 3:
            masked = masked.copy()
            masked[5] ^= np.uint64(1)
        return masked

    monkeypatch.setattr(simulation.Federation, "_mask", wrong)
    with pytest.raises(InvalidContent):
        federation().train()


def test_the_clock_is_passed_in():
    ticks = itertools.count()
    parts = parts_of(4)
    settings = SimulationSettings(3, BinGrid.covering(3, 1 / np.sqrt(300)))
    seconds = Federation(parts, settings, np.random.default_rng(0), lambda: float(next(ticks))).train().seconds
    assert (seconds.computing, seconds.uploading, seconds.decoding, seconds.clustering) == (1, 1, 1, 1)
    assert seconds.total == 4
