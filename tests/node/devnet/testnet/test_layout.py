"""The record of a testnet, and who belongs to which store."""

import pytest

from fedgrove.common.errors import RunFailed
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, group_of, groups, read_record, write_record
from fedgrove.node.scenario.reading import scenario


def made(plan=None, **ports):
    place = (31337, "0x" + "1" * 40, "0x" + "2" * 40, 3)
    return Testnet((plan or scenario()).to_tables(), *place, {"client-01": "0x" + "3" * 40}, ports)


def test_a_record_reads_as_it_was_written_and_only_its_owner_can_read_it(tmp_path):
    layout = TestnetPaths(tmp_path)
    testnet = made(scenario(clients=5, block_seconds=0.5), chain=8545)
    write_record(layout, testnet)
    assert read_record(layout) == testnet
    assert layout.record.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"format": 1}', b'{"format": 2, "scenario": {"x": 1}}', b"\xff"]
)
def test_a_damaged_record_is_named(tmp_path, content):
    layout = TestnetPaths(tmp_path)
    layout.record.write_bytes(content)
    with pytest.raises(RunFailed, match="cannot be read"):
        read_record(layout)


def test_without_a_record_there_is_no_testnet(tmp_path):
    with pytest.raises(RunFailed, match="no testnet"):
        read_record(TestnetPaths(tmp_path))


def test_clients_are_spread_over_the_groups_and_the_coordinator_is_in_the_first():
    plan = scenario(clients=7, kubo_nodes=3, store="kubo")
    assert [group_of(plan, client) for client in range(8)] == [1, 1, 2, 3, 1, 2, 3, 1]


@pytest.mark.parametrize(
    ("plan", "count"), [(scenario(store="disk"), 1), (scenario(clients=3, kubo_nodes=9, store="kubo"), 3)]
)
def test_there_are_no_groups_without_clients_and_a_disk_store_is_one(plan, count):
    assert groups(plan) == count
