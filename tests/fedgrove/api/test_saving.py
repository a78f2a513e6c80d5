"""A saved model is the one on record, says where it is, and loads into the module of its task."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load as load_torch
from torch import nn

import fedgrove as fg
from fedgrove.api.saving import model_file
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.scenario.reading import scenario
from tests.node.conftest import run_task

TASK = """
import numpy as np
from torch import nn

import fedgrove as fg


class Mine(fg.Task):
    def model(self):
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

    def data(self, source):
        generator = np.random.default_rng(0)
        return fg.Data((generator.normal(2, 1.5, (60, 3)), np.arange(60) % 2))
"""


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> fg.History:
    """Three clients, one round, a task with running statistics."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "mine").mkdir()
    (folder / "mine" / "task.py").write_text(TASK)
    (folder / "data").write_text("")
    task = {"task": str(folder / "mine"), "data": str(folder / "data"), "sandbox": "off"}
    made = run_task(folder / "kept", scenario(clients=3, rounds=1, strategy="fedavg", **task))
    return fg.History(made.history, made.store)


def test_the_tensors_on_record_are_saved_with_their_place(run, tmp_path):
    history = fg.History(run.directory)
    found = model_file(history, 1)
    (tmp_path / "model").write_bytes(found.data)
    with safe_open(tmp_path / "model", "np") as file:
        metadata = file.metadata()
    first = history.rounds[0]
    assert (
        metadata
        == found.metadata
        == {
            "format": "fedgrove-model-1",
            "form": "as on record",
            "cid": first.model_cid,
            "round": "1",
            "status": "closed",
            "ledger": history.ledger.deployment.ledger,
            "chain_id": str(history.ledger.chain_id),
            "terms_digest": first.terms_digest,
            "second_moments": "[]",
            "terms": history.terms_bytes().decode(),
        }
    )
    assert str(cid_of(dump(load(found.data)))) == first.model_cid


def test_by_default_it_is_the_model_in_force(run):
    history = fg.History(run.directory)
    assert model_file(history).metadata["round"] == str(history.rounds[-1].round)
    assert model_file(history).data == model_file(history, history.rounds[-1].round).data


def test_second_moments_are_named_and_become_variances_in_a_state_dict(learned):
    assert json.loads(model_file(learned).metadata["second_moments"]) == ["1.running_second_moment"]
    found = model_file(learned, as_state_dict=True)
    assert found.metadata["form"] == "state dict" and found.metadata["second_moments"] == "[]"
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    module.load_state_dict(load_torch(found.data))
    model = learned.model()
    mean = model["1.running_mean"]
    variance = model["1.running_second_moment"] - mean**2
    assert np.allclose(module[1].running_var.numpy(), variance) and (variance > 0).all()
    assert all(
        np.array_equal(learned.state_dict()[name], value) for name, value in model.items() if "moment" not in name
    )
    assert torch.isfinite(module.eval()(torch.zeros(2, 3))).all()


def test_a_blob_that_was_changed_is_not_saved(run, tmp_path):
    class Changed:
        """A store that verifies nothing and returns another model."""

        def __init__(self, store):
            self._store = store

        def root(self, digest, max_bytes=None):
            return self._store.root(digest, max_bytes)

        def fetch(self, digest, max_bytes):
            data = self._store.fetch(digest, max_bytes)
            return dump({name: value + 1 for name, value in load(data).items()}) if data[:1] != b"{" else data

    history = fg.History(run.history, Changed(run.store))
    with pytest.raises(InvalidContent, match="round 1"):
        model_file(history, 1)


def test_a_round_without_a_model_has_none_to_save(run):
    with pytest.raises(InvalidInput, match="round 99 did not close"):
        model_file(fg.History(run.directory), 99)
    with pytest.raises(InvalidInput, match="give the store, too"):
        fg.History(run.history)
