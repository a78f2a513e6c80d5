"""Members that vouch for a small update and upload what no sum can hold: they are expelled, and the round closes."""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Failed
from fedgrove.node.masking.ring import WORD
from fedgrove.node.roles.client import Client
from tests.adversary import test_bounded_rounds as rounds
from tests.adversary.test_bounded_rounds import LIAR, Mask, played, summed


@pytest.fixture
def network():
    with embedded() as made:
        yield made


class Resized(Client):
    """Vouches for what it should have uploaded, and lists the digest of something that is no upload."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        disclosure = self.context.disclosure
        mask, voucher = disclosure.mask, disclosure.voucher

        def resized(*inputs):
            self.right = mask(*inputs)
            return self.changed(self.right)

        def vouched(current, client, block_hash):
            published = disclosure.published
            disclosure.published = lambda *inputs: self.right
            try:
                return voucher(current, client, block_hash)
            finally:
                disclosure.published = published

        disclosure.mask, disclosure.voucher = resized, vouched

    def changed(self, upload: bytes) -> bytes:
        raise NotImplementedError


class Short(Resized):
    """Of a word less."""

    def changed(self, upload):
        return upload[:-4]


class Odd(Resized):
    """Not of whole words."""

    def changed(self, upload):
        return upload[:7]


class Empty(Resized):
    """Of nothing."""

    def changed(self, upload):
        return b""


@pytest.mark.parametrize("liar", (Short, Odd, Empty), ids=lambda each: each.__name__)
def test_who_uploads_what_is_no_update_is_expelled_and_named(liar, network, tmp_path):
    assert_expelled(played(network, tmp_path, liar))


def test_a_monster_beyond_all_sums_is_expelled_and_named(network, tmp_path, monkeypatch):
    def monster(words: int) -> np.ndarray:
        vector = np.zeros(words, WORD)
        vector[:50] = 1 << 31
        return vector

    monkeypatch.setattr(rounds, "monster", monster)
    assert_expelled(played(network, tmp_path, Mask))


def assert_expelled(federation) -> None:
    assert not federation.of(Failed), federation.log
    record, inputs = summed(federation)
    assert [inputs.graph.client(position) for position in record.expelled] == [LIAR], federation.log
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    assert {remark.client for remark in verdict.remarks} == {LIAR}, verdict
