"""A scenario's file, and what suits it for keys that are left out; the short names of keys."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings, default_settings
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.scenario.checks import check_data
from fedgrove.node.scenario.clusters import IfcaSettings, SimulatedProCfl
from fedgrove.node.scenario.names import NAMED, tables_of
from fedgrove.node.scenario.reading import completed, difference, read_scenario, scenario
from fedgrove.node.scenario.settings import TaskChoice
from fedgrove.node.simulation.checks import check_simulated
from tests.node.simulation.own_task import write_task

EXAMPLES = Path(__file__).parents[3] / "docs" / "plans"
MODEL = """
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10
"""
CLUSTERS = f"""{MODEL}
[federation]
rounds = 7
[membership]
mode = "approved"
[ledger]
max_clients = 9
[procfl]
seats = 3
counter = "{64 * "a"}"
signer = "0x{40 * "1"}"
rule = {{ margin = 0.25 }}
"""


@pytest.fixture
def read(tmp_path):
    """Read a scenario from a text, with changes."""

    def of(text, changes=None):
        path = tmp_path / "scenario.toml"
        path.write_text(text)
        return read_scenario(path, changes)

    return of


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_a_scenario_and_shows_its_command(path, read):
    found = read_scenario(path)
    check_simulated(found)
    assert found != scenario() and read(found.to_toml().decode()) == found
    assert path.read_text().splitlines()[0].endswith(f": fedgrove simulate --scenario docs/plans/{path.name}")


def test_left_out_keys_take_what_suits_the_data(read):
    assert read("") == read_scenario() == scenario()
    assert (scenario().strategy.name, scenario().training) == ("fedaom", default_settings("digits"))
    training = read('[scenario]\ndataset = "cifar10"\n[training]\nepochs = 3\n').training
    assert training == replace(default_settings("cifar10"), epochs=3)


def test_a_method_replaces_that_of_the_file(read):
    text = "[federation]\nrounds = 2\nseed = 5\n[procfl]\nalpha = 0.4\n"
    found = read(text, {"federation": {"rounds": 4}, "procfl": {"seats": 3}})
    assert (found.rounds, found.seed, found.method) == (4, 5, SimulatedProCfl(alpha=0.4, seats=3))
    assert read(text, {"ifca": {"models": 3}}).method == IfcaSettings(3)


def test_clients_that_are_to_cluster_come_in_groups():
    told = scenario(clients=9, method="procfl, seats = 3")
    assert told.partition == PartitionSettings("groups", groups=2, others=0.2)
    assert told.method == SimulatedProCfl(alpha=0.5, seats=3)
    stated = scenario({"partition.kind": "iid"}, clients=9, method="procfl")
    assert stated.partition.kind == "iid" and stated.method == SimulatedProCfl()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("training, seats = 3", "must be training, or one of"),
        ("best", "must be training, or one of procfl, ifca, global, kmeans and settings, not 'best'"),
        ("procfl, seats", "must be like 'procfl, alpha = 0.5'"),
        ("procfl, seats = 'all'", "procfl.seats must be of type int"),
        ("procfl, chairs = 3", "unknown key procfl.chairs"),
        ("procfl, seats = -1", "seats must be from 0"),
    ],
)
def test_a_mistake_in_a_method_is_named(given, named):
    with pytest.raises(InvalidConfig, match=named):
        scenario(method=given)


def test_a_budget_gets_the_noise_that_it_asks_for():
    told = scenario(clients=4, rounds=3, drop=0.25, epsilon=8.0)
    assert told.masking.masked == "delta"
    assert (told.privacy.epsilon, told.privacy.delta, told.privacy.dropouts) == (8.0, 1e-3, 0.25)
    stated = scenario({"privacy.noise_multipliers": [2.0]}, epsilon=8.0)
    assert stated.privacy.noise_multipliers == (2.0,) and scenario(epsilon=0.0).privacy is None


def test_every_short_name_says_what_its_key_means():
    for name, named in NAMED.items():
        assert named.help.endswith(".") and named.type, name
    assert tables_of({"clients": 3, "rounds": None}) == {"scenario": {"clients": 3}}
    with pytest.raises(InvalidConfig, match="unknown option 'client'"):
        tables_of({"client": 3})


def test_a_difference_is_named_by_its_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = scenario(clients=4, rounds=2, seed=3).absolute()
    assert difference(kept, {"scenario": {"clients": 4}, "federation": {"rounds": 2}}) == ""
    assert difference(kept, {"federation": {"rounds": 3}}) == "federation.rounds"
    assert difference(kept, {"run": {"workers": 3}}, ("run.workers",)) == ""
    assert difference(kept, {"evaluation": {"held_out": 0.5}}) == "evaluation.held_out"


def test_a_federations_file_gives_its_terms_and_takes_tables_of_a_scenario(read):
    terms = MODEL + "[federation]\nsampling_rate = 0.5\n[masking]\nbound = 4.0\nmode = 'pairwise'\n"
    plan = read(terms + "[network]\nrpc = 'http://127.0.0.1:8545'\n[scenario]\nclients = 12\ntest_samples = 9\n")
    # FedAom, 3 rounds, and training as the terms' defaults have it, whatever suits the data set.
    assert (plan.strategy.name, plan.rounds, plan.training) == ("fedaom", 3, TrainingSettings())
    assert (plan.federation.sampling_rate, plan.masking.bound, plan.model.name) == (0.5, 4.0, "small-cnn")
    assert (plan.clients, plan.cast.test_samples, plan.cast.dataset) == (12, 9, "digits")


def test_a_federation_with_clusters_trains_in_the_rounds_after_its_comparisons(read):
    plan = read(CLUSTERS)
    assert plan.rounds == 4 and plan.method == SimulatedProCfl(seats=3, rule=Rule(margin=0.25))


def test_a_task_brings_what_its_author_suggests_for_keys_that_are_left_out(read, tmp_path):
    folder = write_task(tmp_path / "points")
    text = f"[task]\nfolder = '{folder}'\n[training]\nepochs = 5\n[scenario]\ndata = 'x.csv'\n"
    found = read(text)
    assert found.task == TaskChoice(folder=str(folder), keep=("1.running_*",)) and found.masking.bound == 16.0
    assert found.strategy.name == "fedavg"
    assert found.training == TrainingSettings(epochs=5, batch_size=8, learning_rate=0.1)
    assert read(text, {"task": {"keep": []}}).task == TaskChoice(folder=str(folder))
    assert read(found.to_toml().decode()) == found
    assert "partition" not in found.to_json() and "dataset" not in found.to_json()["scenario"]


def test_a_federations_task_takes_its_folder_beside_the_bundle(read, tmp_path):
    bundle = "b" + 58 * "a"
    terms = f"[task]\nbundle = '{bundle}'\noptions = {{ hidden = 4 }}\n[masking]\nbound = 4.0\n[network]\n"
    folder = write_task(tmp_path / "points")
    assert read(terms.replace("[network]", "[strategy]\nname = 'moon'\n[network]")).task.folder == ""
    found = read(terms + "[strategy]\nname = 'moon'\n", {"task": {"folder": str(folder)}, "scenario": {"data": "x"}})
    assert found.task == TaskChoice(bundle, options={"hidden": 4}, folder=str(folder))
    assert (found.masking.bound, found.training, found.strategy.name) == (4.0, TrainingSettings(), "moon")


def test_data_of_another_shape_than_the_federations_model_are_refused(read):
    digits = load_dataset("digits")
    check_data(read(MODEL), digits)
    check_data(scenario(), digits)
    with pytest.raises(InvalidConfig, match=r"model\.classes is 4, and of the data set digits 10"):
        check_data(read(MODEL.replace("classes = 10", "classes = 4")), digits)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = ", "is not valid TOML"),
        ("clients = 3", "unknown table clients"),
        ("[trainig]\nepochs = 3", "unknown table trainig; known in a scenario: attack, bounds, evaluation, federation"),
        ("[federation]\nround = 3", "unknown key federation.round; known in federation: checkers"),
        ("[federation]\nrounds = 0", "federation.rounds must be a whole number from 1 to 100000"),
        ("federation = 3", "federation must be a table"),
        ("[run]\ndevice = 'tpu'", "run.device: the device must be one of"),
        ("[scenario]\ndataset = 3", "scenario.dataset must be of type str"),
        ("[strategy.options]\nq = 'much'", "strategy.options.q must be of type float"),
        ("[privacy]\nmechanism = 'client'\nclip = -1", "privacy.clip must be from"),
        (MODEL + "[trainig]\nepochs = 3", "unknown key trainig"),
        (MODEL + "[federation]\nrounds = 0", "federation.rounds must be"),
        (MODEL + "[network]\n[scenario]\nfolder = 'x'", "unknown key scenario.folder"),
        ("[task]\nfolder = 'x'\nbundles = 1", "unknown key task.bundles"),
        ("[kmeans]\nk = 3\ndimensions = 2\nstep = 0.01", "kmeans trains no model"),
    ],
)
def test_a_mistake_names_file_table_and_key(text, sentence, read, tmp_path):
    with pytest.raises(InvalidConfig) as caught:
        read(text)
    assert sentence in str(caught.value) and str(caught.value).count(str(tmp_path / "scenario.toml")) == 1


def test_a_file_that_is_not_there_is_asked_for(tmp_path):
    with pytest.raises(InvalidConfig, match=r"cannot read .*none\.toml: No such file or directory; give a scen"):
        read_scenario(tmp_path / "none.toml")


IMAGES = {"name": "images", "options": {"classes": ["a", "b"], "shape": [1, 8, 8]}}


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"scenario": {"data": "x.csv"}}, "scenario.data must be left out without a task"),
        ({"scenario": {"bases": {"a": "b"}}}, "scenario.bases are a task's frozen bases"),
        ({"scenario": {"table_format": {"a": "b"}}}, "scenario.table_format is for the tables of a task"),
        ({"task": {}}, "task.folder is missing"),
        ({"task": IMAGES}, "scenario.data is missing: give --data"),
        ({"task": IMAGES, "scenario": {"data": "nowhere"}}, "scenario.data: there is no nowhere"),
        ({"task": IMAGES, "procfl": {}}, "procfl trains shipped networks, and no task: leave out one"),
        ({"task": IMAGES, "partition": {"alpha": 0.5}}, "partition.alpha is for shipped networks: leave it"),
        ({"task": IMAGES, "run": {"probe_every": 2}}, "run.probe_every is for shipped networks"),
        ({"task": IMAGES, "training": {"flip": True}}, "training.flip must be left out with a task"),
        ({"task": IMAGES, "strategy": {"name": "fedaom"}}, "task.shared must name a file of the task's folder"),
        ({"task": IMAGES, "training": {"precision": "bf16"}}, "training.precision must be fp32 for a task"),
    ],
)
def test_what_is_for_tasks_or_for_data_sets_only_is_refused_with_the_other(tables, sentence, tmp_path):
    there = {"data": str(tmp_path)} if "task" in tables and sentence.find("scenario.data") < 0 else {}
    tables = {"strategy": {"name": "fedavg"}} | tables
    with pytest.raises(InvalidConfig) as caught:
        check_simulated(completed(tables | {"scenario": there | tables.get("scenario", {})}))
    assert sentence in str(caught.value)
