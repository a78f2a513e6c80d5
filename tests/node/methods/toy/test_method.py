"""A method of one's own runs in a federation, is read from a file, reported and audited."""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import capture
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.registry import METHODS
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.terms import SharedSettings, StrategySettings
from fedgrove.node.status.report import build_report
from tests.node.federation import Federation
from tests.node.methods.toy.method import MeanMethod, MeanTerms

SILENT = {"task": None, "training": TrainingSettings(), "strategy": StrategySettings(), "shared": SharedSettings()}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(METHODS, MeanTerms, MeanMethod)


def test_a_federation_computes_the_mean_and_is_verified(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=4, rounds=2, method=MeanTerms(3), **SILENT)
        made.samples = [np.array([n, -n, 0.5], np.float32) for n in (1, 2, 3, 4)]
        made.register()
        made.run()
        assert made.audit().verdict == "verified"
        report = build_report(capture(network, made.deployment), made.store, {})
    assert report["mean"] == pytest.approx([2.5, -2.5, 0.5], abs=1e-6) and len(report["rounds"]) == 2
    assert report["config"]["mean"] == {"length": 3}


def test_a_coordinator_that_states_another_mean_is_named(tmp_path, monkeypatch):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=3, method=MeanTerms(1), **SILENT)
        made.samples = [np.array([n], np.float32) for n in (1, 2, 3)]
        made.register()
        with monkeypatch.context() as lie:
            lie.setattr(MeanMethod, "model_bytes", lambda self, model: b"[7.0]")
            lie.setattr("fedgrove.node.protocol.closing.Closings.fault", lambda *_, **how: "")
            made.run()
        bad = made.audit().first_bad_record
    assert (bad.round, bad.field) == (1, "closed.model")


def test_its_table_is_read_strictly(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text("[mean]\nlength = 5\n[federation]\nrounds = 2\n")
    assert load_config(path)[0].method == MeanTerms(5)
    path.write_text("[mean]\nwidth = 5\n")
    with pytest.raises(InvalidConfig, match=r"unknown key mean\.width"):
        load_config(path)
