"""A testnet's directory belongs to one command at a time; the next one waits."""

import os
import threading

from fedgrove.node.devnet.testnet.control import delete
from fedgrove.node.devnet.testnet.layout import TestnetPaths
from fedgrove.node.devnet.testnet.lock import claim


def test_a_directory_is_removed_when_whoever_works_on_it_is_done(tmp_path):
    layout = TestnetPaths(tmp_path / "testnet")
    lock = claim(layout)
    threading.Timer(0.3, os.close, [lock]).start()
    delete(layout)
    assert not layout.root.exists()
