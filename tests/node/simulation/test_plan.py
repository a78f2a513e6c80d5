"""Plans and records are plain values with one form: what is equal is written equally, what is wrong is refused."""

import json
import random
from dataclasses import replace

import pytest
from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.scenario.clusters import GlobalSettings, IfcaSettings, SimulatedProCfl
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.plan import Plan
from fedgrove.node.simulation.record import ClusterResult, CommitteeVerdict, RoundResult, RunRecord

RESULTS = (
    RoundResult(1, 0.5, 1.25, 2.0, (1, 3), 40, None),
    RoundResult(2, None, None, 1.5, (2, 4), 50, 0.125),
)


def test_a_plan_survives_json():
    plan = Plan(options={"q": 4}, training=TrainingSettings(epochs=3, flip=True), partition=PartitionSettings("shards"))
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan and again.digest() == plan.digest()


def test_equal_plans_have_one_digest_however_numbers_and_options_are_written():
    plan = Plan(sampled=1, bound=8, options={"b": 1, "a": 2}, training=TrainingSettings(learning_rate=1))
    other = Plan(sampled=1.0, bound=8.0, options={"a": 2.0, "b": 1.0}, training=TrainingSettings(learning_rate=1.0))
    assert plan.digest() == other.digest()
    assert plan.digest() != plan.with_seed(1).digest()


def test_what_is_left_out_takes_its_default():
    assert Plan.from_json({}) == Plan()
    assert Plan.from_json({"training": {"epochs": 2}}).training == TrainingSettings(epochs=2)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ([], "object"),
        ({"client": 3}, "unknown key client; known in"),
        ({"clients": 0}, "clients"),
        ({"clients": 2.5}, "clients"),
        ({"clients": True}, "clients"),
        ({"sampled": 0}, "federation.sampling_rate must be above 0"),
        ({"sampled": float("nan")}, "sampled"),
        ({"rounds": "3"}, "rounds"),
        ({"strategy": "magic"}, "strategy"),
        ({"model": "vgg"}, "model"),
        ({"options": {"q": "8"}}, "options"),
        ({"options": {"q": float("inf")}}, "options"),
        ({"options": {"q": 10**400}}, "options"),
        ({"options": [1]}, "options must be a table"),
        ({"bound": 10**400}, "bound"),
        ({"seed": -1}, "seed"),
        ({"training": {"epochs": 0}}, "epochs"),
        ({"training": {"speed": 1}}, "unknown key training.speed"),
        ({"training": 3}, "training"),
        (
            {"training": {"precision": "bf16"}, "strategy": "fedaom"},
            "training.precision must be fp32 with the",
        ),
        ({"training": {"precision": "bf16"}, "task": {"folder": "x"}}, "training.precision must be fp32 for a task"),
        ({"partition": {"kind": "random"}}, "kind"),
        ({"partition": {"kind": ["iid"]}}, "kind"),
    ],
)
def test_a_wrong_plan_is_refused_with_a_sentence(value, word):
    with pytest.raises(InvalidConfig, match=word):
        Plan.from_json(value)


@pytest.mark.parametrize(
    ("clients", "sampled", "drawn"), [(100, 0.1, 10), (100, 0.29, 29), (7, 0.5, 3), (5, 0.01, 1), (5, 1, 5)]
)
def test_a_fraction_of_the_clients_is_drawn_rounded_down_and_never_none(clients, sampled, drawn):
    plan = Plan(clients=clients, sampled=sampled)
    for number in range(1, 20):
        chosen = plan.draw(number)
        assert len(chosen) == drawn == len(set(chosen))
        assert list(chosen) == sorted(chosen) and chosen[0] >= 1 and chosen[-1] <= clients


