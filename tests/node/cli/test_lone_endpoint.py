"""Whether a member is told that one endpoint alone says which chain is the right one."""

import pytest

from fedgrove.node.cli.reach import lone_endpoint
from fedgrove.node.protocol.network_settings import NetworkSettings

OWN, ELSEWHERE, OTHER = "http://127.0.0.1:8545", "https://rpc.example/key-1", "https://node.example"


@pytest.mark.parametrize(
    ("rpc", "quorum", "told"),
    [
        ((ELSEWHERE,), 0, True),
        ((ELSEWHERE, OTHER), 0, False),
        ((ELSEWHERE, OTHER), 1, True),
        ((ELSEWHERE, "https://rpc.example/key-2"), 0, True),
        ((OWN,), 0, False),
        (("http://localhost:8545",), 0, False),
        ((OWN, ELSEWHERE), 0, False),
        ((OWN, ELSEWHERE), 1, True),
    ],
)
def test_it_is_told_where_one_alone_may_be_asked(rpc, quorum, told):
    sentence = lone_endpoint(NetworkSettings(rpc=rpc, rpc_quorum=quorum))
    assert bool(sentence) == told
    assert "key-1" not in sentence
    assert not told or "https://rpc.example" in sentence
