"""`[network] device`: a GPU is refused in one sentence where it cannot be had."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedgrove.chain.face.networks import embedded
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.services import check_device
from fedgrove.node.cli.task_data import MODELS_OF_A_JOB, job_limits
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.methods import check_federation
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths
from fedgrove.node.devnet.testnet.processes import reach, with_ports
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.training.network_trainer import NetworkTrainer
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, StrategySettings
from fedgrove.node.scenario.reading import scenario

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


@pytest.fixture
def plan(monkeypatch):
    """Three members with a GPU, as the scenario is told."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return scenario(clients=3, rounds=1, strategy="fedavg", store="disk").changed(run={"device": "cuda"})


def test_members_of_a_demonstration_train_on_its_device(plan, monkeypatch, tmp_path):
    asked = set()

    def train_here(*terms, device, **given):
        asked.add(device)
        return train(*terms, device="cpu", **given)

    monkeypatch.setattr("fedgrove.node.methods.training.network_trainer.train", train_here)
    with embedded() as network:
        Demo(plan, DatasetSubject(load_dataset("digits")), network, DiskStore(tmp_path)).run()
    assert asked == {"cuda"}


def test_members_of_a_testnet_are_told_its_device(plan):
    made = with_ports(Testnet(plan.to_tables(), 31337, "0x" + "1" * 40, "0x" + "2" * 40, 3))
    assert reach(TestnetPaths(Path("/somewhere")), made, 1).device == "cuda"


def test_clusters_and_points_are_not_promised_a_gpu(plan):
    for given in ({"clients": 12, "method": "procfl, seats = 3"}, {"clients": 3, "k": 3}):
        name = scenario(**given).method.name
        with pytest.raises(InvalidConfig, match=f"^run.device must be cpu: {name} computes on the processor only"):
            check_federation(scenario(**given).changed(run={"device": "cuda"}))
