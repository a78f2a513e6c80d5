"""What ``import fedgrove`` offers, on a run that a demonstration left."""

import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
import torch

import fedgrove as fg
from fedgrove.chain.face.networks import anvil
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import export_car
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.scenario.reading import scenario


def test_rounds_say_what_the_report_says(run):
    history = fg.History(run.directory)
    told = [(each.round, each.accuracy, each.model_cid, each.drawn) for each in history.rounds]
    assert told == [
        (each["round"], each["accuracy"], each["model_cid"], each["drawn"]) for each in run.report["rounds"]
    ]
    assert {each.status for each in history.rounds} == {"closed"} and len(history.records) == len(run.records)
    assert history.terms == run.report["config"]


def test_models_are_those_of_their_rounds(run):
    history = fg.History(run.directory)
    last = max(each.round for each in history.rounds)
    final, first = history.model(), history.model(1)
    assert all(np.array_equal(final[name], history.model(last)[name]) for name in final)
    assert any(not np.array_equal(final[name], first[name]) for name in final)
    with pytest.raises(InvalidInput, match="round 99 did not close"):
        history.model(99)
    tensors = history.state_dict()
    assert all(isinstance(each, torch.Tensor) for each in tensors.values())
    assert all(np.array_equal(final[name], tensor.numpy()) for name, tensor in tensors.items())
    with pytest.raises(InvalidInput, match="table must be one of rounds, records, metrics, not 'models'"):
        history.frame("models")


def test_an_archive_has_the_history_of_its_run(run, tmp_path):
    export_car(run.directory, tmp_path / "run.car")
    told, history = fg.History(tmp_path / "run.car"), fg.History(run.directory)
    assert told.rounds == history.rounds and told.records == history.records
    assert all(np.array_equal(value, told.model()[name]) for name, value in history.model().items())


def test_a_live_federation_is_audited_and_read_over_the_network(tmp_path):
    place = f"disk:{tmp_path / 'store'}"
    with anvil() as network:
        plan = scenario(clients=3, rounds=1, strategy="fedavg")
        demo = Demo(plan, DatasetSubject(load_dataset("digits")), network, DiskStore(tmp_path / "store"))
        demo.run()
        ledger = demo.founded.ledger
        assert fg.audit(network.url, ledger=ledger, store=place).verdict == "verified"
        history = fg.History(network.url, place, ledger=ledger)
        for missing in ({"ledger": ledger}, {"store": place}):
            with pytest.raises(InvalidInput, match="give ledger and store, too"):
                fg.audit(network.url, **missing)
        for store in ("disk:nowhere", "tape"):
            with pytest.raises(InvalidInput, match="store"):
                fg.audit(network.url, ledger=ledger, store=store)
    assert [each.status for each in history.rounds] == ["closed"] and history.state_dict()
    with pytest.raises(InvalidInput, match="leave them out with a run's path"):
        fg.audit(tmp_path, ledger=ledger)


def test_what_is_no_run_is_one_sentence(tmp_path):
    with pytest.raises(InvalidInput, match="not hold a run"):
        fg.History(tmp_path)
    with pytest.raises(InvalidInput, match="not hold a run"):
        fg.audit(tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        fg.audit(tmp_path / "nothing.car")


def test_the_import_brings_nothing_heavy_and_knows_its_version():
    assert fg.__version__ == version("fedgrove")
    with pytest.raises(AttributeError, match="no attribute 'simulate_everything'"):
        _ = fg.simulate_everything
    code = "import fedgrove, sys; print(sorted({'torch', 'web3', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
