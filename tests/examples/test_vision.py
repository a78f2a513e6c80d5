"""The example of images, narrow: group and batch normalisation, with the strategies that look into models."""

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tomli_w

import fedgrove as fg
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.tasks.loading import load_task
from fedgrove.node.scenario.reading import MANY_CLIENTS, read_scenario
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import opened_task
from tests.examples.held import EXAMPLES, copied, held

CLASSES, NARROW = 3, {"width": 4, "blocks": 1, "classes": 3}
BATCH = {"norm": "batch"}
TRAINING = {"epochs": 3, "batch_size": 15, "learning_rate": 0.05, "momentum": 0.9}


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with stripes across, stripes down, or none: the label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    images = rng.integers(0, 120, (count, 3, 32, 32))
    images[labels == 0, :, ::4] += 120
    images[labels == 1, :, :, ::4] += 120
    return images.astype(np.uint8), labels


@pytest.fixture
def prepared(tmp_path):
    """The folder of a narrow task with a shared set, and a source of data; options and kept tensors are given."""

    def make(options=None, keep=()):
        folder = copied("vision", tmp_path)
        shared = pictures(9, 1)
        np.savez(folder / "shared.npz", x=shared[0], y=shared[1])
        task = {"options": NARROW | (options or {}), "keep": list(keep), "shared": "shared.npz"}
        (folder / "terms.toml").write_text(tomli_w.dumps({"task": task, "training": TRAINING}))
        (x, y), (x_test, y_test) = pictures(90, 2), pictures(60, 3)
        np.savez(tmp_path / "images.npz", x=x, y=y, x_test=x_test, y_test=y_test)
        return folder, tmp_path / "images.npz"

    return make


@pytest.mark.parametrize(
    ("strategy", "options", "keep"),
    [("fedaom", {}, ()), ("fedavg", BATCH, ("*norm*",))],
    ids=["fedaom, group norm", "batch norm at home"],
)
def test_it_is_learned_under_masks_and_audited(prepared, tmp_path, strategy, options, keep):
    folder, source = prepared(options, keep)
    report = held(folder, source, dict(clients=3, rounds=2, strategy=strategy, seed=4), tmp_path / "run")
    model = fg.History(str(tmp_path / "run")).model()
    assert ("norm0.weight" in model) == (not keep) and "norm0.running_mean" not in model
    assert report["rounds"][1]["loss"] < report["rounds"][0]["loss"]
    if not keep:  # elsewhere the coordinator has norms that saw no data
        assert report["rounds"][1]["accuracy"] > 0.6


@pytest.mark.parametrize("strategy", ["moon", "fedcurv"])
def test_strategies_that_look_into_models_train_it(prepared, strategy):
    folder, source = prepared()
    plan = read_scenario(
        preset=MANY_CLIENTS,
        changes={
            "scenario": {"clients": 3, "data": str(source)},
            "federation": {"rounds": 2, "sampling_rate": 1.0},
            "task": {"folder": str(folder), "options": NARROW, "shared": "shared.npz"},
            "training": TRAINING,
            "strategy": {"name": strategy},
        },
    )
    with opened_task(plan) as task:
        run = Simulation(plan, task, InlineExecutor(), 1)
        rounds = tuple(run.run())
    assert rounds[1].accuracy > 0.6


def test_its_default_is_a_resnet_18_and_batch_norm_has_the_same_parameters(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # loading a task adds its folder
    models = [load_task(EXAMPLES / "vision", options).model() for options in ({}, BATCH)]
    assert {sum(each.numel() for each in model.parameters()) for model in models} == {11_173_962}


def test_the_small_run_deals_four_classes_with_labels_from_zero(tmp_path):
    specification = importlib.util.spec_from_file_location("learn", EXAMPLES / "vision" / "learn.py")
    learn = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(learn)
    labels = np.arange(200) % 10
    images = np.broadcast_to((labels / 255).astype(np.float32)[:, None, None, None], (200, 3, 32, 32))
    samples = Samples(np.ascontiguousarray(images), labels.astype(np.int64))
    options = SimpleNamespace(clients=3, images=10, test=12)
    task, sources = learn._prepared(tmp_path, samples, samples, options)
    assert sorted(path.name for path in sources.iterdir()) == ["0.npz", "1.npz", "2.npz", "test.npz"]
    for number in range(3):
        with np.load(sources / f"{number}.npz") as file:
            assert [[0, 1, 6, 7][label] for label in file["y"]] == file["x"][:, 0, 0, 0].tolist() and len(
                file["y"]
            ) == 10
    held_out = load_task(task, {"width": 4, "classes": 4}).data(sources / "test.npz").held_out
    assert len(held_out[1]) == 12