def test_the_draw_is_a_function_of_seed_and_round_and_prefers_nobody():
    plan = Plan(clients=50, sampled=0.2, seed=4)
    assert plan.draw(3) == plan.draw(3)
    assert plan.draw(3) != plan.draw(4) and plan.draw(3) != plan.with_seed(5).draw(3)
    counts = [0] * 50
    for number in range(1, 1001):
        for client in plan.draw(number):
            counts[client - 1] += 1
    # 1,000 draws at 0.2: mean 200, deviation 12.6; six deviations are exceeded by chance once in a million runs.
    assert min(counts) > 124 and max(counts) < 276


def test_evaluation_and_probes_are_due_as_planned():
    plan = Plan(rounds=7, evaluate_every=3, probe_every=2)
    assert [number for number in range(1, 8) if plan.evaluates(number)] == [3, 6, 7]
    assert [number for number in range(1, 8) if plan.probes(number)] == [2, 4, 6]
    assert not any(Plan(rounds=7).probes(number) for number in range(1, 8))


def test_a_record_survives_its_file():
    record = RunRecord(Plan(rounds=2), RESULTS, "ab" * 32)
    again = RunRecord.from_json(json.loads(record.to_bytes()))
    assert again == record and again.to_bytes() == record.to_bytes()


def test_what_is_no_record_is_refused():
    good = RunRecord(Plan(rounds=2), RESULTS, "ab" * 32).to_json()
    without = [{key: value for key, value in good.items() if key != left_out} for left_out in good]
    swapped = {**good, "rounds": good["rounds"][::-1]}
    strange = {**good, "rounds": [{**good["rounds"][0], "speed": 1}]}
    first, *others = good["rounds"]
    wrong = [
        {**good, "rounds": [{**first, name: value}, *others]}
        for name, value in (
            ("accuracy", "0.5"),
            ("loss", [1]),
            ("privacy", {"epsilon": "8"}),
            ("samples", 1.5),
            ("round", True),
        )
    ]
    for value in (None, [], {}, *without, swapped, strange, *wrong):
        with pytest.raises(InvalidContent):
            RunRecord.from_json(value)


def test_options_are_kept_in_one_order():
    names = [f"option{number}" for number in range(9)]
    shuffled = random.Random(0).sample(names, len(names))
    assert Plan(options=dict.fromkeys(names, 1.0)).digest() == Plan(options=dict.fromkeys(shuffled, 1.0)).digest()


def test_privacy_goes_to_json_and_back_with_its_mechanism():
    settings = ClientLevelSettings(noise_multipliers=(1.0, 2.0), phases=(5,), delta=1e-3, clipping="quantile")
    for privacy in (settings, LocalSettings(), SignDsSettings(dimensions=7), None):
        plan = Plan(privacy=privacy)
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert Plan(privacy=settings).to_json()["privacy"]["mechanism"] == "client"
    assert Plan.from_json({"privacy": {"mechanism": "none"}}) == Plan()


