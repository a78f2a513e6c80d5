"""``--base``: a task with a frozen base of its own, in every command that runs one."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

import fedgrove as fg
from fedgrove.common.errors import InvalidInput
from fedgrove.node.devnet.members import COORDINATOR
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.devnet.testnet.lock import claim
from fedgrove.node.devnet.testnet.setup import make
from fedgrove.node.methods.terms import load_config
from fedgrove.node.scenario.reading import scenario
from tests.node.cli.test_bad_input import fedgrove
from tests.node.simulation.own_task import table

TASK = """
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import nn
import fedgrove as fg

class Probed(fg.Task):
    def __init__(self):
        self.width = len(load_file(self.base("tiny") / "model.safetensors")["weight"])

    def model(self):
        frozen = nn.Linear(4, self.width, bias=False).requires_grad_(False)
        frozen.weight.data = torch.from_numpy(load_file(self.base("tiny") / "model.safetensors")["weight"])
        return nn.Sequential(frozen, nn.ReLU(), nn.Linear(self.width, 3))

    def data(self, source):
        try:
            (self.base("tiny") / "written").write_text("x")
        except OSError:
            pass
        table = np.loadtxt(source, delimiter=",", dtype=np.float32)
        pair = (table[:, :4], table[:, 4].astype(np.int64))
        return fg.Data(pair, held_out=pair)
"""


@pytest.fixture
def place(tmp_path):
    """A task with a tiny base in its terms, and data."""
    (tmp_path / "tiny").mkdir()
    weight = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    save_file({"weight": weight}, tmp_path / "tiny/model.safetensors")
    (tmp_path / "tiny/config.json").write_text('{"width": 6}')
    (tmp_path / "probed").mkdir()
    (tmp_path / "probed/task.py").write_text(TASK)
    named = fedgrove("task", "base", "tiny", "tiny", "--store", "disk:store", cwd=tmp_path)
    assert named.returncode == 0, named.stderr
    (tmp_path / "probed/terms.toml").write_text(named.stdout)
    (tmp_path / "points.csv").write_text(table(40, 1))
    return tmp_path


BASE = ("--base", "tiny=tiny")
SIMULATE = ("simulate", "--task", "probed", "--data", "points.csv", "--clients", "3", "--rounds", "1")
DEMO = ("demo", "--task", "probed", "--data", "points.csv", "--clients", "3", "--rounds", "1")


def test_pack_and_show_list_the_bases(place):
    size = sum(path.stat().st_size for path in (place / "tiny").iterdir())
    packed = fedgrove("task", "pack", "probed", "--store", "disk:store", "--json", cwd=place)
    (base,) = json.loads(packed.stdout)["bases"]
    assert base["name"] == "tiny" and base["size"] == size
    shown = fedgrove("task", "show", json.loads(packed.stdout)["bundle"], "--store", "disk:store", cwd=place)
    assert f"base tiny {base['cid']}: {size} bytes" in shown.stdout


def test_a_task_is_checked_simulated_and_demonstrated_with_its_base(place):
    checked = fedgrove("task", "check", "probed", "--data", "points.csv", *BASE, cwd=place)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "bases        as the task names them: tiny" in checked.stdout
    assert "2 federated tensors, 21 parameters" in checked.stdout
    run = fedgrove(*SIMULATE, *BASE, "--executor", "inline", "--json", cwd=place)
    assert run.returncode == 0 and 0 <= json.loads(run.stdout)["runs"][0]["record"]["rounds"][0]["accuracy"] <= 1
    kept = fedgrove(*DEMO, *BASE, "--out", "kept", cwd=place)
    assert kept.returncode == 0, kept.stderr
    os.rename(place / "tiny", place / "gone")
    assert fedgrove("audit", "kept", cwd=place).returncode == 0
    assert not (place / "gone/written").exists()


def test_a_base_that_is_missing_or_differs_is_one_sentence(place):
    for command in (SIMULATE, DEMO, ("task", "check", "probed", "--data", "points.csv")):
        result = fedgrove(*command, cwd=place)
        assert result.returncode in (1, 2)
        assert "the task needs the base tiny: give --base tiny=PATH" in result.stdout + result.stderr
    (place / "tiny/config.json").write_text('{"width": 7}')
    result = fedgrove(*SIMULATE, *BASE, cwd=place)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "tiny is not the base tiny of the terms: its content has the CID" in result.stderr


def test_python_takes_bases_by_name(place, monkeypatch):
    monkeypatch.chdir(place)
    common = {"clients": 3, "rounds": 1, "bases": {"tiny": "tiny"}}
    assert fg.demo("probed", "points.csv", **common).verdict.verdict == "verified"
    every = {"federation.sampling_rate": 1.0}
    assert fg.simulate("probed", "points.csv", settings=every, **common).rounds[0].committed_clients == (1, 2, 3)
    with pytest.raises(InvalidInput, match="bases are a task's frozen bases: leave them out with a data set"):
        fg.demo("digits", **common)


def test_a_testnet_is_made_with_the_base_and_passes_it_on_to_every_process(place):
    layout = TestnetPaths(place / "testnet")
    lock = claim(layout)
    try:
        bases = {"tiny": str(place / "tiny")}
        plan = {"clients": 3, "rounds": 1, "store": "disk", "strategy": "fedavg", "block_seconds": 0.5}
        task = {"task": str(place / "probed"), "data": str(place / "points.csv")}
        testnet = make(layout, scenario(**plan, **task, bases=bases))
    finally:
        os.close(lock)
    terms, _ = load_config(layout.participant("client-02").config)
    assert [base.name for base in terms.task.bases] == ["tiny"]
    for name in ("client-01", "client-03", COORDINATOR):
        given = testnet.sources[name]
        assert given[given.index("--base") + 1] == f"tiny={place / 'tiny'}"
    assert read_record(layout) == testnet


def test_a_name_that_no_base_has_is_refused(place):
    result = fedgrove(*SIMULATE, *BASE, "--base", "other=tiny", cwd=place)
    assert result.returncode == 2 and "the task has no base other; it has tiny" in result.stderr
