"""Predictions out of a run, and out of a saved file without any ledger, in the names and units of the data."""

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics

import fedgrove as fg
from fedgrove.api.saving import model_file
from fedgrove.chain.crypto.keys import Keys
from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensor_views import metadata
from fedgrove.node.base.tensors import load, with_metadata
from fedgrove.node.learning.datasets import DatasetError, load_dataset
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.kmeans.prediction import NearestCentre
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.task_code import read_code
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.protocol.prediction import ModelChoice
from fedgrove.node.protocol.terms import FederationConfig, LedgerSettings, MembershipSettings, ModelSpec
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.tasks.approval import Approvals, NotApproved
from tests.node.conftest import run_task

TERMS = """
[task]
name = "tabular"
[task.options]
target = "pressure"
kind = "regression"
target_range = [80, 200]
missing = "drop"
[task.options.columns]
age = { kind = "number", range = [0, 100] }
sex = { kind = "category", values = ["f", "m"] }
[training]
batch_size = 10
learning_rate = 0.05
"""
OWN = """
import numpy as np
import torch
from torch import nn

import fedgrove as fg


class Mine(fg.Task):
    def model(self):
        return nn.Linear(2, 3)

    def data(self, source):
        table = np.loadtxt(source, delimiter=",", dtype=np.float32)
        return fg.Data((table[:, :2], table[:, 2].astype(np.int64)))
"""


@dataclass(frozen=True)
class Learned:
    """A federation that has learned a folder's task, and its model's file."""

    folder: Path
    history: fg.History
    file: Path


def _learn(folder: Path, task: dict[str, str], data: str) -> Learned:
    (folder / "mine").mkdir()
    for name, text in task.items():
        (folder / "mine" / name).write_text(text)
    (folder / "train.csv").write_text(data)
    task = {"task": str(folder / "mine"), "data": str(folder / "train.csv"), "sandbox": "off"}
    made = run_task(folder / "kept", scenario(clients=3, rounds=1, strategy="fedavg", **task))
    history = fg.History(made.history, made.store)
    (folder / "model.safetensors").write_bytes(model_file(history).data)
    return Learned(folder, history, folder / "model.safetensors")


def _rows() -> list[tuple[int, str, float]]:
    return [(20 + n, "fm"[n % 2], 100 + n + 5 * (n % 2)) for n in range(60)]


@pytest.fixture(scope="module")
def tabular(tmp_path_factory) -> Learned:
    """A regression on a table."""
    text = "age,sex,pressure\n" + "".join(f"{age},{sex},{pressure}\n" for age, sex, pressure in _rows())
    return _learn(tmp_path_factory.mktemp("tabular"), {"terms.toml": TERMS}, text)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Learned:
    """A classification by a task of one's own."""
    text = "".join(f"{n % 7},{n % 5},{n % 3}\n" for n in range(60))
    return _learn(tmp_path_factory.mktemp("own"), {"task.py": OWN}, text)


def test_a_table_is_predicted_in_the_targets_unit_from_the_file_alone(tabular):
    new = tabular.folder / "new.csv"
    new.write_text("sex;age\nf;30\nm;\nm;50\n")  # another order and delimiter, no target, and a missing age
    found = fg.load(tabular.file, sandbox="off").predict(new)
    assert (found.name, found.columns, found.rows.tolist()) == ("pressure", ["row", "pressure"], [1, 3])
    weights = tabular.history.state_arrays()
    scaled = np.array([[-0.4, 1, 0], [0, 0, 1]]) @ weights["net.0.weight"].T + weights["net.0.bias"]
    assert found.values == pytest.approx(scaled * 60 + 140, rel=1e-5)
    assert found.frame()["pressure"].tolist() == found.values[:, 0].tolist()


def test_a_file_and_its_run_predict_the_same_and_refuse_what_training_would(tabular):
    new = tabular.folder / "other.csv"
    new.write_text("age,sex\n30,f\n")
    of_file = fg.load(tabular.file, sandbox="off")
    of_run = fg.load(tabular.history, sandbox="off")
    assert of_file.predict(new).values.tolist() == of_run.predict(new).values.tolist()
    assert of_file.about.items() >= of_run.about.items() and of_file.terms == tabular.history.terms
    new.write_text("age,sex\n130,f\n")
    with pytest.raises(TaskFailed, match=r"^other.csv, line 2, column age: '130' is outside the range 0 to 100"):
        of_file.predict(new)


