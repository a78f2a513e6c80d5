"""The benchmarks run and say what they compare with; gas, which does not depend on the machine, meets its goals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.learning.models import ARCHITECTURES
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.methods.kmeans.datasets import Points, split_by_cluster
from fedgrove_lab.bench import chain, engine, explorer, masking, privacy, similarity, unlearn, unlearn_report, vrf
from fedgrove_lab.bench.engine_rivals import FlowerTimes
from fedgrove_lab.bench.unlearn import REMOVAL, Removals
from fedgrove_lab.made import Made
from tests.node.cli.test_bad_input import fedgrove


def by_name(result):
    return {row.name: row for row in result.rows}


def test_gas_of_a_round_meets_its_goals():
    rows = by_name(chain.run(40))
    assert rows["register"].value <= 120_000
    assert rows["share"].value <= 35_000
    assert rows["commit"].value <= 36_000
    assert rows["draw, one root"].value <= 67_600


def test_gas_of_a_proof_meets_its_goal_and_contract_and_python_agree():
    rows = by_name(vrf.run())
    assert rows["verify on chain, 1 roots"].value < rows["verify on chain, mean"].value <= 16_000
    assert rows["message, mean"].value <= 345
    assert {"prove, coincurve", "verify, ecdsa, pure Python", "Chainlink VRF.sol"} <= set(rows)


def test_pages_of_a_long_history_are_measured_beside_their_goal():
    result = explorer.run(3, 5, explorer.find_chromium())
    rows = by_name(result)
    assert result.setting["records"] == 5 + 3 * (4 + 4 * 5) and rows["the index"].value > 0
    assert all(rows[name].limit == 1 for name in ("the overview", "a round of 5 clients", "a search"))
    if explorer.find_chromium():
        assert rows["the overview in Chromium, first painted"].value > 0


def test_privacy_is_measured_beside_the_masks_of_the_same_run():
    rows = by_name(privacy.run(20_000))
    noise, plain = (rows[f"client: {name}"].value for name in ("clipping, rounding, noise", "encoding without privacy"))
    streams, secrets = (rows[f"client: {name}"].value for name in ("masks, 7 partners", "secrets of the round"))
    extra = noise - plain
    assert rows["overhead over encoding and masks"].value == round(extra / (plain + streams), 3)
    assert rows["overhead over all of a round's masking"].value == round(extra / (plain + streams + secrets), 3)
    assert rows["goal"].note in ("met", "missed")


def test_comparisons_of_all_pairs_stand_beside_their_floor_and_go_on_where_they_stopped(tmp_path):
    labels, told = np.arange(60) % 10, []

    def tell(psi, done, total):
        told.append((psi, done, total))

    rows = by_name(similarity.run(labels, 5, ("rsa",), 1, tmp_path, tell))
    assert told == [("rsa", 10, 10)]
    assert rows["RSA-2048: equal to the formula"].value == "every pair"
    assert "× the floor of" in rows["RSA-2048: processor time"].note
    told.clear()
    similarity.run(labels, 5, ("rsa",), 1, tmp_path, tell)
    assert not told, "all pairs were compared"


def test_the_engine_names_its_floor_and_its_rivals(monkeypatch):
    monkeypatch.setenv("FEDGROVE_FLOWER_PYTHON", "/bin/false")
    images = Samples(np.random.default_rng(0).random((600, 1, 28, 28), dtype=np.float32), np.arange(600) % 10)
    rows = by_name(engine.run(Dataset("mnist", 10, images, images), rounds=1, workers=1, trivial=(20, 30), tiny=40))
    for label in ("no padding", "same"):
        assert rows[f"{label}: engine"].limit_name == "floor at matmul peak"
        assert rows[f"{label}: plain loop, 1 threads"].limit == rows[f"{label}: engine"].value
        assert rows[f"{label}: Flower"].value == "failed"
        low = rows[f"{label}: engine, bf16"]
        assert low.value == "not measured" or low.limit == rows[f"{label}: engine"].limit
    assert {"20 trivial clients", "30 trivial clients"} <= set(rows)
    tiny = "40 clients, 20 samples each, 2,410 weights"
    assert rows[f"{tiny}: together"].limit_name == "one after the other"
    assert rows[f"{tiny}: together, processor time with all workers'"].unit == "s"
    assert rows[f"{tiny}: Flower"].value == "failed"
    assert rows["FedAom, 5 local epochs"].limit_name == "FedAvg"
    assert rows["share of chain, store and masks"].value < 100


def test_flowers_processor_time_stands_beside_the_engines(monkeypatch):
    flower = FlowerTimes("9.9", 1.0, rounds=[2.0, 8.0, 4.0], processor=[3.0, 5.0, 9.0])
    monkeypatch.setattr(engine, "flower_simulation", lambda work, parts: flower)
    rows = by_name(engine.run_tiny(1, 1, 40))
    tiny = "40 clients, 20 samples each, 2,410 weights"
    assert rows[f"{tiny}: Flower 9.9"].value == 4
    note = rows[f"{tiny}: Flower 9.9, processor time of all its processes"]
    assert note.value == 5
    assert note.limit == pytest.approx(rows[f"{tiny}: together, processor time with all workers'"].value, abs=1e-4)


def test_the_floor_counts_each_layers_products_three_times_but_the_first_ones_input():
    """By hand: 24² · 32 · 25, 8² · 64 · 800, 1024 · 512 and 512 · 10 products a sample."""
    first, others = 24**2 * 32 * 25, 8**2 * 64 * 800 + 1024 * 512 + 512 * 10
    counted = engine.training_operations(ARCHITECTURES["paper-cnn"], (1, 28, 28), 10)
    assert counted == 2 * (2 * first + 3 * others)


@pytest.mark.parametrize(
    ("module", "options"),
    [(masking, "--parameters 20000"), (chain, "--clients 3"), (unlearn, "--removals 1")],
    ids=["masking", "chain", "unlearn"],
)
def test_the_command_prints_a_table_or_json(tmp_path, monkeypatch, module, options):
    """Of one measurement: how a result is printed does not depend on when it was measured."""
    kept, measure = [], module.run

    def once(*given, **named):
        kept.extend([] if kept else [measure(*given, **named)])
        return kept[0]

    monkeypatch.setattr(module, "run", once)
    line = f"bench {module.__name__.rsplit('.', 1)[1]} {options}"
    shown = fedgrove(*line.split(), cwd=tmp_path)
    assert shown.returncode == 0 and "measured" in shown.stdout
    printed = fedgrove(*line.split(), "--json", cwd=tmp_path)
    assert printed.returncode == 0 and json.loads(printed.stdout)["rows"]


def test_unlearning_is_measured_beside_retraining(tmp_path):
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(3), 100)
    points = rng.uniform(-0.7, 0.7, (3, 2))[clusters] + rng.normal(0, 0.02, (300, 2))
    data = Points("tiny", split_by_cluster(points, clusters, 6, 2, rng), 3, "six clients")
    orders = [Removals("random"), Removals("adversarial", 3)]
    result, courses = unlearn.run(data, orders, count=6, decoding=(50,))
    rows = by_name(result)
    for removals, course in zip(orders, courses, strict=True):
        what = removals.text
        assert rows[f"{what}: removal"].value > 0 and rows[f"{what}: hit a centroid"].unit == "of 6"
        for where in ("", ", on a ledger"):
            assert rows[f"{what}: induced loss ratio at the end{where}"].value >= 1 - 1e-6
        assert rows[f"{what}: removal on a ledger"].value > 0
        assert {len(seconds) for seconds in course.seconds.values()} == {6} == {len(course.hits)}
        assert all(map(float.__le__, course.seconds["removal, as the paper counts"], course.seconds[REMOVAL]))
    assert rows["upload of a client: removal"].value < rows["upload of a client: training"].value
    assert "decoding, 50 occupied bins" in rows

    made = Made("fedgrove bench unlearn --order all", "0123456789ab", "Python 3.11, torch 2, numpy 2")
    for name in ("tiny", "also"):
        named = replace(result, setting={**result.setting, "dataset": name})
        unlearn_report.write_report(tmp_path, named, courses, made)
    page = (tmp_path / "README.md").read_text()
    assert page.index("## also") < page.index("## tiny") and "six clients." in page and "(tiny.png)" in page
    assert page.count("- `fedgrove bench unlearn --order all` at commit 0123456789ab, Python 3.11") == 2
    assert json.loads((tmp_path / "tiny.json").read_text())["rows"] == result.to_json()["rows"]
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")


def test_a_speed_up_counts_the_same_parts_on_both_sides_and_divides_means():
    """Masks and decoding take 10 s of the retraining: the speed-up as the paper counts is without them."""
    taken = {method: [0.0] * 4 for method in unlearn.METHODS}
    taken |= {unlearn.REMOVAL: [1.0] * 4, unlearn.ON_LEDGER: [1.0] * 4}
    taken |= {unlearn.BY_THE_PAPER: [0.001, 0.003, 0.002, 0.1]}
    taken |= {unlearn.PLAIN: [14.0] * 4, unlearn.WELL_WRITTEN: [12.0] * 4}
    taken |= {unlearn.PLAIN_BY_THE_PAPER: [3.0, 3.0, 6.0, 8.0]}
    course = unlearn.RemovalRun(Removals("random"), taken, [False, False, False, True], 1.0, 1.0)
    rows = {row.name.split(": ")[1]: row for row in unlearn.rows_of("celltype", course)}
    calm, average = rows[unlearn.WITHOUT_RESEEDING], rows[unlearn.ON_AVERAGE]
    assert calm.value == 2000 and calm.note.endswith("paper 1535: met")  # (3 + 3 + 6) / (0.001 + 0.003 + 0.002)
    assert average.value == 188.7 and average.note.endswith("paper 84: met")  # 20 / 0.106
    slower = replace(course, seconds={**taken, unlearn.PLAIN_BY_THE_PAPER: [1.0] * 4})
    (row,) = (row for row in unlearn.rows_of("celltype", slower) if unlearn.WITHOUT_RESEEDING in row.name)
    assert row.value == 500 and row.note.endswith("paper 1535: missed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "nosuch"], "unknown dataset 'nosuch'"),
        (["--dataset", "celltype", "--data-dir", "nowhere"], "does not exist"),
        (["--order", "backwards"], "--order must be random, adversarial, batches-of-10, batches-of-30 or all"),
    ],
)
def test_unlearning_says_what_it_needs(tmp_path, arguments, said):
    result = fedgrove("bench", "unlearn", *arguments, cwd=tmp_path)
    assert result.returncode == 2 and said in result.stderr.replace("\n", " ")
