"""Founding and joining a federation by the command, on a chain of its own process."""

import json
import os
import re
import subprocess
from errno import ENOSPC
from unittest import mock

import pytest

from fedgrove.chain.face.networks import anvil, connect
from tests import warm
from tests.node.cli.test_bad_input import FEDERATION, fedgrove


@pytest.fixture(scope="module")
def chain():
    with anvil() as network:
        yield network


@pytest.fixture
def place(chain, tmp_path):
    """A founder and a member with funded accounts, and the terms of a federation with approved membership."""
    for name in ("founder", "alice"):
        assert fedgrove("keys", "new", f"{name}.json", cwd=tmp_path).returncode == 0
        chain.fund(account(tmp_path, name), 1)
    (tmp_path / "federation.toml").write_text(FEDERATION + '[membership]\nmode = "approved"\n')
    return tmp_path


def account(place, name):
    return json.loads(fedgrove("keys", "show", f"{name}.json", "--json", cwd=place).stdout)["account"]


def on_ledger(*arguments, place, keystore):
    return fedgrove(*arguments, "--config", "federation.toml", "--keystore", keystore, cwd=place)


def deploy(chain, place):
    """The founder is the admin; who coordinates is another."""
    assert fedgrove("keys", "new", "coordinator.json", cwd=place).returncode == 0
    line = ("deploy", "--rpc", chain.url, "--coordinator", account(place, "coordinator"), "--json")
    result = on_ledger(*line, place=place, keystore="founder.json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_member_is_approved_registers_and_shows_in_the_status(chain, place):
    (place / "federation.toml").chmod(0o600)
    deployed = deploy(chain, place)
    assert (place / "federation.toml").stat().st_mode & 0o777 == 0o600
    assert deployed["ledger"] in (place / "federation.toml").read_text()
    alice = account(place, "alice")
    assert on_ledger("approve", alice, place=place, keystore="founder.json").returncode == 0
    joined = on_ledger("register", "--json", place=place, keystore="alice.json")
    assert json.loads(joined.stdout)["client"] == 1
    again = on_ledger("register", "--json", place=place, keystore="alice.json")
    assert json.loads(again.stdout) == json.loads(joined.stdout)
    status = fedgrove("status", "--config", "federation.toml", "--account", alice, "--json", cwd=place)
    told = json.loads(status.stdout)
    assert told["members"] == 1 and told["phase"] == "open" and "client 1" in told["account"]


def test_a_deployment_whose_file_cannot_be_written_shows_what_was_to_be_in_it(chain, place):
    before = (place / "federation.toml").read_bytes()
    line = ("deploy", "--rpc", chain.url, "--one-account")
    with mock.patch("fedgrove.node.cli.membership.write_atomically", side_effect=OSError(ENOSPC, "No space left")):
        result = on_ledger(*line, place=place, keystore="founder.json")
    assert result.returncode == 2 and "the contracts are deployed, but federation.toml cannot be" in result.stderr
    assert (place / "federation.toml").read_bytes() == before
    shown = result.stderr[result.stderr.index("[start]") : result.stderr.index("fedgrove: ")]
    (place / "federation.toml").write_bytes(before + b"\n" + shown.encode())
    assert fedgrove("status", "--config", "federation.toml", cwd=place).returncode == 0


def test_only_the_admin_approves(chain, place):
    deploy(chain, place)
    refused = on_ledger("approve", account(place, "alice"), place=place, keystore="alice.json")
    assert refused.returncode == 2 and "admin" in refused.stderr.lower()
    assert on_ledger("approve", "0x12", place=place, keystore="founder.json").returncode == 2


@pytest.mark.parametrize("which", ["vrf", "mailbox"])
def test_a_key_is_rotated_in_the_keystore_and_on_the_ledger(chain, place, which):
    deploy(chain, place)
    on_ledger("approve", account(place, "alice"), place=place, keystore="founder.json")
    on_ledger("register", place=place, keystore="alice.json")
    before = json.loads(fedgrove("keys", "show", "alice.json", "--json", cwd=place).stdout)
    rotated = fedgrove("keys", "rotate", "alice.json", "--config", "federation.toml", "--which", which, cwd=place)
    assert rotated.returncode == 0, rotated.stderr
    after = json.loads(fedgrove("keys", "show", "alice.json", "--json", cwd=place).stdout)
    assert {name for name in before if before[name] != after[name]} == {which}


def test_an_account_without_money_is_told_so(chain, place):
    deploy(chain, place)
    fedgrove("keys", "new", "poor.json", cwd=place)
    refused = on_ledger("register", place=place, keystore="poor.json")
    assert refused.returncode == 2 and "\n" not in refused.stderr.strip()


def test_one_account_gets_both_powers_only_when_told_so(chain, place):
    line, text = ("deploy", "--rpc", chain.url), (place / "federation.toml").read_text()
    refused = on_ledger(*line, place=place, keystore="founder.json")
    assert refused.returncode == 2 and "--one-account" in refused.stderr
    assert (place / "federation.toml").read_text() == text
    assert on_ledger(*line, "--one-account", place=place, keystore="founder.json").returncode == 0


@pytest.mark.parametrize(("option", "needed"), [((), 3), (("--members", "5"), 5)])
def test_a_coordinator_waits_for_as_many_members_as_it_was_told(chain, place, option, needed):
    deploy(chain, place)
    terms = place / "federation.toml"
    terms.write_text(terms.read_text().replace("[network]", '[network]\nstore = "disk:store"'))
    command = ["coordinator", "--config", "federation.toml", "--keystore", "coordinator.json", *option]
    with subprocess.Popen(
        [*warm.command(), *command],
        cwd=place,
        env={**os.environ, "FEDGROVE_PASSWORD": "secret password"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            waiting = next(line for line in process.stderr if "members to register" in line)
        finally:
            process.kill()
    assert f"0 of the {needed} needed are active" in waiting


def test_times_are_blocks_once_the_contracts_are_there(chain, place):
    terms = place / "federation.toml"
    terms.write_text(terms.read_text() + '[ledger]\nrecover_window = "20 min"\n')
    deploy(chain, place)
    assert re.search(r"^recover_window = [0-9]+  # 20 min$", terms.read_text(), re.MULTILINE)
    status = fedgrove("status", "--config", "federation.toml", cwd=place)
    assert status.returncode == 0, status.stderr


def test_a_second_deployment_into_the_same_file_is_refused(chain, place):
    deploy(chain, place)
    text = (place / "federation.toml").read_text()
    again = on_ledger("deploy", "--rpc", chain.url, "--one-account", place=place, keystore="founder.json")
    assert again.returncode == 2 and "already" in again.stderr and (place / "federation.toml").read_text() == text


def test_another_chain_than_the_federations_is_refused(chain, place):
    deploy(chain, place)
    path = place / "federation.toml"
    with connect(chain.url) as network:
        path.write_text(path.read_text().replace(f"chain_id = {network.chain_id}", "chain_id = 5"))
    refused = on_ledger("register", place=place, keystore="alice.json")
    assert refused.returncode == 2 and "chain" in refused.stderr


def test_a_backup_restores_the_same_keys(place):
    assert fedgrove("keys", "backup", "alice.json", "copy.json", cwd=place).returncode == 0
    assert fedgrove("keys", "restore", "copy.json", "again.json", cwd=place).returncode == 0
    assert account(place, "again") == account(place, "alice")