def test_what_came_later_leaves_the_digest_of_older_plans():
    # Of the plans whose runs were kept before there were copies and privacy.
    assert Plan().digest() == "0592d9f278ebaa24ec50d22827b9da8d99b5e83db35e619aced0148f2ee4e301"
    shards = Plan(partition=PartitionSettings("shards"))
    assert shards.digest() == "235b93a44546c16580782539707ae893f413a6084bc5fd76d64f1987636cb344"
    assert Plan(partition=PartitionSettings("shards", copies=2)).digest() != shards.digest()
    assert Plan(training=TrainingSettings(portable=True)).digest() != Plan().digest()
    assert Plan(training=TrainingSettings(precision="bf16")).digest() != Plan().digest()


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"mechanism": "magic"}, "privacy.mechanism must be one of"),
        ({"epsilon": 1.0}, "privacy.mechanism must be one of"),
        ([], "privacy must be a table"),
        ({"mechanism": "none", "epsilon": 1.0}, "privacy.epsilon is set, but privacy.mechanism is none"),
        ({"mechanism": "client", "phases": 3}, "privacy.phases must be a list"),
        ({"mechanism": "client", "noise_multipliers": ["1"]}, "must be of type float"),
        ({"mechanism": "local", "clip": -1}, "clip must be from"),
    ],
)
def test_unusable_privacy_is_refused(table, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        Plan.from_json({"privacy": table})


def test_clustering_and_attacks_survive_json_and_change_the_digest():
    plan = Plan(
        clustering=SimulatedProCfl(alpha=1, rule=Rule(margin=0.2)),
        attack=AttackSettings("sign-flip", factor=4),
        partition=PartitionSettings("groups", others=0.5),
    )
    value = json.loads(json.dumps(plan.to_json()))
    assert value["clustering"]["method"] == "procfl" and value["clustering"]["rule"]["test"] == "direction"
    again = Plan.from_json(value)
    assert again == plan and again.digest() == plan.digest()
    plans = [
        plan,
        Plan(clustering=IfcaSettings(3)),
        Plan(clustering=GlobalSettings()),
        Plan(clustering=GlobalSettings("krum")),
        Plan(clustering=GlobalSettings(), attack=AttackSettings()),
        Plan(),
    ]
    assert len({each.digest() for each in plans}) == len(plans)
    assert all(Plan.from_json(each.to_json()) == each for each in plans)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"clustering": {"method": "magic"}}, "clustering.method must be one of none, procfl, ifca, global"),
        ({"clustering": {"method": "procfl", "alpha": 0}}, "similarity threshold"),
        ({"clustering": {"method": "procfl", "psi": "none"}}, "psi must be one of"),
        ({"clustering": {"method": "procfl", "global_share": 2}}, "share of global rounds"),
        ({"clustering": {"method": "procfl", "rule": {"test": "x"}}}, "set it to direction, gap or mean"),
        ({"clustering": {"method": "procfl", "seats": -1}}, "seats must be from 0"),
        ({"clustering": {"method": "ifca", "models": 0}}, "models must be a whole number from 1"),
        ({"clustering": {"method": "global", "mean": "mode"}}, "mean must be one of"),
        ({"clustering": {"method": "global", "alpha": 1}}, "unknown key clustering.alpha"),
        ({"attack": {"kind": "label-flip"}}, "attack is simulated with a method for clusters only"),
        ({"attack": {"kind": "magic"}}, "kind must be one of"),
        ({"attack": {"share": 1}}, "share must be above 0"),
        ({"attack": {"kind": "label-flip", "factor": 2}}, "factor must be left out"),
        ({"attack": {"start": 0}}, "start must be"),
        ({"clustering": {"method": "global"}, "privacy": {"mechanism": "local"}}, "not simulated together"),
        ({"server": {"step": "adam"}, "strategy": "feddyn"}, "server must be left out with feddyn"),
        ({"clustering": {"method": "global"}, "probe_every": 1}, "probe_every must be 0"),
        ({"clustering": {"method": "global"}, "attack": {}, "partition": {"copies": 2}}, "copies must be 1"),
    ],
)
def test_unusable_clustering_is_refused(table, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        Plan.from_json(table)


def test_a_record_with_clusters_survives_its_file_and_odd_ones_are_refused():
    judgement = CommitteeVerdict(1, (1, 3), (2, 4), (2, 0), (1,))
    clusters = ClusterResult(((1, 3), (2,)), 0.5, (0.25, 1.0), (judgement,), (3,))
    result = replace(RESULTS[0], clustering=clusters)
    record = RunRecord(Plan(rounds=1, clustering=IfcaSettings()), (result,), "ab" * 32)
    good = json.loads(record.to_bytes())
    assert RunRecord.from_json(good) == record and RunRecord.from_json(good).to_bytes() == record.to_bytes()
    for changes in ({"groups": 3}, {"watched": [2.0]}, {"personal_accuracy": "1"}, {"judgements": [{}]}, {"more": 1}):
        odd = json.loads(record.to_bytes())
        odd["rounds"][0]["clustering"].update(changes)
        with pytest.raises(InvalidContent):
            RunRecord.from_json(odd)
