"""A plan's file: in a federation's tables, read as strictly as those, and written so that it gives the same plan."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep
from fedgrove.node.learning.settings import ModelSpec, PartitionSettings, TrainingSettings, default_settings
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.scenario.clusters import IfcaSettings, SimulatedProCfl
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.plan import OF_NETWORKS, PLACES, Plan
from fedgrove.node.simulation.plan_file import GivenPlan, plan_bytes, read_plan
from fedgrove.node.simulation.task_settings import SimulatedTask

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
    """Read a plan from a text."""

    def of(text, *changes, **method):
        path = tmp_path / "plan.toml"
        path.write_text(text)
        return read_plan(path, changes, **method).plan

    return of


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_a_plan_and_shows_its_command(path, read):
    plan = read_plan(path).plan
    assert plan != Plan(training=default_settings("digits")) and read(plan_bytes(plan).decode()) == plan
    assert path.read_text().splitlines()[0].endswith(f": fedgrove simulate --plan docs/plans/{path.name}")


@pytest.mark.parametrize(
    "plan",
    [
        Plan(sampled=1, options={"q": 4}, strategy="fedaom", training=TrainingSettings(flip=True), model="small-cnn"),
        Plan(privacy=ClientLevelSettings(noise_multipliers=(1.0, 2.0), phases=(5,)), seed=9, dataset="my.npz"),
        Plan(clustering=SimulatedProCfl(rule=Rule(margin=0.2)), attack=AttackSettings("sign-flip", factor=4)),
        Plan(server=MomentumStep(rate=0.5, lookahead=True)),
        Plan(server=AdamStep(tau=0.01)),
        Plan(clustering=IfcaSettings(3), partition=PartitionSettings("groups", copies=2)),
    ],
)
def test_a_written_plan_is_read_as_an_equal_one(plan, read):
    again = read(plan_bytes(plan).decode())
    assert again == plan and again.digest() == plan.digest()


def test_left_out_keys_take_the_defaults_and_training_those_of_the_data(read):
    assert read("") == read_plan(None).plan == Plan(training=default_settings("digits"))
    training = read('[data]\ndataset = "cifar10"\n[training]\nepochs = 3\n').training
    assert training == replace(default_settings("cifar10"), epochs=3)


def test_changes_come_one_after_the_other_and_a_method_replaces_another(read):
    text = "[federation]\nrounds = 2\nseed = 5\n[procfl]\nalpha = 0.5\n"
    plan = read(text, {"federation": {"rounds": 3}}, {"federation": {"rounds": 4}, "procfl": {"seats": 3}})
    assert (plan.rounds, plan.seed, plan.clustering) == (4, 5, SimulatedProCfl(alpha=0.5, seats=3))
    assert read(text, method={"ifca": {"models": 3}}).clustering == IfcaSettings(3)
    assert read(text, method={}).clustering is None


def test_a_federations_file_gives_its_terms_and_takes_tables_of_a_simulation(read):
    terms = MODEL + "[federation]\nsampling_rate = 0.5\n[masking]\nbound = 4.0\nmode = 'pairwise'\n"
    plan = read(
        terms + "[network]\nrpc = 'http://127.0.0.1:8545'\n[simulation]\nclients = 12\n[data]\ntest_samples = 9\n"
    )
    # Of a federation, not of a plan: FedAom, 3 rounds, and training as the terms' defaults have it.
    assert (plan.strategy, plan.rounds, plan.training) == ("fedaom", 3, TrainingSettings())
    assert (plan.sampled, plan.bound, plan.model) == (0.5, 4.0, "small-cnn")
    assert (plan.clients, plan.test_samples, plan.dataset) == (12, 9, "digits")


def test_a_federation_with_clusters_trains_in_the_rounds_after_its_comparisons(read):
    plan = read(CLUSTERS)
    assert plan.rounds == 4 and plan.clustering == SimulatedProCfl(seats=3, rule=Rule(margin=0.25))


def test_a_task_brings_what_its_author_suggests_for_keys_that_are_left_out(read, tmp_path):
    folder = write_task(tmp_path / "points")
    text = f"[task]\nfolder = '{folder}'\n[training]\nepochs = 5\n[data]\nsource = 'x.csv'\n"
    plan = read(text)
    assert plan.task == SimulatedTask(str(folder), keep=("1.running_*",)) and plan.bound == 16.0
    assert plan.training == TrainingSettings(epochs=5, batch_size=8, learning_rate=0.1)
    assert read(text, {"task": {"keep": []}}).task == SimulatedTask(str(folder))
    assert read(plan_bytes(plan).decode()) == plan == Plan.from_json(json.loads(json.dumps(plan.to_json())))
    for name in (*OF_NETWORKS, "partition"):
        assert name not in plan.to_json() and PLACES.get(name, f"[{name}]") not in plan_bytes(plan).decode()


def test_a_federations_task_takes_its_folder_beside_the_bundle(read, tmp_path):
    bundle = "b" + 58 * "a"
    terms = f"[task]\nbundle = '{bundle}'\noptions = {{ hidden = 4 }}\n[masking]\nbound = 4.0\n[network]\n"
    folder = write_task(tmp_path / "points")
    assert read(terms.replace("[network]", "[strategy]\nname = 'moon'\n[network]")).task.folder == ""
    plan = read(terms + "[strategy]\nname = 'moon'\n", {"task": {"folder": str(folder)}, "data": {"source": "x"}})
    assert plan.task == SimulatedTask(str(folder), bundle, "", (), {"hidden": 4})
    assert (plan.bound, plan.training, plan.strategy) == (4.0, TrainingSettings(), "moon")


def test_data_of_another_shape_than_the_federations_model_are_refused(digits, tmp_path):
    (tmp_path / "federation.toml").write_text(MODEL)
    given = read_plan(tmp_path / "federation.toml")
    given.check_data(digits)
    GivenPlan(given.plan).check_data(digits)
    with pytest.raises(InvalidConfig, match=r"model\.classes is 4, and of the data set digits 10"):
        GivenPlan(given.plan, ModelSpec("small-cnn", (1, 8, 8), 4)).check_data(digits)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = ", "is not valid TOML"),
        ("clients = 3", "unknown table clients"),
        ("[trainig]\nepochs = 3", "unknown table trainig; known in a plan: attack, data, evaluation, federation"),
        (
            "[federation]\nrepeats = 3",
            "unknown key federation.repeats; known in federation: patience, rounds, sampling_rate, seed",
        ),
        ("[federation]\nrounds = 0", "federation.rounds must be a whole number from 1 to 100000, not 0"),
        ("[federation]\nrounds = '3'", "federation.rounds must be of type int"),
        ("federation = 3", "federation must be a table"),
        ("[simulation]\ndevice = 'tpu'", "simulation.device: the device must be one of"),
        ("[data]\ndataset = 3", "data.dataset must be of type str"),
        ("[training]\nepochs = 0", "training.epochs must be"),
        ("training = 1", "training must be a table"),
        ("[partition]\nkind = 'random'", "partition.kind must be one of"),
        ("[strategy.options]\nq = 'much'", "strategy.options.q must be of type float"),
        ("[strategy]\nname = 'magic'", "strategy.name must be one of"),
        ("[privacy]\nclip = 1.0", "privacy.mechanism must be one of none, client, local, signds"),
        ("[privacy]\nmechanism = 'client'\nclip = -1", "privacy.clip must be from"),
        ("[procfl]\nalpha = 0.5\n[ifca]\nmodels = 3", "give one of the tables procfl, ifca"),
        ("[procfl]\ncounter = ''", "unknown key procfl.counter"),
        ("[simulation]\nclients = 3\nprobe_every = 1\n[global]\n", "simulation.probe_every must be 0 with global"),
        ("[attack]\nkind = 'label-flip'", "attack is simulated with a method for clusters only"),
        (MODEL + "[trainig]\nepochs = 3", "unknown key trainig"),
        (MODEL + "[federation]\nrounds = 0", "federation.rounds must be"),
        (MODEL + "[data]\nfolder = 'x'", "unknown key data.folder"),
        ("[data]\nsource = 'x.csv'", "data.source must be left out without a task"),
        (
            "[task]\nfolder = 'x'\n[procfl]\n",
            "procfl trains shipped networks, and no task: leave out one",
        ),
        (
            "[task]\nfolder = 'x'\n[partition]\nalpha = 0.5",
            "partition is for shipped networks: leave it out with a",
        ),
        ("[task]\nfolder = 'x'\n[simulation]\nprobe_every = 2", "simulation.probe_every is for shipped networks"),
        ("[task]\nfolder = 'x'\n[training]\nflip = true", "training.flip must be left out with a task"),
        ("[task]\nfolder = 'x'\n[strategy]\nname = 'fedaom'", "task.shared must name a file of the task's folder"),
        ("[task]\nfolder = 'x'\nbundles = 1", "unknown key task.bundles"),
        ("[kmeans]\nk = 3\ndimensions = 2\nstep = 0.01", "kmeans trains no model"),
    ],
)
def test_a_mistake_names_file_table_and_key(text, sentence, read, tmp_path):
    with pytest.raises(InvalidConfig) as caught:
        read(text)
    assert sentence in str(caught.value) and str(caught.value).count(str(tmp_path / "plan.toml")) == 1


def test_a_file_that_is_not_there_is_asked_for(tmp_path):
    with pytest.raises(InvalidConfig, match=r"cannot read .*none\.toml: No such file or directory; give a plan"):
        read_plan(tmp_path / "none.toml")
