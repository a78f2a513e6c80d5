"""A testnet's directory: complete or made anew, and each participant's secrets its own."""

import fcntl
import os
import stat
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.crypto.keys import load
from fedgrove.chain.face.founding import read_deployment, verify_code
from fedgrove.chain.face.networks import anvil
from fedgrove.common.errors import RunFailed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.members import COORDINATOR, FUNDS_ETHER, client_name
from fedgrove.node.devnet.testnet import setup
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.devnet.testnet.lock import claim
from fedgrove.node.devnet.testnet.setup import make
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.methods.terms import load_config
from fedgrove.node.scenario.reading import scenario

PLAN = scenario(clients=3, rounds=2, store="disk", block_seconds=0.5, seed=4)
NAMES = [COORDINATOR, *map(client_name, (1, 2, 3))]


@pytest.fixture(scope="module")
def dataset():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    layout = TestnetPaths(tmp_path_factory.mktemp("testnet") / "made")
    lock = claim(layout)
    testnet = make(layout, PLAN)
    os.close(lock)
    return layout, testnet


def test_the_record_is_there_and_nothing_says_unfinished(made):
    layout, testnet = made
    assert read_record(layout) == testnet and testnet.scenario == PLAN
    assert not layout.unfinished.exists()
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o700


def test_each_participant_has_keys_under_a_password_of_its_own(made):
    layout, testnet = made
    passwords = set()
    for name in NAMES:
        mine = layout.participant(name)
        password = mine.password.read_text().strip()
        assert load(mine.keystore, password).address == testnet.accounts[name]
        passwords.add(password)
        for path in (mine.password, mine.keystore, mine.data):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(passwords) == len(NAMES)


def test_no_secret_is_in_a_configuration_or_the_record(made):
    layout, _ = made
    open_text = layout.record.read_text() + layout.config.read_text()
    for name in NAMES:
        mine = layout.participant(name)
        open_text += mine.config.read_text()
        password = mine.password.read_text().strip()
        keys = load(mine.keystore, password)
        for secret in (password, keys.account.key.hex(), keys.vrf.hex(), keys.mailbox.hex(), keys.storage.hex()):
            assert secret.removeprefix("0x") not in open_text


def test_all_agree_on_the_terms_and_know_the_ledger(made):
    layout, testnet = made
    files = [layout.config, *(layout.participant(name).config for name in NAMES)]
    terms, reach = load_config(layout.config)
    assert {load_config(file)[0].to_bytes() for file in files} == {terms.to_bytes()}
    assert (reach.ledger, reach.chain_id, reach.block) == (testnet.ledger, testnet.chain_id, testnet.block)
    assert terms.federation.rounds == 2 and terms.federation.seed == 4
    assert DiskStore(layout.store(PLAN, 1)).has(bytes.fromhex(terms.shared.digest))


def test_the_training_samples_are_dealt_out_once_each_and_the_test_samples_go_to_the_coordinator(made, dataset):
    layout, testnet = made
    assert testnet.sources == {name: ["--data", "data.npz"] for name in NAMES}
    with np.load(layout.participant(COORDINATOR).data, allow_pickle=False) as arrays:
        assert set(arrays) == {"x_test", "y_test"} and len(arrays["y_test"]) == len(dataset.test())
    dealt = []
    for name in NAMES[1:]:
        with np.load(layout.participant(name).data, allow_pickle=False) as arrays:
            assert set(arrays) == {"x_train", "y_train"}
            dealt += [image.tobytes() for image in arrays["x_train"]]
    assert sorted(dealt) == sorted(image.tobytes() for image in dataset.train().x)


def test_the_chain_holds_the_shipped_contracts_with_the_terms_windows_and_funds_for_all(made):
    layout, testnet = made
    with anvil(layout.chain) as network:
        deployment = read_deployment(network, testnet.ledger, testnet.block)
        verify_code(network, deployment)
        assert deployment.settings == load_config(layout.config)[0].ledger
        assert deployment.coordinator == testnet.accounts[COORDINATOR]
        for name in NAMES:
            assert network.balance(testnet.accounts[name]) > (FUNDS_ETHER - 1) * 10**18


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_half_made_directory_is_made_anew(tmp_path, monkeypatch):
    layout = TestnetPaths(tmp_path / "testnet")
    lock = claim(layout)
    with monkeypatch.context() as patch:
        patch.setattr(setup, "_found", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make(layout, PLAN)
    os.close(lock)
    first = layout.participant(COORDINATOR).keystore.read_bytes()
    assert layout.unfinished.exists() and not layout.record.exists()
    lock = claim(layout)
    make(layout, PLAN)
    os.close(lock)
    assert read_record(layout).scenario == PLAN and not layout.unfinished.exists()
    assert layout.participant(COORDINATOR).keystore.read_bytes() != first


def test_a_directory_of_somebody_elses_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFailed, match="something other than a testnet"):
        claim(TestnetPaths(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_commands_do_not_work_on_one_directory(tmp_path):
    layout = TestnetPaths(tmp_path)
    lock = claim(layout)
    with pytest.raises(RunFailed, match="another command"):
        claim(layout)
    os.close(lock)
    again = claim(layout)
    fcntl.flock(again, fcntl.LOCK_UN)
    os.close(again)
    assert list(tmp_path.iterdir()) == []


def test_data_that_do_not_suit_are_named(tmp_path):
    with pytest.raises(RunFailed, match="do not fit"):
        make(TestnetPaths(tmp_path), replace(PLAN, cast=replace(PLAN.cast, clients=2000)))
