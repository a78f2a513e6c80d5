"""Images without code: drafted terms, their check, a federation that learns them, and the same bytes simulated."""

import json

import numpy as np
import pytest

from tests.node.cli.test_bad_input import fedgrove
from tests.node.learning.images import picture, write_bars


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with ``pictures``, to train and to evaluate on, and ``mine``, the terms that are drafted for them."""
    folder = tmp_path_factory.mktemp("images")
    write_bars(folder / "pictures" / "train", 200, 0)
    write_bars(folder / "pictures" / "test", 40, 1)
    made = fedgrove("task", "new", "mine", "--images", "pictures", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder


def run(place, *command):
    result = fedgrove(*command, "--task", "mine", "--data", "pictures", "--json", cwd=place)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_folder_has_terms_only_and_passes_its_check(place):
    assert [path.name for path in (place / "mine").iterdir()] == ["terms.toml"]
    result = fedgrove("task", "check", "mine", "--data", "pictures", "--json", cwd=place)
    assert result.returncode == 0, result.stdout + result.stderr
    checks = {each["check"]: each for each in json.loads(result.stdout)["checks"]}
    assert checks["bundle"]["sentence"] == "the shipped task images, without code"
    assert checks["data"]["values"] == {"samples": 200, "held_out": 40}


def test_a_federation_learns_them_verified_and_a_simulation_has_its_figures(place):
    report = run(place, "demo", "--clients", "4", "--rounds", "3", "--seed", "3")
    assert report["audit"]["verdict"] == "verified"
    assert report["rounds"][-1]["accuracy"] > 0.8
    options = ("--clients", "4", "--rounds", "3", "--set", "federation.seed=3", "--executor", "inline")
    (simulated,) = run(place, "simulate", *options, "--set", "federation.sampling_rate=1")["runs"]
    figures = [(each["accuracy"], each["loss"]) for each in simulated["record"]["rounds"]]
    assert figures == [(each["accuracy"], each["loss"]) for each in report["rounds"]]


def test_a_fault_of_an_image_is_the_whole_sentence(place, tmp_path):
    picture(tmp_path / "mine" / "up" / "a.png", np.zeros((8, 9)))
    result = fedgrove("task", "check", "mine", "--data", str(tmp_path / "mine"), cwd=place)
    assert result.returncode == 1
    assert "data         up/a.png has 9×8 pixels, and the terms say 8×8: scale it, or agree on size" in result.stdout
