"""A task suggests that members evaluate: where a privacy mechanism is in the way, the commands say so, once."""

import json
import os

import pytest

import fedgrove as fg
from fedgrove.node.devnet.testnet.layout import TestnetPaths
from fedgrove.node.devnet.testnet.lock import claim
from fedgrove.node.devnet.testnet.setup import make
from fedgrove.node.methods.terms import load_config
from fedgrove.node.scenario.reading import scenario
from tests.node.cli.test_bad_input import fedgrove
from tests.node.simulation.own_task import TERMS, table, write_task

TASK = ("--task", "points", "--data", "points.csv", "--clients", "3", "--rounds", "1")
PRIVATE = {"privacy.mechanism": "client", "privacy.epsilon": 50.0, "privacy.delta": 1e-3}
LEFT_OUT = "the [evaluation] that the task suggests is left out with privacy.mechanism"
SPENDS = f"{LEFT_OUT} client: it spends budget, and needs 300 drawn clients"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a task that suggests an evaluation, and its data."""
    folder = tmp_path_factory.mktemp("place")
    write_task(folder / "points", TERMS + "\n[evaluation]\nheld_out = 0.2\n")
    (folder / "points.csv").write_text(table(40, 1))
    return folder


def settings(values):
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


@pytest.mark.parametrize(("epsilon", "evaluates"), [("50", False), ("0", True)])
def test_a_demonstration_says_that_a_budget_leaves_it_out(place, epsilon, evaluates):
    done = fedgrove("demo", *TASK, "--epsilon", epsilon, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert ("evaluation" in report["config"]) == evaluates and len(report["rounds"]) == 1 + evaluates
    assert done.stderr.count(f"{SPENDS}; ask for it with --held-out") == (not evaluates)


@pytest.mark.parametrize(
    ("privacy", "sentence"),
    [
        (PRIVATE, f"{SPENDS}; ask for it with a table [evaluation]"),
        ({"privacy.mechanism": "signds"}, f"{LEFT_OUT} signds, under which members do not evaluate together"),
        ({}, ""),
    ],
)
def test_a_simulation_says_that_a_mechanism_leaves_it_out(place, privacy, sentence):
    own = ("--executor", "inline", "--set", "federation.sampling_rate=1", "--json")
    done = fedgrove("simulate", *TASK, *own, *settings(privacy), cwd=place)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert ("members" in run["record"]["rounds"][0]) == (not sentence)
    assert done.stderr.count(LEFT_OUT) == bool(sentence) and sentence in done.stderr


def test_python_is_told_too(place):
    said = []
    options = {"clients": 3, "rounds": 1, "settings": {**PRIVATE, "federation.sampling_rate": 1}}
    fg.simulate(place / "points", place / "points.csv", **options, progress=said.append)
    (told,) = (words for words in said if words.startswith(LEFT_OUT))
    assert told == f"{SPENDS}; ask for it with a table [evaluation]"


def test_a_testnet_says_that_a_budget_leaves_it_out(place, tmp_path):
    said, layout = [], TestnetPaths(tmp_path / "testnet")
    sources = {"task": str(place / "points"), "data": str(place / "points.csv")}
    lock = claim(layout)
    try:
        make(
            layout,
            scenario(clients=3, rounds=1, strategy="fedavg", store="disk", epsilon=8.0, **sources),
            said.append,
        )
    finally:
        os.close(lock)
    assert said.count(SPENDS) == 1
    terms, _ = load_config(layout.participant("client-02").config)
    assert terms.evaluation is None and terms.privacy.epsilon == 8.0
