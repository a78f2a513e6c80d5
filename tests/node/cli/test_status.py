"""``fedgrove status`` on a chain of its own process: once, for an account, and as a watch."""

import json
import os
import pty
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

from fedgrove.chain.crypto.keys import save
from fedgrove.chain.face.networks import anvil
from fedgrove.node.cli.status import Display
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.status.costs import Costs
from fedgrove.node.status.price import Price
from tests import warm
from tests.node.cli.test_bad_input import FEDERATION, fedgrove
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
PASSWORD = "secret password"
SECONDS = 60
STATUS = ["status", "--config", "federation.toml"]


@pytest.fixture(scope="module")
def chain():
    with anvil() as network:
        yield network


@pytest.fixture
def federation(chain, tmp_path):
    """Three registered members on a chain that makes blocks on demand, and the TOML file that names it."""
    return write_config(make(chain, tmp_path), chain, tmp_path)


def make(network, directory):
    made = Federation.found(network, directory, clients=3, training=QUICK, federation=FederationSettings(rounds=2))
    made.register()
    return made


def write_config(made, network, directory):
    reach = f'rpc = "{network.url}"\nledger = "{made.deployment.ledger}"\nblock = {made.deployment.block}\n'
    text = f"{FEDERATION}\n[federation]\nrounds = 2\n[network]\n{reach}"
    (directory / "federation.toml").write_text(text)
    return made


def status(place, *more):
    result = fedgrove("status", "--config", "federation.toml", *more, cwd=place)
    assert result.returncode == 0, result.stderr
    return result


def run_until(federation, coordinator, clients, role, said):
    while said not in federation.said(role):
        federation.turn(coordinator, clients)


def first_two(clients):
    """With one that has not acted yet, a phase goes on."""
    return {number: clients[number] for number in (1, 2)}


def test_it_tells_round_phase_and_who_is_waited_for(federation, tmp_path):
    run_until(federation, federation.coordinator(), first_two(federation.clients()), "client 1", "drew")
    shown = status(tmp_path)
    end = federation.ledger(federation.keys[0]).round(1).seed_block + federation.config.ledger.draw_window
    assert not shown.stderr
    assert "round: 1 of 2\nphase: draw\n" in shown.stdout
    assert f"until block {end}, at an unknown time" in shown.stdout
    assert "account" not in shown.stdout


def test_it_tells_about_when_on_a_chain_with_a_clock(tmp_path):
    with anvil(block_seconds=1) as network:
        made = write_config(make(network, tmp_path), network, tmp_path)
        coordinator = made.coordinator()
        while not coordinator.round:
            coordinator.step()
        network.advance_to(network.block_number() + 2)
        told = json.loads(status(tmp_path, "--json").stdout)
        assert told["until"] > told["block"]
        left = told["until_time"] - network.block_time(told["block"])
        assert left == pytest.approx(told["until"] - told["block"], rel=0.5, abs=2)
        assert ", about " in status(tmp_path).stdout


def test_an_account_is_told_its_last_round_and_its_budget(federation, tmp_path):
    federation.run()
    account = federation.keys[0].address
    told = json.loads(status(tmp_path, "--account", account.lower(), "--json").stdout)
    assert told["finished"] and told["phase"] == "closed" and told["rounds_to_close"] == 2
    assert told["last_round"] is None  # the file names no store
    with (tmp_path / "federation.toml").open("a") as file:
        file.write('store = "disk:store"\n')
    looked = status(tmp_path, "--json").stdout
    last = json.loads(looked)["last_round"]
    assert (last["round"], last["drawn"], last["drawn_clients"]) == (2, 3, [1, 2, 3]) and last["accuracy"] > 0
    assert f"last model: of round 2: accuracy {last['accuracy']:.4f}" in status(tmp_path).stdout
    assert told["last"] == {"round": 2, "counted": True, "reason": ""}
    assert told["budget"]["measured"] == 2
    assert told["budget"]["balance"] == federation.network.balance(account)
    text = status(tmp_path, "--account", account).stdout
    assert "your last round: 2 counted\n" in text
    assert f"enough for {told['budget']['rounds']:,} rounds" in text


