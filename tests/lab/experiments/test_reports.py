"""Tables, ratios and files of the reports, from records made by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove_lab.experiments import accuracy_table, curves, masking, out_of_distribution, partition_picture
from fedgrove_lab.experiments.base import Findings, Overrides
from fedgrove_lab.experiments.laboratory import settle
from fedgrove_lab.experiments.registry import EXPERIMENTS
from fedgrove_lab.experiments.report import write_report
from fedgrove_lab.experiments.trials import SWEEP
from tests.node.simulation.records import record_of

PNG = b"\x89PNG\r\n\x1a\n"


class Bench:
    """A laboratory with digits and untrained models."""

    def dataset(self, name):
        return load_dataset(name)

    def model(self, plan):
        return initial_tensors("small-cnn", (1, 8, 8), 10, plan.seed)


class Untouched:
    """A laboratory that nothing may be asked of."""

    def dataset(self, name):
        pytest.fail("it reads the data")

    def model(self, plan):
        pytest.fail("it trains the global model")


def rising(reach: int, rounds: int = 30) -> list[float]:
    """0.5 until the mean of five rounds reaches 0.9 in round ``reach``, 1.0 from then on."""
    # Of five rounds four must be at 1.0: (0.5 + 4) / 5 = 0.9.
    return [0.5 if number < reach - 3 else 1.0 for number in range(1, rounds + 1)]


def found(**curves) -> Findings:
    """Findings with a list of accuracy curves an arm, seeds 0, 1, …"""
    records = {
        label: [
            record_of(curve, MANY.changed(federation={"rounds": 30}, strategy={"name": label}), seed=seed)
            for seed, curve in enumerate(group)
        ]
        for label, group in curves.items()
    }
    return Findings(records, {}, Bench())


def test_rounds_and_their_ratio_seed_by_seed():
    report = curves.report(found(fedavg=[rising(20), rising(16)], fedaom=[rising(10), rising(12)]))
    assert report.results["arms"]["fedavg"]["rounds_to_target"] == [20, 16]
    assert report.results["arms"]["fedaom"]["mean_rounds_to_target"]["mean"] == 11
    ratio = report.results["ratio_to_fedavg"]["fedaom"]
    assert ratio["by_seed"] == [0.5, 0.75] and ratio["mean"] == 0.625
    assert ratio["deviation"] == pytest.approx(0.125 * 2**0.5)
    assert "| FedAom | 2 | 11.0 ± 1.4 | 10, 12 |" in report.text
    assert "FedAom needs 0.625 ± 0.177 × the rounds of FedAvg" in report.text


def test_an_arm_that_never_arrives_has_no_mean_and_only_the_others_seeds_a_ratio():
    report = curves.report(found(fedavg=[rising(20), [0.5] * 30], fedaom=[rising(10), rising(12)]))
    assert report.results["arms"]["fedavg"]["rounds_to_target"] == [20, None]
    assert report.results["arms"]["fedavg"]["mean_rounds_to_target"] is None
    assert report.results["ratio_to_fedavg"]["fedaom"]["by_seed"] == [0.5]
    assert "| FedAvg | 2 | – | 20, never |" in report.text
    assert "(by seed: 0.500; only the 1 of 2 seeds in which both reached the target)" in report.text


def test_runs_of_another_length_are_not_compared():
    findings = found(fedavg=[rising(20)], fedaom=[rising(10)])
    longer = record_of(rising(10, 40), MANY.changed(federation={"rounds": 40}, strategy={"name": "fedaom"}))
    report = curves.report(replace(findings, records={**findings.records, "fedaom": [longer]}))
    assert report.results["ratio_to_fedavg"] == {}
    fewer = record_of(
        rising(10), MANY.changed(federation={"rounds": 30}, strategy={"name": "fedaom"}, cast={"clients": 10})
    )
    report = curves.report(replace(findings, records={**findings.records, "fedaom": [fewer]}))
    assert report.results["ratio_to_fedavg"] == {}
    tuned = record_of(
        rising(10),
        MANY.changed(
            federation={"rounds": 30}, strategy={"name": "fedaom"}, training=TrainingSettings(learning_rate=0.1)
        ),
    )
    report = curves.report(replace(findings, records={**findings.records, "fedaom": [tuned]}))
    assert report.results["ratio_to_fedavg"]["fedaom"]["by_seed"] == [0.5]


def test_a_run_that_diverged_is_named():
    report = curves.report(found(fedavg=[rising(20)], share=[[0.5, 0.6]]))
    assert "Diverged: share (seed 0)." in report.text
    assert report.results["arms"]["share"]["end_accuracy"] is None


def test_the_best_trial_has_fewest_rounds_then_the_highest_end():
    labels = list(SWEEP.of_method("fedavg"))
    curves = [rising(20), rising(12), [*rising(12)[:-1], 0.99], [0.5] * 30]
    records = {
        label: [record_of(curve, MANY.changed(federation={"rounds": 30}))]
        for label, curve in zip(labels, curves, strict=False)
    }
    lost = next(iter(SWEEP.of_method("fedprox")))
    records[lost] = [record_of([1.0] * 6, MANY.changed(federation={"rounds": 30}, strategy={"name": "fedprox"}))]
    report = SWEEP.report(Findings(records, {}, Bench()))
    assert report.results["best"]["fedavg"] == labels[1]
    assert report.results["trials"][labels[3]]["rounds_to_target"] is None
    assert report.results["trials"][lost] == {"rounds_to_target": None, "last_mean": None}, "it diverged"
    assert "fedprox" not in report.results["best"], "no trial that diverged is the best, not even of its kind"


def test_the_accuracy_table_is_made_from_what_is_there():
    methods = dict(zip(accuracy_table.METHODS, (0.5, 0.6, 0.4, 0.3, 0.7), strict=True))
    records = {
        accuracy_table.label_of("mnist", "dirichlet0.1", method): [
            record_of([level] * 3, seed=0),
            record_of([level + 0.02] * 3, seed=1),
        ]
        for method, level in methods.items()
    }
    records["cifar10-shards2-moon"] = [
        record_of([0.2] * 5, MANY.changed(federation={"rounds": 5}, cast={"train_samples": 900}))
    ]
    report = accuracy_table.report(Findings(records, {}, Bench()))
    row = next(line for line in report.text.splitlines() if line.startswith("| MNIST, α = 0.1"))
    assert "| 3, all, 2 |" in row and "| 51.00 ± 1.41 |" in row and row.endswith("| **71.00 ± 1.41** |")
    assert "| CIFAR-10, 2 shards | 5, 900, 1 | – | – | – | 20.00 | – |" in report.text
    assert "| MNIST, α = 0.5 | – | – | – | – | – | – |" in report.text
    assert report.results["leads"] == {"mnist-dirichlet0.1": "fedaom"}
    assert set(report.figures) == {"mnist-dirichlet0.1.png", "cifar10-shards2.png"}


def test_a_row_with_unequal_runs_has_no_best():
    records = {accuracy_table.label_of("mnist", "shards2", m): [record_of([0.5] * 3)] for m in accuracy_table.METHODS}
    assert accuracy_table.report(Findings(records, {}, Bench())).results["leads"]
    unlike = (
        record_of([0.9] * 9),
        record_of([0.9] * 3, seed=1),
        record_of([0.9] * 3, MANY.changed(federation={"rounds": 3}, cast={"clients": 10})),
        record_of([0.9] * 3, MANY.changed(federation={"rounds": 3}, training=TrainingSettings(epochs=5))),
    )
    for record in unlike:
        report = accuracy_table.report(Findings({**records, "mnist-shards2-moon": [record]}, {}, Bench()))
        assert "**" not in report.text and not report.results["leads"]


def test_out_of_distribution_stands_beside_the_test_accuracy():
    record = record_of([0.5] * 10, ood={5: 0.2, 10: 0.4})
    report = out_of_distribution.report(Findings({"moon": [record]}, {}, Bench()))
    assert "| MOON | 1 | 30.00 | 50.00 |" in report.text


def test_masks_turn_models_into_noise_and_their_sum_is_untouched():
    models = [initial_tensors("small-cnn", (1, 8, 8), 10, seed) for seed in range(8)]
    samples, clients = list(range(10, 18)), list(range(1, 9))
    masked = masking.really_masked(models, clients, samples, 8.0, seed=0)
    for model, cover in zip(models, masked, strict=True):
        values = np.concatenate([layer.ravel() for layer in cover.values()])
        assert [layer.shape for layer in cover.values()] == [model[name].shape for name in cover]
        assert np.abs(values).max() > 50, "the words fill the whole range, weights lie within ±1"
    noisy = masking.noisy(models, samples, seed=0)
    first, last = "conv1.weight", "output.weight"
    assert not np.allclose(noisy[0][first], models[0][first], atol=0.1)
    assert np.allclose(noisy[0][last], models[0][last]), "the paper leaves half of the layers bare"
    total = sum(count * layers[first] for count, layers in zip(samples, noisy, strict=True))
    assert np.allclose(total, sum(n * layers[first] for n, layers in zip(samples, models, strict=True)), atol=1e-2)


def test_masked_models_are_tested_on_their_own_clients_data():
    plan = settle(masking.arms(None)["fedavg"], Overrides(rounds=2, dataset="digits", clients=10, sampled=0.9))
    findings = Findings({"fedavg": [record_of([0.1, 0.2], plan)]}, {}, Bench())
    report = masking.report(findings)
    means = {name: result["mean"]["mean"] for name, result in report.results.items()}
    assert set(means) == {"before masking", f"after, {masking.OURS}", f"after, {masking.PAPERS}"}
    assert all(len(result["by_client"][0]) == 8 for result in report.results.values())
    wild = replace(plan, training=TrainingSettings(learning_rate=90.0))
    with pytest.raises(InvalidInput, match="seed 0 leaves no models"):
        masking.report(Findings({"fedavg": [record_of([0.1], wild)]}, {}, Bench()))
    with pytest.raises(InvalidInput, match="needs 8 clients"):
        masking.masked_accuracies(plan.changed(federation={"sampling_rate": 0.5}), findings)


def test_a_report_of_what_was_measured_before_trains_nothing(monkeypatch):
    plan = settle(masking.arms(None)["fedavg"], Overrides(rounds=2, dataset="digits", clients=10, sampled=0.9))
    records = {"fedavg": [record_of([0.1, 0.2], plan)]}
    first = masking.report(Findings(records, {}, Bench()))
    reported = json.loads(json.dumps(first.results))
    monkeypatch.setattr(masking, "train", lambda *_, **__: pytest.fail("it trains"))
    again = masking.report(Findings(records, {}, Untouched(), reported))
    assert again.text == first.text and json.loads(json.dumps(again.results)) == reported
    assert again.figures["masked.png"].keywords == first.figures["masked.png"].keywords
    with pytest.raises(InvalidInput, match="nothing on seed 0, and measuring it trains models: run it without"):
        masking.report(Findings(records, {}, Untouched(), {}))


def test_the_partition_is_described_in_figures():
    plans = {
        label: settle(p, Overrides(dataset="digits", clients=20)) for label, p in partition_picture.arms(None).items()
    }
    report = partition_picture.report(Findings({}, plans, Bench()))
    assert report.results["dirichlet-0.1"]["mean_classes"] < report.results["dirichlet-0.5"]["mean_classes"]
    assert report.results["shards-2"]["mean_classes"] <= 2
    assert len(report.figures) == 4


def test_files_of_a_report_are_the_same_each_time(tmp_path):
    findings = found(fedavg=[rising(20), rising(16)], fedaom=[rising(10), rising(12)])
    experiment = EXPERIMENTS["rounds_to_90"]
    for name in "ab":
        (tmp_path / name).mkdir()
        write_report(tmp_path / name, experiment, experiment.report(findings), findings)
    files = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    assert set(files) == {"summary.json", "README.md", "accuracy.png", "accuracy-mean-of-5.png"}
    assert files["accuracy.png"].startswith(PNG)
    page = files["README.md"].decode()
    assert experiment.paper in page and "![accuracy](accuracy.png)" in page
    assert "rounds 30" in page and "learning_rate 0.01" in page and "seeds 0, 1" in page
    assert "```sh" not in page, "the tests of the docs would run it"
    assert json.loads(files["summary.json"])["seeds"] == {"fedavg": [0, 1], "fedaom": [0, 1]}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_nothing_run_is_a_report_too(experiment, tmp_path):
    findings = Findings({}, {}, Bench())
    summary = write_report(tmp_path, experiment, experiment.report(findings), findings)
    assert summary["seeds"] == {}
    assert "Nothing was run yet." in (tmp_path / "README.md").read_text()
