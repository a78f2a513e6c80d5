"""The main job: whole federations, on every chain and store, with dropouts; same seed, same models."""

import json
import os
import subprocess
import sys

import pytest

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.demo import Demo, DemoFailed
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.roles.coordinator.role import Coordinator
from fedgrove.node.scenario.reading import scenario
from tests import warm
from tests.node.conftest import run_federation

COLD = [sys.executable, "-c", "from fedgrove.node.cli.main import run; run()"]


def fedgrove(*arguments, command=None, **variables):
    environment = os.environ | variables
    words = [*(command or warm.command()), *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)


def demo_report(*arguments, command=None, **variables):
    result = fedgrove("demo", *arguments, "--json", command=command, **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout)


def models(report):
    return [each["model_cid"] for each in report["rounds"]]


@pytest.fixture(scope="module")
def embedded_report():
    return demo_report("--clients", "4", "--rounds", "2", "--seed", "5", command=COLD)


def test_the_report_says_what_happened(embedded_report):
    report = embedded_report
    assert report["audit"] == {"verdict": "verified", "practice": True, "first_bad_record": None}
    assert [each["round"] for each in report["rounds"]] == [1, 2]
    for each in report["rounds"]:
        assert each["drawn"] == each["committed"] == 4 and each["dropped"] == []
        assert each["model_cid"].startswith("baf") and each["gas_used"] > 0 and each["seconds"] > 0
        assert 0 <= each["accuracy"] <= 1 and each["loss"] > 0
    assert set(report["bytes"]) == {"1", "2"} and set(report["bytes"]["1"]) == {"1", "2", "3", "4"}
    assert report["gas"]["draw"]["count"] == 8
    assert report["config"]["federation"]["seed"] == 5


def test_the_same_seed_gives_the_same_models_on_anvil_while_an_explorer_looks_on(embedded_report):
    options = ("--clients", "4", "--rounds", "2", "--seed", "5", "--chain", "anvil", "--explorer", "--json")
    result = fedgrove("demo", *options)
    assert result.returncode == 0 and "watch: http://127.0.0.1:" in result.stderr, result.stderr
    assert models(json.loads(result.stdout)) == models(embedded_report)


def test_the_same_seed_gives_the_same_models_on_kubo_with_pairwise_masks_and_two_workers(embedded_report, tmp_path):
    options = ("--store", "kubo", "--masking", "pairwise", "--workers", "2", "--out", str(tmp_path / "kept"))
    report = demo_report("--clients", "4", "--rounds", "2", "--seed", "5", *options)
    assert models(report) == models(embedded_report)
    assert fedgrove("audit", str(tmp_path / "kept")).returncode == 0


def test_a_portable_run_has_the_same_models_under_any_environment(embedded_report):
    options = ("--clients", "4", "--rounds", "1", "--seed", "5", "--portable")
    old = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    reports = [demo_report(*options, command=COLD, **variables) for variables in (old, {})]
    assert all(report["config"]["training"]["portable"] is True for report in reports)
    assert models(reports[0]) == models(reports[1])
    assert "portable" not in embedded_report["config"]["training"]


def test_another_seed_gives_other_models(embedded_report):
    report = demo_report("--clients", "4", "--rounds", "1", "--seed", "6")
    assert models(report)[0] != models(embedded_report)[0]


def test_it_learns_while_a_quarter_of_the_clients_drop_out(tmp_path):
    report = demo_report("--clients", "8", "--rounds", "3", "--drop", "0.25", "--out", str(tmp_path / "kept"))
    assert all(each["status"] == "closed" and len(each["dropped"]) <= 2 for each in report["rounds"])
    assert any(each["dropped"] for each in report["rounds"])
    assert report["rounds"][-1]["accuracy"] > 0.6
    result = fedgrove("audit", str(tmp_path / "kept"), "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["verdict"] == "verified"


def test_too_many_dropouts_fail_the_round_and_the_model_before_stands(tmp_path):
    run = run_federation(tmp_path / "kept", scenario(clients=6, rounds=2, strategy="fedavg", drop=0.7, seed=1))
    assert {each["status"].split(":")[0] for each in run.report["rounds"]} <= {"failed", "skipped"}
    # The first round is held again twice, in vain.
    assert len(run.report["rounds"]) == 3
    assert {each["accuracy"] for each in run.report["rounds"]} == {None}
    assert len({each["model_cid"] for each in run.report["rounds"]}) == 1
    assert fedgrove("audit", str(run.directory)).returncode == 2  # there is nothing to verify


def test_nobody_looks_for_an_update_that_its_owner_has_yet_to_publish(tmp_path):
    """A node would search for it until its time is over, while the owner waits for the same thread."""
    sought = []

    class Watched(DiskStore):
        def available(self, digest, max_bytes=None):
            there = super().available(digest, max_bytes)
            sought.append(there)
            return there

    plan = scenario(clients=4, rounds=2, strategy="fedavg", masking="pairwise", seed=5, workers=2)
    with embedded() as network:
        Demo(plan, DatasetSubject(load_dataset("digits")), network, Watched(tmp_path)).run()
    assert sought and all(sought)


def test_clients_never_tell_the_store_their_weights(run):
    """Nothing that a client put into the store correlates with a model: masked bytes are uniform, shares are sealed."""
    import numpy as np

    from fedgrove.chain.records import Closed, Committed
    from fedgrove.node.base.tensors import flatten, load

    closed = next(record for record in run.records if isinstance(record, Closed))
    weights = flatten(load(run.store.fetch(closed.model_digest, 1 << 26)))
    for record in run.records:
        if isinstance(record, Committed) and record.round == closed.round:
            masked = np.frombuffer(run.store.fetch(record.digest, 1 << 26), "<u4").astype(np.float64)
            masked = masked[: len(weights)]  # a word behind them counts who could not train
            # Under uniform masks r·√n is about standard normal; 5 is exceeded with probability 6e-7.
            assert abs(np.corrcoef(masked, weights)[0, 1]) * np.sqrt(len(weights)) < 5


def test_a_chain_that_stops_is_said_to_make_no_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr("fedgrove.chain.network.standstill.STANDSTILL_SECONDS", 0.3)
    seen = []
    with embedded() as network:
        network.can_mine = False  # nobody asks it for blocks
        plan = scenario(clients=3, rounds=1, strategy="fedavg")
        subject = DatasetSubject(load_dataset("digits"))
        demo = Demo(plan, subject, network, DiskStore(tmp_path), lambda *step: seen.append(step), patience=1.5)
        with pytest.raises(DemoFailed, match="nothing happened for 2 s"):
            demo.run()
    [step] = [step for role, step in seen if role == "chain"]
    assert "the chain has made no block for" in step.waiting and "check that its node" in step.waiting


def test_a_block_that_comes_by_itself_after_the_coordinator_has_looked_ends_no_round(monkeypatch, tmp_path):
    look, came = Coordinator.step, []
    with embedded() as network:

        def look_just_before_the_block(coordinator):
            step = look(coordinator)
            if step.waiting.startswith("the chain:"):
                came.append(step.until)
                network.mine(step.until - network.block_number())
            return step

        monkeypatch.setattr(Coordinator, "step", look_just_before_the_block)
        subject = DatasetSubject(load_dataset("digits"))
        demo = Demo(scenario(clients=3, rounds=1, strategy="fedavg"), subject, network, DiskStore(tmp_path))
        demo.run()
        latest = LedgerView(Ledger(network, demo.founded, None)).refresh()
    assert came and latest is not None and latest.number == 1 and latest.stands
