"""A closing names a block that its author could know: from the end of the commits on, before the closing."""

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.protocol.content import Metrics, head_fault

FIRST, LAST = 10, 29
RECORD = "0" * 64


def block_hash(number: int) -> bytes:
    return number.to_bytes(32, "big")


def fault(number: int, named: bytes) -> str:
    return head_fault(Metrics(1, RECORD, (number, named.hex())), block_hash, FIRST, LAST)


@pytest.mark.parametrize("number", [FIRST, LAST])
def test_a_block_between_the_commits_and_the_closing_is_right_if_its_hash_is(number):
    assert fault(number, block_hash(number)) == ""
    assert "does not have" in fault(number, block_hash(number + 1))


@pytest.mark.parametrize("number", [0, FIRST - 1, LAST + 1])
def test_another_block_is_a_fault_although_its_hash_is_right(number):
    assert "does not lie between" in fault(number, block_hash(number))


@pytest.mark.parametrize("missing", ["head", "recovery"])
def test_metrics_name_a_block_and_the_recovery_record(missing):
    whole = Metrics(1, RECORD, (FIRST, RECORD)).to_bytes()
    assert Metrics.from_bytes(whole).recovery == RECORD
    with pytest.raises(InvalidContent):
        Metrics.from_bytes(whole.replace(b'"' + missing.encode(), b'"other'))
