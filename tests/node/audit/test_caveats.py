"""A history may be verified, and show less than a reader of that word takes for granted."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.records import Closed
from fedgrove.common.errors import InvalidContent
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.verdict import NONE_CLOSED
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.networks import evaluate
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.protocol.content import Metrics
from tests.node.cli.test_bad_input import fedgrove

PRACTICE = "practice chain"


@pytest.mark.parametrize(("chain_id", "named"), [(31337, True), (1, False)])
def test_a_practice_chain_is_named_and_no_other(run, chain_id, named):
    facts = replace(run.facts, deployment=replace(run.facts.deployment, chain_id=chain_id))
    found = Auditor(facts, [], run.store).run()
    assert any(PRACTICE in each for each in found.caveats) == found.practice == named


def test_a_history_without_a_closed_round_says_so(run):
    before = next(place for place, record in enumerate(run.records) if isinstance(record, Closed))
    for records, none_closed in ((run.records[:before], True), (run.records, False)):
        verdict = Auditor(run.facts, records, run.store).run()
        assert verdict.holds and verdict.verdict == (NONE_CLOSED if none_closed else "verified")


SPEC = ModelSpec("small-mlp", (1, 8, 8), 10)


def constant(label: int) -> dict[str, np.ndarray]:
    """A model that answers with one class whatever it is shown."""
    tensors = initial_tensors(SPEC.name, SPEC.input_shape, SPEC.classes, 0)
    tensors = {name: np.zeros_like(value) for name, value in tensors.items()}
    bias = next(name for name, value in tensors.items() if value.shape == (SPEC.classes,))
    tensors[bias][label] = 1
    return tensors


@pytest.mark.parametrize(("labels", "only"), [([3, 3, 4], 3), ([3, 3, 3], None)])
def test_a_model_with_one_answer_is_found_where_there_are_several_labels(labels, only):
    images = np.random.default_rng(0).random((len(labels), 1, 8, 8), np.float32)
    samples = Samples(images, np.array(labels, np.int64))
    assert evaluate(SPEC, constant(3), samples).only_class == only


def test_the_class_is_stated_in_the_metrics_and_bounded():
    stated = Metrics(1, "ab" * 32, (1, "cd" * 32), 0.5, 100, 0.8, only_class=0)
    assert Metrics.from_bytes(stated.to_bytes()) == stated
    assert b"only_class" not in Metrics(1, "ab" * 32, (1, "cd" * 32), 0.5, 100, 0.8).to_bytes()
    for wrong in (b"-1", b"1e3", b'"0"', b"null", b"99999999999999999999"):
        with pytest.raises(InvalidContent):
            Metrics.from_bytes(stated.to_bytes().replace(b'"only_class":0', b'"only_class":' + wrong))


MAJORITY = """
import numpy as np
from torch import nn

import fedgrove as fg


class Majority(fg.Task):
    def model(self):
        net = nn.Linear(2, 2)
        nn.init.zeros_(net.weight)
        nn.init.zeros_(net.bias)
        return net

    def data(self, source):
        x = np.zeros((30, 2), np.float32)
        y = (np.arange(30) % 5 == 0).astype(np.int64)
        return fg.Data((x, y), held_out=(x, y))
"""


def test_a_demo_whose_model_has_one_answer_says_so_from_the_round_to_the_verdict(tmp_path):
    (tmp_path / "task.py").write_text(MAJORITY)
    (tmp_path / "data").write_text("")
    options = ("--task", "task.py", "--data", "data", "--sandbox", "off", "--clients", "3", "--rounds", "1")
    options += ("--set", "training.epochs=2")
    result = fedgrove("demo", *options, "--out", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stdout.splitlines() if line.startswith("but: ")]
    assert len(said) == 2 and PRACTICE in said[0] and "predicts class 0 for all 30 test samples" in said[1]
    told = json.loads(fedgrove("audit", "run", "--json", cwd=tmp_path).stdout)
    assert [f"but: {caveat}" for caveat in told["caveats"]] == said
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["config"]["training"]["epochs"] == 2
    assert report["rounds"][0]["only_class"] == 0 and report["rounds"][0]["accuracy"] == 0.8