def test_a_regression_is_scored_in_the_targets_unit(tabular):
    predictor = fg.load(tabular.file, sandbox="off")
    scores = predictor.evaluate(tabular.folder / "train.csv")
    truth = [pressure for _, _, pressure in _rows()]
    (tabular.folder / "all.csv").write_text("age,sex\n" + "".join(f"{age},{sex}\n" for age, sex, _ in _rows()))
    predicted = predictor.predict(tabular.folder / "all.csv").values[:, 0]
    assert scores.mae == pytest.approx(metrics.mean_absolute_error(truth, predicted), rel=1e-5)
    assert scores.r2 == pytest.approx(metrics.r2_score(truth, predicted), rel=1e-5)


def test_a_network_predicts_probabilities_of_its_classes(run, tmp_path):
    images, labels = (getattr(load_dataset("digits").test(), name) for name in "xy")
    np.savez(tmp_path / "new.npz", x=images[:50])
    np.savez(tmp_path / "test.npz", x_test=images, y_test=labels)
    predictor = fg.load(run.directory)
    found = predictor.predict(tmp_path / "new.npz")
    assert found.classes == tuple("0123456789") and found.values.sum(1) == pytest.approx(np.ones(50))
    scores = predictor.evaluate(tmp_path / "test.npz")
    last = [each for each in run.report["rounds"] if each["accuracy"] is not None][-1]
    assert scores.confusion.accuracy == pytest.approx(last["accuracy"])
    assert scores.log_loss == pytest.approx(last["loss"], rel=1e-4)
    values = predictor.labelled(tmp_path / "test.npz").values
    assert scores.auc == pytest.approx(metrics.roc_auc_score(labels, values, multi_class="ovr"), abs=1e-9)
    np.savez(tmp_path / "other.npz", images=images[:5])
    with pytest.raises(DatasetError, match="or the images x to predict for without labels"):
        predictor.predict(tmp_path / "other.npz")
    with pytest.raises(InvalidConfig, match="there is one model for everybody"):
        fg.load(run.directory, cluster=1)


def test_a_task_of_ones_own_predicts_by_its_own_code(own, tmp_path):
    new = own.folder / "train.csv"
    with pytest.raises(InvalidConfig, match=r"give its folder \(--task\), or the directory of a client"):
        fg.load(own.file).predict(new)
    predictor = fg.load(own.file, task=own.folder / "mine", sandbox="off")
    found = predictor.predict(new)
    module = torch.nn.Linear(2, 3)
    module.load_state_dict(own.history.state_dict())
    table = torch.from_numpy(np.loadtxt(new, delimiter=",", dtype=np.float32))
    assert found.values == pytest.approx(module(table[:, :2]).softmax(1).detach().numpy(), abs=1e-6)
    assert found.classes == ("0", "1", "2")
    assert predictor.evaluate(new).confusion.samples == 60
    (tmp_path / "task.py").write_text(OWN.replace("Mine", "Other"))
    with pytest.raises(InvalidConfig, match="is another task than the model's"):
        fg.load(own.file, task=tmp_path, sandbox="off").predict(new)


def test_a_task_that_a_client_approved_predicts_from_its_directory(own, tmp_path):
    keys, bundle = Keys.generate(), read_code(own.folder / "mine").bundle
    assert bundle is not None
    data = own.folder / "train.csv"
    with pytest.raises(NotApproved, match="nobody has approved this task in"):
        fg.load(own.file, directory=tmp_path, sandbox="off").predict(data)
    Approvals(tmp_path, keys.address).approve(keys.account, bundle)
    found = fg.load(own.file, directory=tmp_path, sandbox="off").predict(data)
    assert (
        found.values.tolist()
        == fg.load(own.file, task=own.folder / "mine", sandbox="off").predict(data).values.tolist()
    )
    (tmp_path / "tasks" / str(bundle.cid) / "task.py").chmod(0o600)
    (tmp_path / "tasks" / str(bundle.cid) / "task.py").write_text(OWN.replace("Mine", "Other"))
    with pytest.raises(InvalidConfig, match=r"are not in .* as they were"):
        fg.load(own.file, directory=tmp_path, sandbox="off").predict(data)


def _terms_of(file: Path) -> str:
    return metadata(file.read_bytes())["terms"]


