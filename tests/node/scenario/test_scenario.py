"""Scenarios are plain values with one form: what is equal is written equally, what is wrong is refused."""

import json
import random

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep
from fedgrove.node.learning.settings import EvaluationSettings, PartitionSettings, TrainingSettings
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.scenario.clusters import GlobalSettings, IfcaSettings, SimulatedProCfl
from fedgrove.node.scenario.kmeans import KMeansChoice
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.scenario.settings import TaskChoice
from fedgrove.node.simulation.checks import check_simulated

PHASES = ClientLevelSettings(noise_multipliers=(1.0, 2.0), phases=(5,), delta=1e-3, clipping="quantile")
DIFFERENT = [
    MANY,
    MANY.changed(strategy={"name": "fedaom", "options": {"q": 4}}, model={"name": "small-cnn"}),
    MANY.changed(training=TrainingSettings(epochs=3, flip=True), partition=PartitionSettings("shards")),
    MANY.changed(training=TrainingSettings(portable=True)),
    MANY.changed(training=TrainingSettings(precision="bf16")),
    MANY.changed(cast={"dataset": "my.npz", "train_samples": 90, "validation": 0.1}, run={"together": 2}),
    MANY.changed(privacy=PHASES),
    MANY.changed(privacy=LocalSettings()),
    MANY.changed(privacy=SignDsSettings(dimensions=7)),
    MANY.changed(evaluation=EvaluationSettings(0.25), federation={"patience": 3}),
    MANY.changed(server=MomentumStep(rate=0.5, lookahead=True)),
    MANY.changed(server=AdamStep(tau=0.01)),
    MANY.changed(method=IfcaSettings(3), partition=PartitionSettings("groups", copies=2)),
    MANY.changed(method=GlobalSettings()),
    MANY.changed(method=GlobalSettings("krum")),
    MANY.changed(method=GlobalSettings(), attack=AttackSettings()),
    MANY.changed(method=SimulatedProCfl(alpha=1, rule=Rule(margin=0.2)), attack=AttackSettings("sign-flip", factor=4)),
    MANY.changed(task=TaskChoice(folder="points", keep=("1.*",), options={"hidden": 4}), cast={"data": "x.csv"}),
]


def test_a_scenario_survives_its_tables_and_differences_change_the_digest():
    for each in (*DIFFERENT, MANY.changed(method=KMeansChoice(3), run={"explorer": True})):
        assert Scenario.from_tables(json.loads(json.dumps(each.to_tables()))) == each
    assert len({each.digest() for each in DIFFERENT}) == len(DIFFERENT)
    for each in DIFFERENT:
        again = Scenario.from_tables(json.loads(json.dumps(each.to_json())))
        assert again.digest() == each.digest()


def test_equal_scenarios_have_one_digest_however_numbers_and_options_are_written():
    names = [f"option{number}" for number in range(9)]
    shuffled = random.Random(0).sample(names, len(names))
    one = MANY.changed(
        federation={"sampling_rate": 1},
        masking={"bound": 8},
        strategy={"options": dict.fromkeys(names, 1)},
        training=TrainingSettings(learning_rate=1),
    )
    other = MANY.changed(
        federation={"sampling_rate": 1.0},
        masking={"bound": 8.0},
        strategy={"options": dict.fromkeys(shuffled, 1.0)},
        training=TrainingSettings(learning_rate=1.0),
    )
    assert one.digest() == other.digest() != one.with_seed(1).digest()


def test_what_changes_no_result_leaves_the_digest():
    """Of runs that were kept before there were copies and privacy; and of whoever runs it."""
    shards = MANY.changed(partition=PartitionSettings("shards"))
    assert MANY.digest() == "96b21108ebc21e02fefb26dfb64fbce518dcdb856243721df018ad8bb1880208"
    assert shards.digest() == "0f35dbe89de919ecbb6168ed553e4126674797417ab93b32934c10afcdd52c7e"
    assert MANY.changed(partition=PartitionSettings("shards", copies=2)).digest() != shards.digest()
    elsewhere = MANY.changed(run={"workers": 3, "chain": "anvil"}, federation={"name": "ours", "repeats": 1})
    assert elsewhere.digest() == MANY.digest()


