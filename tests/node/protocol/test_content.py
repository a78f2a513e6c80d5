"""A closing names a block that its coordinator could know: after the deployment, before the closing."""

import pytest

from fedgrove.chain.records import Closed, Position
from fedgrove.node.protocol.content import Metrics, head_fault

FIRST, CLOSING = 10, 30


def block_hash(number: int) -> bytes:
    return number.to_bytes(32, "big")


def fault(number: int, named: bytes) -> str:
    end = Closed(Position(CLOSING, bytes(32), 0), 1, bytes(32), bytes(32))
    return head_fault(Metrics(1, 0.5, 1, 0.5, head=(number, named.hex())), block_hash, FIRST, end)


@pytest.mark.parametrize("number", [FIRST, CLOSING - 1])
def test_a_block_within_the_history_is_right_if_its_hash_is(number):
    assert fault(number, block_hash(number)) == ""
    assert "does not have" in fault(number, block_hash(number + 1))


@pytest.mark.parametrize("number", [0, FIRST - 1, CLOSING, CLOSING + 1])
def test_a_block_outside_the_history_is_a_fault_although_its_hash_is_right(number):
    assert "does not lie between" in fault(number, block_hash(number))


def test_metrics_without_a_block_have_no_such_fault():
    end = Closed(Position(CLOSING, bytes(32), 0), 1, bytes(32), bytes(32))
    assert head_fault(Metrics(1, 0.5, 1, 0.5), block_hash, FIRST, end) == ""
