"""Command lines, environments, ports and configurations of what a testnet starts."""

import json
import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedgrove.chain.face.networks import connect, has_anvil
from fedgrove.chain.network.anvil_state import copy_of
from fedgrove.node.devnet.members import client_name
from fedgrove.node.devnet.testnet import processes
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths
from fedgrove.node.devnet.testnet.processes import chain_url, explorer_url, reach, with_ports
from fedgrove.node.scenario.reading import scenario
from tests.chain.nodes import until


def testnet(**options):
    place = (31337, "0x" + "1" * 40, "0x" + "2" * 40, 3)
    told = scenario(**{"store": "kubo"} | options)
    sources = {client_name(number): ["--data", "data.npz"] for number in range(1, told.clients + 1)}
    return with_ports(Testnet(told.to_tables(), *place, sources={"coordinator": []} | sources))


testnet.__test__ = False
LAUNCHER = SimpleNamespace(command=lambda: ["fedgrove"])


def test_ports_stay_unless_somebody_has_taken_them():
    first = testnet(clients=6, kubo_nodes=2)
    assert set(first.ports) == {"chain", "kubo-1", "kubo-2"} and len(set(first.ports.values())) == 3
    assert with_ports(first) == first
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first.ports["kubo-1"]))
        taken.listen()
        moved = with_ports(first)
    assert moved.ports["kubo-1"] != first.ports["kubo-1"]
    assert moved.ports["chain"] == first.ports["chain"] and moved.ports["kubo-2"] == first.ports["kubo-2"]


def test_each_client_reaches_the_store_of_its_group():
    made, layout = testnet(clients=3, kubo_nodes=2), TestnetPaths(Path("/somewhere"))
    stores = [reach(layout, made, client).store for client in range(4)]
    assert stores[0] == stores[1] == stores[3] == f"http://127.0.0.1:{made.ports['kubo-1']}"
    assert stores[2] == f"http://127.0.0.1:{made.ports['kubo-2']}"
    assert {reach(layout, made, client).rpc for client in range(4)} == {(chain_url(made),)}


def test_an_explorer_has_a_port_and_no_key():
    made, layout, started = testnet(store="disk", explorer=True), TestnetPaths(Path("/somewhere")), []
    assert set(made.ports) == {"chain", "explorer"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "Command", lambda command, *rest: started.append(command))
        processes.explorer_job(layout, made).start()
    (command,) = started
    assert explorer_url(made) == f"http://127.0.0.1:{command[command.index('--port') + 1]}/"
    assert not [word for word in command if "key" in word or "password" in word]
    assert explorer_url(testnet(store="disk")) == ""


def test_services_are_given_their_data(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(processes, "Command", lambda command, *rest: started.append(command))
    layout, made = TestnetPaths(tmp_path), testnet(store="disk", clients=3, k=4, table_format={"decimal": ","})
    for job in (*processes.client_jobs(layout, made, LAUNCHER), processes.coordinator_job(layout, made, LAUNCHER)):
        job.start()
    form = ["--table-format", "decimal=,"]
    ends = [command[command.index("--password-file") + 2 :] for command in started]
    assert [[word for word in end if word != "--no-standby"] for end in ends] == [["--data", "data.npz", *form]] * 3 + [
        form
    ]


def terms(portable=False):
    return SimpleNamespace(training=SimpleNamespace(portable=portable))


def test_members_are_forks_of_another_server_where_one_was_lost():
    launcher = processes.Launcher(testnet(store="disk", k=4), terms())
    first = launcher.command()
    assert launcher.command() == first
    launcher._server._process.kill()
    launcher._server._process.wait()
    second = launcher.command()
    assert second != first and not Path(first[-1]).parent.exists()
    launcher.close()
    assert not Path(second[-1]).parent.exists()


def test_members_that_train_portably_import_their_own_libraries():
    launcher = processes.Launcher(testnet(store="disk"), terms(portable=True))
    assert launcher.command() == processes.COMMAND
    launcher.close()


def test_a_disk_store_is_one_folder_for_all():
    made, layout = testnet(store="disk"), TestnetPaths(Path("/somewhere"))
    assert set(made.ports) == {"chain"}
    assert {reach(layout, made, client).store for client in (0, 1, 2)} == {"disk:/somewhere/store"}


@pytest.mark.parametrize("standby", [0, 2])
def test_the_first_clients_stand_by_and_command_lines_name_only_files(tmp_path, monkeypatch, standby):
    started = []
    monkeypatch.setattr(processes, "Command", lambda command, *rest: started.append((command, *rest)))
    monkeypatch.setenv("FEDGROVE_PASSWORD", "of the user's own keystore")
    layout = TestnetPaths(tmp_path)
    for job in processes.client_jobs(layout, testnet(clients=3, standby=standby), LAUNCHER):
        job.start()
    assert [("--no-standby" not in command) for command, *_ in started] == [number <= standby for number in (1, 2, 3)]
    for number, (command, log, environment, directory) in enumerate(started, 1):
        mine = layout.participant(f"client-{number:02d}")
        assert command[command.index("--password-file") + 1] == str(mine.password)
        assert (log, directory) == (layout.log(mine.root.name), mine.root)
        assert "FEDGROVE_PASSWORD" not in environment


@pytest.mark.skipif(not has_anvil(), reason="no anvil: run make test, which installs it")
def test_a_killed_chain_still_knows_the_hashes_of_its_blocks(tmp_path):
    made, layout = testnet(store="disk", chain="anvil", block_seconds=0.5), TestnetPaths(tmp_path)
    layout.chain.parent.mkdir()
    layout.logs.mkdir()
    job = processes.chain_job(layout, made)
    first = job.start()
    try:
        until(copy_of(layout.chain).exists)
        until(lambda: json.loads(copy_of(layout.chain).read_bytes())["best_block_number"] > 1)
        kept = json.loads(copy_of(layout.chain).read_bytes())["best_block_number"]
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    again = job.start()
    try:
        with connect(chain_url(made)) as network:
            assert 0 < kept <= network.block_number()
            until(lambda: network.block_number() > kept)
            # PUSH1 kept, BLOCKHASH, and return it after a zero, as no contract's code may begin with 0xef.
            asked = {"data": f"0x60{kept:02x}406020526021601ff3"}
            assert network.request("eth_call", asked, "latest") == "0x00" + network.block_hash(kept).hex()
    finally:
        again.stop(5)