@pytest.mark.parametrize(
    ("tables", "word"),
    [
        ([], "the scenario must be a table"),
        ({"client": {}}, "unknown table client; known in a scenario"),
        ({"scenario": {"client": 3}}, "unknown key scenario.client"),
        ({"scenario": {"clients": 0}}, "scenario.clients must be a whole number from 1"),
        ({"scenario": {"clients": 2.5}}, "scenario.clients must be of type int"),
        ({"scenario": {"clients": True}}, "scenario.clients must be of type int"),
        ({"scenario": {"drop": 1.0}}, "scenario.drop must be from 0 to below 1"),
        ({"scenario": {"validation": 0.6}}, "scenario.validation must be"),
        ({"run": {"together": 0}}, "run.together must be"),
        ({"run": {"device": "tpu"}}, "run.device must be one of cpu, cuda, not 'tpu'"),
        ({"run": {"workers": -1}}, "run.workers must be"),
        ({"federation": {"sampling_rate": 0}}, "federation.sampling_rate must be above 0"),
        ({"federation": {"sampling_rate": float("nan")}}, "sampling_rate"),
        ({"federation": {"rounds": "3"}}, "federation.rounds must be of type int"),
        ({"federation": {"seed": -1}}, "federation.seed must be"),
        ({"strategy": {"name": "magic"}}, "strategy.name must be one of"),
        ({"model": {"name": "vgg"}}, "model.name must be one of"),
        ({"strategy": {"options": {"q": "8"}}}, "strategy.options.q must be of type float"),
        ({"strategy": {"options": {"q": float("inf")}}}, "strategy.options.q must be a finite number"),
        ({"strategy": {"options": {"q": 10**400}}}, "strategy.options.q must be"),
        ({"strategy": {"options": [1]}}, "strategy.options must be a table"),
        ({"masking": {"bound": 10**400}}, "masking.bound must be"),
        ({"training": {"epochs": 0}}, "training.epochs must be"),
        ({"training": {"speed": 1}}, "unknown key training.speed"),
        ({"training": 3}, "training must be a table"),
        ({"training": {"precision": "bf16"}, "strategy": {"name": "fedaom"}}, "training.precision must be fp32 with"),
        ({"partition": {"kind": "random"}}, "partition.kind must be one of"),
        ({"partition": {"kind": ["iid"]}}, "partition.kind must be one of"),
        ({"privacy": {"mechanism": "magic"}}, "privacy.mechanism must be one of"),
        ({"privacy": {"epsilon": 1.0}}, "privacy.mechanism must be one of"),
        ({"privacy": []}, "privacy must be a table"),
        ({"privacy": {"mechanism": "none", "epsilon": 1.0}}, "privacy.epsilon is set, but privacy.mechanism is none"),
        ({"privacy": {"mechanism": "client", "phases": 3}}, "privacy.phases must be a list"),
        ({"privacy": {"mechanism": "client", "noise_multipliers": ["1"]}}, "must be of type float"),
        ({"privacy": {"mechanism": "local", "clip": -1}}, "clip must be from"),
        ({"procfl": {"alpha": 0}}, "procfl.alpha must be above 0"),
        ({"procfl": {"psi": "none"}}, "psi must be one of"),
        ({"procfl": {"global_share": 2}}, "procfl.global_share must be from 0 to 1"),
        ({"procfl": {"rule": {"test": "x"}}}, "procfl.rule.test must be one of"),
        ({"procfl": {"seats": -1}}, "seats must be from 0"),
        ({"procfl": {"labels": -1}}, "labels must be a whole number from 0"),
        ({"procfl": {"counter": "ab"}}, "unknown key procfl.counter; known in procfl: alpha"),
        ({"procfl": {"alpha": 0.5}, "ifca": {"models": 3}}, "give one of the tables procfl, ifca"),
        ({"ifca": {"models": 0}}, "models must be a whole number from 1"),
        ({"global": {"mean": "mode"}}, "mean must be one of"),
        ({"global": {"alpha": 1}}, "unknown key global.alpha"),
        ({"attack": {"kind": "label-flip"}}, "attack is simulated with a method for clusters only"),
        ({"attack": {"kind": "magic"}}, "kind must be one of"),
        ({"attack": {"share": 1}}, "share must be above 0"),
        ({"attack": {"kind": "label-flip", "factor": 2}}, "factor must be left out"),
        ({"attack": {"start": 0}}, "start must be"),
        ({"global": {}, "privacy": {"mechanism": "local"}}, "not simulated together"),
        ({"server": {"step": "adam"}, "strategy": {"name": "feddyn"}}, "server must be left out with feddyn"),
        ({"global": {}, "run": {"probe_every": 1}}, "run.probe_every must be 0 with global"),
        ({"global": {}, "attack": {}, "partition": {"copies": 2}}, "copies must be 1"),
        ({"federation": {"patience": 2}}, "federation.patience must be 0 without"),
        ({"kmeans": {"k": 3}}, "kmeans trains no model"),
        ({"kmeans": {"k": -1}}, "kmeans.k must be"),
    ],
)
def test_what_is_wrong_is_refused_with_a_sentence(tables, word):
    with pytest.raises(InvalidConfig, match=word):
        check_simulated(Scenario.from_tables(tables))


@pytest.mark.parametrize(
    ("clients", "sampled", "drawn"), [(100, 0.1, 10), (100, 0.29, 29), (7, 0.5, 3), (5, 0.01, 1), (5, 1, 5)]
)
def test_a_fraction_of_the_clients_is_drawn_rounded_down_and_never_none(clients, sampled, drawn):
    told = MANY.changed(cast={"clients": clients}, federation={"sampling_rate": sampled})
    for number in range(1, 20):
        chosen = told.draw(number)
        assert len(chosen) == drawn == len(set(chosen))
        assert list(chosen) == sorted(chosen) and chosen[0] >= 1 and chosen[-1] <= clients


def test_the_draw_is_a_function_of_seed_and_round_and_prefers_nobody():
    told = MANY.changed(cast={"clients": 50}, federation={"sampling_rate": 0.2, "seed": 4})
    assert told.draw(3) == told.draw(3)
    assert told.draw(3) != told.draw(4) and told.draw(3) != told.with_seed(5).draw(3)
    counts = [0] * 50
    for number in range(1, 1001):
        for client in told.draw(number):
            counts[client - 1] += 1
    # 1,000 draws at 0.2: mean 200, deviation 12.6; six deviations are exceeded by chance once in a million runs.
    assert min(counts) > 124 and max(counts) < 276


def test_evaluation_and_probes_are_due_as_planned():
    told = MANY.changed(federation={"rounds": 7}, run={"evaluate_every": 3, "probe_every": 2})
    assert [number for number in range(1, 8) if told.evaluates(number)] == [3, 6, 7]
    assert [number for number in range(1, 8) if told.probes(number)] == [2, 4, 6]
    assert not any(MANY.changed(federation={"rounds": 7}).probes(number) for number in range(1, 8))
