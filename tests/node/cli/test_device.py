"""`[network] device`: a GPU is refused in one sentence where it cannot be had."""

from dataclasses import replace

import pytest
import torch

from fedgrove.common.errors import InvalidInput
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.services import check_device
from fedgrove.node.cli.task_data import MODELS_OF_A_JOB, job_limits
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.training.network_trainer import NetworkTrainer
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, StrategySettings

FEDAVG = StrategySettings("fedavg")
NETWORK = FederationConfig(
    TrainingTerms(), TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10)), strategy=FEDAVG
)
TASK = FederationConfig(TrainingTerms(), task=TaskSettings("b" + "a" * 58), strategy=FEDAVG)


def test_the_processor_is_the_default_and_needs_nothing():
    for terms in (NETWORK, TASK):
        check_device(terms, NetworkSettings())
    with pytest.raises(InvalidInput, match="device must be cpu or cuda"):
        NetworkSettings(device="tpu")


@pytest.mark.parametrize(
    ("terms", "settings", "sentence"),
    [
        (NETWORK, {}, "network.device: torch finds no CUDA device here"),
        (TASK, {"sandbox": "off"}, "network.device: torch finds no CUDA device here"),
        (TASK, {}, 'needs sandbox = "off"'),
        (TASK, {"sandbox": "strict"}, "shows the code of a task no GPU"),
        (FederationConfig(KMeansTerms(k=2, dimensions=2, step=0.1)), {}, "kmeans computes on the processor only"),
    ],
)
def test_a_gpu_that_cannot_be_had_is_refused(monkeypatch, terms, settings, sentence):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CommandError, match=sentence.replace(".", r"\.")):
        check_device(terms, NetworkSettings(device="cuda", **settings))


@pytest.mark.parametrize(
    ("training", "reach", "sentence"),
    [
        (TrainingSettings(portable=True), {}, "^training with portable = true needs an x86-64 processor with AVX2"),
        (TrainingSettings(precision="bf16"), {}, '^training with precision = "bf16" needs a processor'),
        (
            TrainingSettings(portable=True),
            {"device": "cuda"},
            "^network.device: .*: choose the device cpu",
        ),
    ],
)
def test_a_processor_that_cannot_train_under_the_terms_is_refused(monkeypatch, training, reach, sentence):
    monkeypatch.setattr("fedgrove.node.base.processor._features", frozenset)
    with pytest.raises(CommandError, match=sentence):
        check_device(replace(NETWORK, training=training), NetworkSettings(**reach))


def test_with_a_gpu_addresses_are_not_limited_and_tensors_are_by_the_terms():
    terms = FederationConfig(
        TASK.method, federation=FederationSettings(max_blob_mib=512), task=TASK.task, strategy=FEDAVG
    )
    here, there = (job_limits(terms, NetworkSettings(device=device)) for device in ("cpu", "cuda"))
    assert here.memory and there.memory is None
    assert here.request == here.reply == MODELS_OF_A_JOB * (512 << 20)


def test_the_trainer_of_a_shipped_network_gets_the_device(monkeypatch):
    asked = {}
    monkeypatch.setattr("fedgrove.node.methods.training.network_trainer.train", lambda *_, **given: asked.update(given))
    NetworkTrainer(None, NETWORK, [], None, "cuda").start({}, {"number": 1, "rounds": 1, "seed": 0}, 1, {})
    assert asked["device"] == "cuda"
