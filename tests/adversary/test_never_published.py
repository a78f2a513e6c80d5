"""Members list what they never publish. A node that looks for it in a network does so until its timeout is over: if it
did that for one after the other, a few members would hold up everybody beyond the deadlines of a round.
"""

import threading

from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.store import NotFound
from fedgrove.node.protocol.content import fetch_available, unavailable

LIARS = 8
LISTED = {client: bytes([client]) * 32 for client in range(1, LIARS + 1)}


class Searching:
    """A store whose every search ends only when as many are under way as there are liars."""

    networked = True

    def __init__(self) -> None:
        self._all = threading.Barrier(LIARS)

    def fetch(self, digest: bytes, max_bytes: int) -> bytes:
        self._all.wait(timeout=20)
        raise NotFound(CID.from_digest(digest, RAW), "it was never published")

    def available(self, digest: bytes, max_bytes: int) -> bool:
        self._all.wait(timeout=20)
        return False


def test_what_many_list_is_looked_for_at_the_same_time():
    assert fetch_available(Searching(), LISTED, 1000) == {}


def test_updates_that_many_committed_to_are_looked_for_at_the_same_time():
    assert unavailable(Searching(), LISTED, dict.fromkeys(LISTED, 1000)) == sorted(LISTED)


def test_one_that_is_missing_keeps_nobody_out():
    class Store:
        networked = True

        def fetch(self, digest, max_bytes):
            if digest == LISTED[3]:
                raise NotFound(CID.from_digest(digest, RAW), "it was never published")
            return digest

    assert fetch_available(Store(), LISTED, 1000) == {client: LISTED[client] for client in LISTED if client != 3}
