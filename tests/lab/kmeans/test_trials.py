"""Trials for the figures of losses, on small data."""

import numpy as np
import pytest

from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.kmeans import datasets
from fedgrove.node.methods.kmeans.datasets import reference_loss
from fedgrove_lab.kmeans.trials import (
    CENTRAL,
    DC_KM,
    DIFFERENCES,
    FULL,
    K_FED,
    MUFC,
    ON_LEDGER,
    UNIFORM,
    Trial,
    central,
    dealt,
    loss_ratios,
    removal_courses,
)


@pytest.fixture
def celltype(tmp_path):
    """A folder with 800 points around four centres, eight for each of 100 clients."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0.1, 0.9, (4, 3))[np.arange(800) % 4] + rng.normal(0, 0.02, (800, 3))
    (tmp_path / "celltype").mkdir()
    np.savez(tmp_path / "celltype" / "celltype.npz", X=points, client=np.arange(800) % 100)
    return tmp_path


def test_every_method_is_measured_against_the_best_central_loss(celltype):
    methods = (MUFC, UNIFORM, FULL, K_FED, DC_KM, CENTRAL)
    found = loss_ratios(Trial("celltype", "filled", 2), methods, celltype)
    assert list(found) == list(methods)
    assert all(ratio >= 1 - 1e-9 for ratios in found.values() for ratio in ratios)
    assert found[CENTRAL] == pytest.approx([1]) and found[FULL][0] < 1.1


def test_a_coarse_grid_costs(celltype):
    fine, coarse = (
        loss_ratios(Trial("celltype", "authors", 0, coarseness=each), (MUFC,), celltype)[MUFC][0] for each in (1, 16)
    )
    assert coarse > fine + 0.5


def test_losses_are_followed_over_requests(celltype):
    trial = Trial("celltype", "authors", 0, removals=5, seed=3)
    found = removal_courses(trial, celltype)
    assert {method: len(ratios) for method, ratios in found.items()} == {
        **dict.fromkeys((DIFFERENCES, ON_LEDGER, DC_KM), 6),
        "anew": 1,
    }
    start = loss_ratios(Trial("celltype", "authors", 0, seed=3), (MUFC, DC_KM), celltype)
    assert found[DIFFERENCES][0] == found[ON_LEDGER][0] == pytest.approx(start[MUFC][0])
    assert found[DC_KM][0] == pytest.approx(start[DC_KM][0])
    assert found["anew"][0] == pytest.approx(1)


def test_with_all_clusters_every_client_has_a_part_of_each(celltype):
    parts = dealt(Trial("celltype", "filled", 4), celltype).parts
    assert {len(part) for part in parts} == {8}


def test_gaussian_points_are_dealt_by_components_or_by_central_clusters(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "GAUSSIAN_POINTS", 2_000)
    data = central(Trial("gaussian", "components", 1, deviation=0.05).data, tmp_path)
    assert np.bincount(data.components).tolist() == [200] * 10
    assert data.loss == pytest.approx(reference_loss(data.points, 10))
    for split in ("components", "drawn"):
        parts = dealt(Trial("gaussian", split, 1, deviation=0.05), tmp_path).parts
        assert max(np.ptp(part, axis=0).max() for part in parts) < 0.5  # one narrow cluster each


def test_covtype_is_scaled_together_or_by_column(tmp_path):
    (tmp_path / "covtype").mkdir()
    rows = np.random.default_rng(0).integers(0, [9, 7_000], (700, 2)).astype(np.int16)
    np.savez(tmp_path / "covtype" / "covtype_15120x52.npz", X=rows)
    together, columns = (central(Trial("covtype", "", 0, columns=each), tmp_path).points for each in (False, True))
    assert together.max(axis=0)[0] < 0.01 and columns.max(axis=0).tolist() == [1, 1]


def test_an_unknown_dataset(tmp_path):
    with pytest.raises(DatasetError, match="unknown dataset 'iris'"):
        central(Trial("iris", "", 0), tmp_path)
