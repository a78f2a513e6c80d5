"""X25519 and HKDF against the vectors of their RFCs; the secrets of a round, and the seeds of its masks."""

import os

import pytest

from fedgrove.node.masking.keys import (
    RoundSecrets,
    agree,
    clamp,
    derive,
    hash_seed,
    is_low_order,
    is_mask_secret,
    is_self_seed,
    pair_mask_key,
    public_key,
    self_mask_key,
    shared_mask_key,
)
from fedgrove.node.masking.x_only import ORDER, point
from fedgrove.node.masking.x_only import agree as agree_on_mask
from fedgrove.node.masking.x_only import canonical as as_mask_secret
from tests.node.masking.rounds import CONTEXT, seeded

# RFC 7748, section 6.1
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")

PRIME = 2**255 - 19

ONE, OTHER = as_mask_secret(ALICE), as_mask_secret(BOB)
ONE_PUBLIC, OTHER_PUBLIC = point(ONE)[1:], point(OTHER)[1:]


def test_agreement_gives_the_vectors_of_rfc_7748():
    assert public_key(ALICE) == ALICE_PUBLIC and public_key(BOB) == BOB_PUBLIC
    assert agree(ALICE, BOB_PUBLIC) == agree(BOB, ALICE_PUBLIC) == SHARED


def test_clamping_changes_no_public_key_and_is_idempotent():
    secret = os.urandom(32)
    assert public_key(clamp(secret)) == public_key(secret)
    assert clamp(clamp(secret)) == clamp(secret)


@pytest.mark.parametrize(
    ("secret", "salt", "info", "length", "expected"),
    [  # RFC 5869, appendix A.1 and A.3
        (
            b"\x0b" * 22,
            bytes(range(13)),
            bytes(range(0xF0, 0xFA)),
            42,
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            b"\x0b" * 22,
            b"",
            b"",
            42,
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
)
def test_derivation_gives_the_vectors_of_rfc_5869(secret, salt, info, length, expected):
    assert derive(secret, info, salt, length).hex() == expected


@pytest.mark.parametrize("u", [0, 1, PRIME - 1, PRIME, PRIME + 1, 2**255, 2**255 + 1])
def test_a_key_of_low_order_is_known_as_such_and_agrees_with_nobody(u):
    public = u.to_bytes(32, "little")
    assert is_low_order(public)
    with pytest.raises(ValueError):
        agree(ALICE, public)


@pytest.mark.parametrize(
    "u",
    [
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    ],
)
def test_keys_of_order_eight_agree_with_nobody(u):
    test_a_key_of_low_order_is_known_as_such_and_agrees_with_nobody(u)


def test_honest_keys_are_not_of_low_order():
    assert not any(is_low_order(public_key(os.urandom(32))) for _ in range(20))


def test_both_sides_of_a_pair_get_the_same_mask_key():
    key = pair_mask_key(CONTEXT, ONE, OTHER_PUBLIC, 3, 9)
    assert key == pair_mask_key(CONTEXT, OTHER, ONE_PUBLIC, 9, 3)
    assert key == shared_mask_key(CONTEXT, agree_on_mask(ONE, OTHER_PUBLIC), 9, 3)


def test_another_round_ledger_chain_pair_or_purpose_gives_another_mask_key():
    contexts = [
        CONTEXT,
        type(CONTEXT)(CONTEXT.chain_id + 1, CONTEXT.ledger, CONTEXT.round),
        type(CONTEXT)(CONTEXT.chain_id, "0x" + "00" * 20, CONTEXT.round),
        type(CONTEXT)(CONTEXT.chain_id, CONTEXT.ledger, CONTEXT.round + 1),
    ]
    keys = {pair_mask_key(context, ONE, OTHER_PUBLIC, 3, 9) for context in contexts}
    keys |= {pair_mask_key(CONTEXT, ONE, OTHER_PUBLIC, 3, 10), pair_mask_key(CONTEXT, ONE, OTHER_PUBLIC, 4, 9)}
    keys |= {self_mask_key(context, SHARED, 3) for context in contexts} | {self_mask_key(CONTEXT, SHARED, 9)}
    assert len(keys) == 11


def test_secrets_survive_their_bytes():
    secrets = RoundSecrets.generate(seeded(1))
    again = RoundSecrets.from_bytes(secrets.to_bytes())
    assert again == secrets and again.mask_key == secrets.mask_key and again.seal_key == secrets.seal_key


def test_secrets_are_all_different_and_never_shown():
    secrets = RoundSecrets.generate(os.urandom)
    values = (secrets.mask_secret, secrets.seal_secret, secrets.self_seed)
    assert len(set(values)) == 3
    assert repr(secrets) == "RoundSecrets()"


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b"X" + d[1:], lambda d: b""])
def test_damaged_secrets_are_refused_without_showing_them(change):
    data = RoundSecrets.generate(seeded(1)).to_bytes()
    with pytest.raises(ValueError, match="not the secrets of a round"):
        RoundSecrets.from_bytes(change(data))


def test_a_sealing_secret_that_is_not_clamped_is_refused():
    data = bytearray(RoundSecrets.generate(seeded(1)).to_bytes())
    data[36] |= 1
    with pytest.raises(ValueError, match="clamped"):
        RoundSecrets.from_bytes(bytes(data))


@pytest.mark.parametrize("change", [lambda e: ORDER - e, lambda e: 0, lambda e: ORDER, lambda e: 2**256 - 1])
def test_a_mask_secret_that_is_not_canonical_is_refused(change):
    secrets = RoundSecrets.generate(seeded(1))
    data = secrets.to_bytes()
    changed = change(int.from_bytes(secrets.mask_secret)).to_bytes(32)
    with pytest.raises(ValueError, match=r"not the canonical|not a secret"):
        RoundSecrets.from_bytes(data[:4] + changed + data[36:])


def test_reconstructed_secrets_are_checked():
    secrets = RoundSecrets.generate(seeded(1))
    assert is_self_seed(secrets.self_seed, secrets.seed_hash) and is_mask_secret(secrets.mask_secret, secrets.mask_key)
    assert not is_self_seed(secrets.mask_secret, secrets.seed_hash)
    assert not is_mask_secret(secrets.seal_secret, secrets.mask_key)
    negated = (ORDER - int.from_bytes(secrets.mask_secret)).to_bytes(32)
    assert point(negated)[1:] == secrets.mask_key and not is_mask_secret(negated, secrets.mask_key)
    wrong = (b"", bytes(32), secrets.mask_secret[:31], secrets.mask_secret + b"\0", b"\xff" * 32)
    assert not any(is_mask_secret(each, secrets.mask_key) for each in wrong)
    assert secrets.seed_hash == hash_seed(secrets.self_seed)
