"""What the coordinator says of a model is something that members can read, whatever the model is."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.terms import FederationConfig, LedgerSettings, MembershipSettings

TERMS = {"ledger": LedgerSettings(max_clients=100), "membership": MembershipSettings("approved")}
CONFIG = FederationConfig(TrainingTerms(), TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10)), **TERMS)


@pytest.mark.parametrize("clusters", [None, ProCflTerms(counter="ab" * 32, signer="0x" + "ab" * 20)])
def test_the_loss_of_a_model_that_overflows_can_be_stated(clusters):
    """Members would dispute the closing of an honest coordinator, because one of them sent poison."""
    config = CONFIG if clusters is None else replace(CONFIG, method=clusters)
    first = method_of(CONFIG).read_model(method_of(CONFIG).first_model())
    poisoned = {name: np.full_like(tensor, 1e30) for name, tensor in first.items()}
    model = poisoned if clusters is None else ClusterState("train", (first, poisoned), trained=1, groups=((1,), (2,)))
    test = load_dataset("digits").test().take(np.arange(50))
    found = method_of(config).aides(None, test).evaluate(model)
    stated = Metrics(1, "00" * 32, (1, "00" * 32), found.loss, found.samples, found.accuracy)
    assert found.scores is None and found.loss > 1e299 and Metrics.from_bytes(stated.to_bytes()) == stated
