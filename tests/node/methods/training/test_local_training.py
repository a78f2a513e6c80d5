"""What a strategy keeps goes from round to round, wherever the client is killed; damaged, it is done without."""

import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.tensors import Tensors, dump, load
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies.moon import Moon
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.local_training import LocalTraining, StateLost
from fedgrove.node.methods.training.network_trainer import NetworkTrainer
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.terms import FederationConfig, StrategySettings
from fedgrove.node.scenario.reading import scenario

KEY = bytes(range(32))
QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


class Killed(BaseException):
    """In place of a kill: nothing is unwound that a process would not leave behind, too."""


class MortalJournal(Journal):
    """Dies before or after its n-th write."""

    writes, dies_at, moment = 0, 0, ""

    def write(self, round_number, name, data):
        type(self).writes += 1
        if (self.writes, self.moment) == (self.dies_at, "before"):
            raise Killed
        super().write(round_number, name, data)
        if (self.writes, self.moment) == (self.dies_at, "after"):
            raise Killed


@pytest.fixture(scope="module")
def config() -> FederationConfig:
    plan = scenario(clients=3, rounds=4, strategy="moon")
    return replace(terms_on(plan, load_dataset("digits"), b""), training=QUICK)


@pytest.fixture(scope="module")
def samples():
    return load_dataset("digits").train().take(range(60))


@pytest.fixture
def store(tmp_path):
    return DiskStore(tmp_path / "store")


@pytest.fixture
def model(config, store):
    """The global model of all rounds."""
    return store.put(method_of(config).first_model()).digest


def training_on(store, config, samples, journal):
    trainer = NetworkTrainer(store, config, samples, None)
    no = lambda current: pytest.fail("nobody evaluates")  # noqa: E731
    return LocalTraining(store, config, trainer, journal, no, lambda current: 1)


def entry(number, model):
    return SimpleNamespace(number=number, opened=SimpleNamespace(model_digest=model))


def alone(config, samples, rounds) -> list[Tensors]:
    """The updates of a client that trains in these rounds without a journal, and never dies."""
    state, updates = {}, []
    for number in rounds:
        place = {"number": number, "rounds": 4, "client": 1, "seed": config.federation.seed, "state": state}
        update = train(config.network, load(method_of(config).first_model()), samples, None, Moon(), QUICK, **place)
        state = update.state
        updates.append(update.tensors)
    return updates


def states(directory):
    return sorted(path.name for path in directory.glob("*-state.sealed"))


def test_the_state_of_the_last_round_it_took_part_in_is_what_it_trains_from(config, samples, store, model, tmp_path):
    """A new object each round, as after a restart; round 2 it sits out, and rounds end by their files' destruction."""
    expected = alone(config, samples, (1, 3, 4))
    found = []
    for number in (1, 2, 3, 4):
        journal = Journal(tmp_path / "journal", KEY)
        journal.destroy(before=number - 1)
        if number != 2:
            training = training_on(store, config, samples, journal)
            found.append(training.result(entry(number, model), 1).tensors)
        assert len(states(tmp_path / "journal")) == (1 if number in (1, 2) else 2)
    assert list(map(dump, found)) == list(map(dump, expected))
    journal.destroy(before=4)
    assert [path.name for path in (tmp_path / "journal").glob("*.sealed")] == ["00000004-state.sealed"]


def test_a_rounds_position_has_the_share_of_the_members_that_it_draws(config, samples, store, model, tmp_path):
    some = replace(config, federation=replace(config.federation, sampling_rate=0.25))
    training = training_on(store, some, samples, Journal(tmp_path / "journal", KEY))
    position = {"number": 3, "rounds": 4, "seed": config.federation.seed, "sampling_rate": 0.25}
    assert training._begin(entry(3, model), 1)[1] == position


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("dies_at", [1, 2])
def test_killed_at_any_write_it_comes_to_the_same_updates(
    config, samples, store, model, tmp_path, monkeypatch, dies_at, moment
):
    expected = alone(config, samples, (1, 2, 3))
    found = []
    for number in (1, 2, 3):
        monkeypatch.setattr(MortalJournal, "writes", 0)
        monkeypatch.setattr(MortalJournal, "dies_at", dies_at)
        monkeypatch.setattr(MortalJournal, "moment", moment)
        for _ in range(2):
            journal = MortalJournal(tmp_path / "journal", KEY)
            journal.destroy(before=number - 1)
            try:
                update = training_on(store, config, samples, journal).result(entry(number, model), 1)
            except Killed:
                continue
        found.append(update.tensors)
    assert list(map(dump, found)) == list(map(dump, expected))


def test_a_round_that_ends_between_state_and_update_leaves_its_state(config, samples, store, model, tmp_path):
    """The training was done, whatever became of the round."""
    journal = Journal(tmp_path / "journal", KEY)
    training_on(store, config, samples, journal).result(entry(1, model), 1)
    (tmp_path / "journal" / "00000001-update.sealed").unlink()
    journal.destroy(before=1)
    update = training_on(store, config, samples, journal).result(entry(2, model), 1)
    assert dump(update.tensors) == dump(alone(config, samples, (1, 2))[1])


def test_a_damaged_state_is_named_removed_and_done_without(config, samples, store, model, tmp_path):
    journal = Journal(tmp_path / "journal", KEY)
    training = training_on(store, config, samples, journal)
    training.result(entry(1, model), 1)
    journal.destroy(before=1)
    path = tmp_path / "journal" / "00000001-state.sealed"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateLost, match=f"{path} was not written with this keystore or has been changed$"):
        training.result(entry(2, model), 1)
    assert not path.exists()
    assert dump(training.result(entry(2, model), 1).tensors) == dump(alone(config, samples, (2,))[0])


def test_nothing_on_disk_shows_the_local_model(config, samples, store, model, tmp_path):
    journal = Journal(tmp_path / "journal", KEY)
    update = training_on(store, config, samples, journal).result(entry(1, model), 1)
    journal.destroy(before=1)
    (path,) = (tmp_path / "journal").glob("*.sealed")
    assert update.tensors["hidden.weight"].tobytes()[:64] not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    kept = load(journal.state(before=2))
    assert np.array_equal(kept["strategy/hidden.weight"], update.tensors["hidden.weight"])


def test_a_strategy_that_keeps_nothing_leaves_nothing(config, samples, store, model, tmp_path):
    plain = replace(config, strategy=StrategySettings("fedavg"))
    journal = Journal(tmp_path / "journal", KEY)
    training_on(store, plain, samples, journal).result(entry(1, model), 1)
    journal.destroy(before=1)
    assert not list((tmp_path / "journal").glob("*.sealed"))


WRITER = """
import sys
from pathlib import Path
from fedgrove.node.protocol.journal import STATE, Journal
journal = Journal(Path(sys.argv[1]), bytes(range(32)))
print("ready", flush=True)
for number in range(1, 100_000):
    journal.destroy(before=number - 1)
    journal.write(number, STATE, b"%d" % number * 20_000)
    journal.write(number, "update", b"%d" % number)
"""


def test_a_killed_writer_leaves_a_whole_state_no_older_than_any_update(tmp_path):
    for attempt in range(3):
        directory = tmp_path / str(attempt)
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE)
        process.stdout.readline()
        while len(list(directory.glob("*-update.sealed"))) == 0:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        journal = Journal(directory, KEY)
        kept = [int(name[:8]) for name in states(directory)]
        assert 1 <= len(kept) <= 2
        assert all(journal.state(before=number + 1) == b"%d" % number * 20_000 for number in kept)
        assert all(int(path.name[:8]) in kept for path in directory.glob("*-update.sealed"))
