"""Every strategy in a real federation: extras under masks, state at home, an audit that knows nothing of strategies."""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import Layout, dump, flatten, load, unflatten
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.settings import SENDING, STRATEGIES, TrainingSettings
from fedgrove.node.learning.shared import draw_shared, shared_to_bytes
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.masking.ring import decode, encode
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.terms import SharedSettings, StrategySettings
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
CLIENTS, ROUNDS = 3, 2


@pytest.fixture(scope="module")
def shared():
    return draw_shared(load_dataset("digits").train(), 1, np.random.default_rng(0))


@pytest.fixture
def found(tmp_path, shared):
    """``found(strategy)``: a federation of three with that strategy."""
    with embedded() as network:

        def make(strategy):
            data = shared_to_bytes(shared)
            terms = {"strategy": StrategySettings(strategy), "shared": SharedSettings(cid_of(data).digest.hex())}
            made = Federation.found(network, tmp_path, CLIENTS, ROUNDS, training=QUICK, **terms)
            made.store.put(data)
            made.register()
            return made

        yield make


def closed(federation):
    return [record.model_digest for record in federation.of(Closed)]


def in_the_open(federation, shared, forgetful=False):
    """The models of all rounds, from plain training and a plain sum; ``forgetful`` clients have no state."""
    config, models, states = federation.config, [load(method_of(federation.config).first_model())], {}
    strategy = make_strategy(config.strategy.name, config.strategy.options)
    layout, total = Layout.of(models[0]), sum(map(len, federation.samples))
    for number in range(1, ROUNDS + 1):
        words = np.zeros(layout.length, np.uint32)
        for client, samples in enumerate(federation.samples, 1):
            update = train(
                config.network, models[-1], samples, shared, strategy, config.training, number=number, rounds=ROUNDS,
                client=client, seed=config.federation.seed, state=None if forgetful else states.get(client),
            )  # fmt: skip
            states[client] = update.state
            words += encode(flatten(update.tensors), layout, update.samples, total, config.masking.bound)
        models.append(unflatten(decode(words, total, total, config.masking.bound), layout))
    return models[1:]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_federations_models_are_those_of_training_in_the_open(found, shared, strategy):
    federation = found(strategy)
    federation.run()
    models = in_the_open(federation, shared)
    digests = closed(federation)
    assert [federation.store.fetch(digest, 1 << 26) for digest in digests] == [dump(model) for model in models]
    assert federation.audit().verdict == "verified"
    committed = federation.of(Committed)
    everything = 4 * (Layout.of(models[0]).length + 1)  # and a word that counts who could not train
    assert [len(federation.store.fetch(record.digest, 1 << 26)) for record in committed] == [everything] * 6
    assert any(name.startswith(f"{strategy}/") for name in models[0]) == (strategy in SENDING)


def test_moons_previous_models_survive_clients_that_restart_before_every_step(found, shared):
    federation = found("moon")
    coordinator = federation.coordinator()
    while federation.turn(coordinator, federation.clients()):
        pass
    expected, without = in_the_open(federation, shared), in_the_open(federation, shared, forgetful=True)
    models = [federation.store.fetch(digest, 1 << 26) for digest in closed(federation)]
    assert models == [dump(model) for model in expected]
    assert dump(without[0]) == dump(expected[0]) and dump(without[1]) != dump(expected[1])


def test_a_client_whose_state_is_damaged_says_so_and_takes_part_without(found):
    federation = found("moon")
    coordinator, clients = federation.coordinator(), federation.clients()
    path = federation.directory / "client-2" / "00000001-state.sealed"
    while federation.turn(coordinator, clients):
        if path.exists() and "released shares" in federation.said("client 2"):
            path.write_bytes(b"damaged")
    assert len(closed(federation)) == ROUNDS and federation.audit().verdict == "verified"
    said = [sentence for sentence in federation.said("client 2") if "removed its strategy's state" in sentence]
    assert len(said) == 1 and str(path) in said[0]
    assert [path.name for path in (federation.directory / "client-2").glob("0*.sealed")] == ["00000002-state.sealed"]