def _altered(file: Path, **changes: str) -> bytes:
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = {name: value for name, value in json.loads(data[8 : 8 + size]).items() if name != "__metadata__"}
    text = json.dumps(header).encode()
    bare = len(text).to_bytes(8, "little") + text + data[8 + size :]
    return with_metadata(bare, metadata(data) | changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda file: _altered(file, terms=metadata(file.read_bytes())["terms"].replace("80", "81")),
            "holds other terms",
        ),
        (lambda file: _altered(file, cid="bafkreia"), "was altered: its tensors are not those of"),
        (lambda file: _altered(file, form="state dict"), "save it without --state-dict"),
        (lambda file: _altered(file, format="else"), "is not a model that `fedgrove model save` wrote"),
        (lambda file: file.read_bytes()[:-4], "is not a saved model: .* ends too early"),
        (lambda file: b"\xff" * 64, "is not a saved model: .* header is wrong"),
        (lambda file: b"", "is not a saved model"),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(tabular, tmp_path, change, said):
    (tmp_path / "model.safetensors").write_bytes(change(tabular.file))
    with pytest.raises(InvalidContent, match=said):
        fg.load(tmp_path / "model.safetensors")


def test_a_file_of_an_older_version_is_to_be_saved_again(tabular, tmp_path):
    data = tabular.file.read_bytes()
    stated = {name: value for name, value in metadata(data).items() if name != "terms"}
    size = int.from_bytes(data[:8], "little")
    header = {name: value for name, value in json.loads(data[8 : 8 + size]).items() if name != "__metadata__"}
    text = json.dumps(header).encode()
    (tmp_path / "old.safetensors").write_bytes(
        with_metadata(len(text).to_bytes(8, "little") + text + data[8 + size :], stated)
    )
    with pytest.raises(InvalidContent, match="lacks its federation's terms: save it again"):
        fg.load(tmp_path / "old.safetensors")
    assert load(data).keys() == {"net.0.bias", "net.0.weight"}


def test_a_model_of_one_of_several_clusters_is_chosen_by_number_or_by_member():
    from tests.node.methods.procfl.courses import FIRST, SECOND, TERMS, clustered, model

    spec, approved = ModelSpec("small-mlp", (1, 2, 2), 2), MembershipSettings("approved")
    few, terms = LedgerSettings(max_clients=10), replace(TERMS, seats=0)
    method = method_of(
        FederationConfig(method=terms, membership=approved, task=TaskSettings.of_network(spec), ledger=few)
    )
    state = replace(clustered(), stage="train", models=(model(1), model(2)), groups=(FIRST, SECOND))
    assert method.one_model(state, ModelChoice(cluster=2)) is state.models[1]
    assert method.one_model(state, ModelChoice(client=FIRST[0])) is state.models[0]
    one = clustered()
    assert method.one_model(one, ModelChoice()) is method.one_model(one, ModelChoice(client=SECOND[0])) is one.models[0]
    for choice, said in (
        (ModelChoice(), "there is a model for each of 2 clusters: say which"),
        (ModelChoice(cluster=3), "the cluster must be a number from 1 to 2"),
        (ModelChoice(client=6), "client 6 is in no cluster"),
        (ModelChoice(1, 1), "give the cluster or the client, not both"),
    ):
        with pytest.raises(InvalidConfig, match=said):
            method.one_model(state, choice)


def test_points_get_their_nearest_centre(tmp_path):
    config = FederationConfig(method=KMeansTerms(k=2, dimensions=2, step=0.05))
    centres = np.array([[0.5, 0.5], [-0.5, 0]], np.float32)
    np.savez(tmp_path / "points.npz", points=np.array([[0.5, 0.4], [-0.5, -0.1], [0.4, 0.5]]))
    found = NearestCentre(config, {"centres": centres}).predict(tmp_path / "points.npz")
    assert found.values[:, 0].tolist() == [1, 2, 1] and found.values[:, 1] == pytest.approx([0.1] * 3, abs=1e-6)
    assert found.columns == ["row", "cluster", "distance"]
    with pytest.raises(InvalidContent, match="these are not 1 to 2 centres of 2 coordinates"):
        NearestCentre(config, {"centres": centres[:, :1]})
    with pytest.raises(InvalidConfig, match="points have no labels"):
        NearestCentre(config, {"centres": centres}).predict(tmp_path / "points.npz", labelled=True)


def test_the_written_table_is_read_back_as_it_is(tabular):
    new = tabular.folder / "csv.csv"
    new.write_text("age,sex\n30,f\n40,m\n")
    found = fg.load(tabular.file, sandbox="off").predict(new)
    assert list(csv.reader([",".join(map(str, row)) for row in found.table()])) == [
        [str(row), str(value)] for row, value in zip((1, 2), found.values[:, 0].tolist(), strict=True)
    ]