def test_it_tells_what_the_federation_and_an_account_have_paid(federation, tmp_path):
    federation.run()
    account, ether = federation.keys[0].address, 10**18
    costs = json.loads(status(tmp_path, "--account", account, "--price", "2000 EUR", "--json").stdout)["costs"]
    paid = ether - federation.network.balance(account)
    assert costs["account"]["wei"] == paid and not {"cost", "currency"} & set(costs["account"])
    assert list(costs["all"]["rounds"]) == ["1", "2"] and costs["unknown"] == 0
    assert costs["coordinator"]["wei"] == ether - federation.network.balance(federation.coordinator_keys.address)
    text = status(tmp_path, "--account", account, "--price", "2000 EUR").stdout
    assert "\ncost so far: " in text and "on average, round 2 " in text
    assert f"your cost so far: {paid / ether:.4g} practice ether" in text and "EUR" not in text


def test_a_price_applies_to_a_chain_whose_coins_are_worth_something(federation):
    costs = Costs({1: {"0xa": 3 * 10**15, "0xb": 10**15}})
    public = replace(federation.deployment, chain_id=1)
    display = Display(public, "0xa", Price(2000, "EUR"))
    assert "0.003 ether (6.00 EUR)" in dict(display.costs(costs))["your cost so far"]
    priced = costs.to_dict({"account": "0xa"}, Price(2000, "EUR"))["account"]
    assert priced["cost"] == pytest.approx(6) and priced["currency"] == "EUR"
    practised = Display(federation.deployment, "0xa", Price(2000, "EUR"))
    assert "EUR" not in str(dict(practised.costs(costs)))


def test_a_keystore_stands_for_its_account(federation, tmp_path):
    save(tmp_path / "bob.json", federation.keys[1], PASSWORD, cost=1 << 12)
    told = json.loads(status(tmp_path, "--keystore", "bob.json", "--json").stdout)
    assert told["account"].startswith("client 2") and told["last"] is None and told["budget"]["measured"] == 0


# --- watching ---------------------------------------------------------------------------------------------------------


@contextmanager
def watch(place):
    """A watch in a process of its own, which is killed if it hangs."""
    command = [*warm.command(), *STATUS, "--watch", "--interval", "0.05", "--json"]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        killer = threading.Timer(SECONDS, process.kill)
        killer.start()
        try:
            yield process
        finally:
            killer.cancel()
            process.kill()


def see(process, phase):
    """What the watch tells up to a phase; all the rest for an empty one."""
    sights = []
    for line in process.stdout:
        sights.append(json.loads(line))
        if sights[-1]["phase"] == phase:
            break
    return sights


def substance(sight):
    return {name: value for name, value in sight.items() if name not in ("block", "until_time")}


def test_a_watch_tells_every_change_up_to_the_end(federation, tmp_path):
    with watch(tmp_path) as process:
        sights = see(process, "open")
        coordinator, clients = federation.coordinator(), federation.clients()
        run_until(federation, coordinator, first_two(clients), "client 1", "drew")
        sights += see(process, "draw")
        run_until(federation, coordinator, clients, "client 3", "drew")
        run_until(federation, coordinator, first_two(clients), "client 2", "shared")
        sights += see(process, "share")
        federation.run(coordinator, clients)
        sights += see(process, "")
        assert process.wait() == 0, process.stderr.read()
    assert [sight["phase"] for sight in sights[:1]] == ["open"] and sights[-1]["phase"] == "closed"
    assert [sight["finished"] for sight in sights] == [False] * (len(sights) - 1) + [True]
    assert all(substance(one) != substance(following) for one, following in pairwise(sights))


def test_a_watch_outlasts_an_endpoint_that_is_away(tmp_path):
    state = tmp_path / "chain.json"
    with anvil(state) as first:
        port = int(first.url.rsplit(":", 1)[1])
        made = write_config(make(first, tmp_path), first, tmp_path)
        run_until(made, made.coordinator(), first_two(made.clients()), "client 2", "drew")
        with watch(tmp_path) as process:
            assert see(process, "draw")[0]["round"] == 1
            first.close()
            assert "waiting: The node at" in process.stderr.readline()
            with anvil(state, port) as second:
                made.network = second
                made.run()
                assert see(process, "")[-1]["finished"]
                assert process.wait() == 0 and not process.stderr.read()


def test_a_watch_on_a_terminal_is_one_picture(federation, tmp_path):
    federation.run()
    ours, theirs = pty.openpty()
    command = [*warm.command(), *STATUS, "--watch"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        shown = b""
        while piece := read(ours):
            shown += piece
        assert process.wait(SECONDS) == 0
    os.close(ours)
    assert b"2 of 2" in shown and b"all rounds have ended" in shown


def read(terminal):
    """What comes next; empty when the other end is closed."""
    try:
        return os.read(terminal, 1 << 12)
    except OSError:
        return b""
