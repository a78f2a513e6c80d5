"""``fedgrove doctor``: a line for each thing that it looks at, right when all is well and when each of them is not."""

import json
import time

import pytest
from eth_utils import to_checksum_address

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.networks import anvil
from fedgrove.chain.network.rpc import RpcNetwork
from fedgrove.node.cli import doctor as doctor_command
from fedgrove.node.cli.doctor import Health, federation_findings, machine_findings
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings
from tests.node.cli.test_bad_input import fedgrove
from tests.node.cli.test_status import make, write_config


@pytest.fixture(scope="module")
def chain():
    with anvil() as network:
        yield network


@pytest.fixture
def place(chain, tmp_path):
    """A directory with the TOML file of a federation that is there."""
    write_config(make(chain, tmp_path), chain, tmp_path)
    path = tmp_path / "federation.toml"
    path.write_text(path.read_text() + 'store = "disk:blobs"\n')
    return tmp_path


def found(place, monkeypatch, **changed):
    monkeypatch.chdir(place)
    _, reach = load_config(place / "federation.toml")
    reach = NetworkSettings(**{**vars(reach), **changed})
    account = changed.pop("account", None)
    return {each.name: each for each in federation_findings(place / "federation.toml", reach, account, 10)}


def test_a_federation_that_is_there_is_well(place):
    member = Keys.generate().address
    result = fedgrove("doctor", "--config", "federation.toml", "--account", member, "--json", cwd=place)
    report = json.loads(result.stdout)
    health = {each["name"]: each["health"] for each in report["findings"]}
    assert {"agreement", "clock", "history", "price", "federation", "store"} <= {
        k for k, v in health.items() if v == "ok"
    }
    assert result.returncode == 1 and health["means"] == "failed"  # a fresh account owns nothing
    [means] = [each for each in report["findings"] if each["name"] == "means"]
    assert f"to {to_checksum_address(member)}" in means["sentence"]


def test_an_account_with_means_is_well(place, chain, monkeypatch):
    keys = Keys.generate()
    chain.fund(keys.address, 1)
    monkeypatch.chdir(place)
    _, reach = load_config(place / "federation.toml")
    *_, means, _, _ = federation_findings(place / "federation.toml", reach, keys.address, 10)
    assert (means.name, means.health) == ("means", Health.OK) and "1 ether pay for" in means.sentence


def test_an_endpoint_that_is_away_is_named_without_its_secret(place, monkeypatch):
    away = "http://user:secret@127.0.0.1:9/token"
    findings = found(place, monkeypatch, rpc=(away,))
    assert findings["endpoint http://127.0.0.1:9"].health == findings["chain"].health == Health.FAILED
    assert not any(word in each.sentence for each in findings.values() for word in ("secret", "token"))


def test_another_ledger_is_not_the_federation(place, monkeypatch):
    findings = found(place, monkeypatch, ledger="0x" + "12" * 20)
    assert findings["chain"].health == Health.FAILED and "federation" not in findings


def test_a_store_that_is_away_fails(place, monkeypatch):
    findings = found(place, monkeypatch, store="http://127.0.0.1:9", store_seconds=1.0)
    assert findings["store"].health == Health.FAILED and "disk" not in findings


def test_a_clock_that_is_behind_and_a_dear_chain_are_warnings(place, monkeypatch):
    earlier = time.time() - 3600
    monkeypatch.setattr(doctor_command.time, "time", lambda: earlier)
    monkeypatch.setattr(RpcNetwork, "mines_when_asked", False)
    findings = found(place, monkeypatch, max_fee_gwei=1e-9)
    assert findings["clock"].health == Health.WARNING and "set the clock" in findings["clock"].sentence
    assert findings["price"].health == Health.WARNING and "max_fee_gwei" in findings["price"].sentence


def test_a_practice_node_that_is_ahead_of_the_clock_is_no_fault_of_the_clock(place, monkeypatch):
    earlier = time.time() - 3600
    monkeypatch.setattr(doctor_command.time, "time", lambda: earlier)
    clock = found(place, monkeypatch)["clock"]
    assert clock.health == Health.OK and "usual on a practice node" in clock.sentence


def test_what_is_not_installed_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(doctor_command, "missing", lambda extra: ["torch"] if extra == "simulation" else [])
    monkeypatch.setenv("FEDGROVE_ANVIL", "/nowhere")
    monkeypatch.setattr(doctor_command, "LOW_DISK_BYTES", 1 << 62)
    findings = {each.name: each for each in machine_findings("auto")}
    assert findings["extra simulation"].health == findings["anvil"].health == Health.MISSING
    assert 'pip install "fedgrove[simulation]"' in findings["extra simulation"].sentence
    assert findings["extra learning"].health == Health.OK and findings["disk"].health == Health.WARNING


def test_an_account_needs_a_federation(tmp_path):
    result = fedgrove("doctor", "--account", "0x" + "12" * 20, cwd=tmp_path)
    assert result.returncode == 2 and "--config" in result.stderr
