"""Data sets and splits."""

import numpy as np
import pytest

from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.kmeans.datasets import (
    celltype,
    covtype,
    gaussian,
    normalised,
    points_of_file,
    reference_loss,
    split_by_cluster,
)


def test_large_values_are_scaled_and_small_ones_stay():
    assert normalised(np.array([[1, -4], [2, 0]])).tolist() == [[0.25, -1], [0.5, 0]]
    assert normalised(np.array([[0.5, -0.2]])).tolist() == [[0.5, -0.2]]


@pytest.mark.parametrize("each", [1, 2, 4])
def test_a_split_deals_every_point_once_and_few_clusters_to_each(each):
    points, clusters = np.arange(400.0).reshape(-1, 1), np.arange(400) % 4
    parts = split_by_cluster(points, clusters, 7, each, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).ravel()) == list(range(400))
    assert max(len(np.unique(part % 4)) for part in parts) <= each + 1  # one more if nobody drew a cluster


def test_gaussian_clusters():
    data = gaussian()
    assert len(data.parts) == 100 and data.points.shape == (30_000, 10) and data.k == 10
    assert np.abs(data.points).max() == 1
    assert data.step == pytest.approx(30_000**-0.5)
    assert np.array_equal(gaussian().points, data.points)


def test_celltype_from_its_file(tmp_path):
    (tmp_path / "celltype").mkdir()
    points = np.random.default_rng(0).uniform(0, 1, (30, 10))
    np.savez(tmp_path / "celltype" / "celltype.npz", X=points, client=np.arange(30) % 3)
    data = celltype(tmp_path)
    assert [len(part) for part in data.parts] == [10, 10, 10]
    assert np.array_equal(data.parts[1], points[1::3])


def test_covtype_from_its_file(tmp_path):
    (tmp_path / "covtype").mkdir()
    points = np.random.default_rng(0).integers(-100, 7000, (210, 52)).astype(np.int16)
    np.savez(tmp_path / "covtype" / "covtype_15120x52.npz", X=points)
    data = covtype(tmp_path, clients=5)
    assert sum(map(len, data.parts)) == 210 and data.k == 7
    assert np.abs(data.points).max() == 1


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(DatasetError, match="does not exist"):
        celltype(tmp_path)
    (tmp_path / "celltype").mkdir()
    path = tmp_path / "celltype" / "celltype.npz"
    np.savez(path, X=np.array([{"a": 1}], object), client=np.zeros(1))
    with pytest.raises(DatasetError, match="Python objects in X, which are never unpickled"):
        celltype(tmp_path)
    path.write_bytes(b"no archive")
    with pytest.raises(DatasetError, match="write it with numpy"):
        celltype(tmp_path)
    np.savez(path, X=np.zeros((2, 2)))
    with pytest.raises(DatasetError, match="lacks the array 'points'"):
        points_of_file(path)


def test_the_reference_is_the_best_loss_of_many_restarts():
    points = np.concatenate([np.zeros((5, 2)), np.ones((5, 2))])
    assert reference_loss(points, 2) == pytest.approx(0)
    assert reference_loss(points, 1) == pytest.approx(5)
