"""An embedded chain that is kept in a file: it goes on where it was, whatever moment it was killed at."""

import errno
import os

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.embedded import blocks_file
from fedgrove.chain.embedded.blocks_file import StateFile
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.networks import embedded

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_chain_goes_on_with_the_same_blocks_and_balances(tmp_path):
    account = Keys.generate().address
    with embedded(tmp_path / "chain") as network:
        network.fund(account, 2)
        network.mine(5)
        head, blocks = network.block_number(), network.headers(0, network.block_number())
    with embedded(tmp_path / "chain") as network:
        assert network.block_number() == head and network.headers(0, head) == blocks
        assert network.balance(account) == 2 * 10**18
        network.fund(account, 1)
        assert network.balance(account) == 3 * 10**18 and network.block_number() == head + 1
    assert (tmp_path / "chain").stat().st_mode & 0o077 == 0


def test_a_file_cut_anywhere_is_a_chain_of_fewer_blocks(tmp_path):
    path, sizes = tmp_path / "chain", []
    with embedded(path) as network:
        for _ in range(3):
            network.mine()
            sizes.append(path.stat().st_size)
        blocks = network.headers(0, 3)
    whole = path.read_bytes()
    for cut in (0, 7, 17, 30, sizes[0] - 1, sizes[0], sizes[0] + 3, sizes[1] + 9, sizes[2] - 1):
        path.write_bytes(whole[:cut])
        with embedded(path) as network:
            height = sum(size <= cut for size in sizes)
            assert network.block_number() == height
            assert height == 0 or network.headers(0, height) == blocks[: height + 1]
            network.mine()
        with embedded(path) as network:
            assert network.block_number() == height + 1


def test_a_block_that_finds_no_room_is_written_with_the_next(tmp_path, monkeypatch):
    def full(file, data):
        file.write(data[:3])
        raise FULL

    path = tmp_path / "chain"
    with embedded(path) as network:
        size = path.stat().st_size
        with monkeypatch.context() as broken, pytest.raises(OSError, match="No space"):
            broken.setattr(blocks_file, "_write", full)
            network.mine()
        assert path.stat().st_size == size
        network.mine()
    with embedded(path) as network:
        assert network.block_number() == 2


def test_what_was_deleted_stays_deleted(tmp_path):
    first = StateFile(tmp_path / "state", {b"a": b"1", b"b": b"2"})
    del first[b"a"]
    first.commit()
    first.close()
    assert StateFile(tmp_path / "state", {b"never": b"used"}).kv_store == {b"b": b"2"}


def test_another_file_is_left_alone(tmp_path):
    (tmp_path / "notes").write_text("not a chain")
    with pytest.raises(ChainError, match="is not the file of an embedded chain"):
        embedded(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "not a chain"
