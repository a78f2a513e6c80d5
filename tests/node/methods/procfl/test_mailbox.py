"""Messages sealed to a mailbox: for its reader, in its context, and whole."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.keys import public_key
from fedgrove.node.methods.procfl.mailbox import OVERHEAD, seal, unseal

OLD, NEW, OTHER = (bytes([number]) * 32 for number in (1, 2, 3))


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=40), st.integers(0, 2**32))
def test_the_reader_opens_what_was_sealed(plain, context, seed):
    sealed = seal(public_key(OLD), plain, context, random.Random(seed).randbytes)
    assert len(sealed) == len(plain) + OVERHEAD
    assert unseal([NEW, OLD], sealed, context) == plain


@pytest.mark.parametrize("place", [0, 31, 32, -17, -1])
def test_nothing_opens_that_was_changed(place):
    sealed = bytearray(seal(public_key(OLD), b"a model", b"round 3", random.Random(1).randbytes))
    sealed[place] ^= 1
    with pytest.raises(InvalidContent):
        unseal([OLD], bytes(sealed), b"round 3")


def test_others_and_other_contexts_open_nothing():
    sealed = seal(public_key(OLD), b"a model", b"round 3", random.Random(1).randbytes)
    for secrets, context in (([OTHER], b"round 3"), ([OLD], b"round 4"), ([], b"round 3")):
        with pytest.raises(InvalidContent):
            unseal(secrets, sealed, context)


@pytest.mark.parametrize("sealed", [b"", bytes(32), bytes(48), bytes(200)])
def test_what_was_never_sealed_does_not_open(sealed):
    with pytest.raises(InvalidContent):
        unseal([OLD], sealed, b"")


def test_nothing_is_sealed_to_a_key_of_low_order():
    sealed = seal(bytes(32), b"secret", b"", random.Random(1).randbytes)
    assert len(sealed) == OVERHEAD + 6 and b"secret" not in sealed
