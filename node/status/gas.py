"""Gas of each kind of transaction of a federation, as measured on an EVM under Prague rules.

Whole transactions, as their senders pay for them: intrinsic gas and calldata included. Tests compare these figures with
the contracts' own snapshot and with a federation on the embedded chain.
"""

from fedgrove.chain.face.ledger import MAX_CHUNK, MAX_SEAL

DEPLOY_REGISTRY, DEPLOY_LEDGER = 1_608_500, 5_284_400
APPROVE, APPROVE_CALL = 26_790, 21_450
"""For each account, which the registry's constructor takes as well, and for each call of ``approve``."""
REGISTER_OPEN, REGISTER_APPROVED = 97_600, 81_000
FIRST_REGISTRATION = 17_100
"""What the very first registration costs more than the others."""

OPEN, FIRST_OPENING = 96_000, 12_390
FIX_SEED = 56_400
DRAW, FIRST_DRAW = 68_540, 39_320
"""A proof has two roots on average; 1,130 for each more or less. A member's first draw fills fresh storage."""

SHARE, COMMIT, RELEASE = 34_560, 35_840, 36_050
LAST = 1_200
"""What the last draw, share or commitment of a phase costs more, as it ends the phase."""
VOUCH, FIRST_VOUCH, AFFIRM, RELEASE_BOUNDED = 40_800, 40_200, 39_930, 40_990
"""Where updates have bounds, and what the first voucher of a round costs more: it stores the hash of the sketch."""

CLOSE, FIRST_CLOSING = 49_280, 34_200
JUDGE, FIRST_JUDGEMENT = 63_080, 17_020
"""Of a closing, and what the first judgement of a round costs more."""
SEAL, SEAL_PER_CLIENT, SEAL_RANDAO = 69_890, 1_328, 12_270
SEAL_OF_ALL = 17_750
"""What sealing one of the first rounds of all members costs more: as many as show who is idle fill fresh storage."""
CHUNK, CHUNK_PER_CLIENT = 170_000, 5_432


def seal_gas(drawn: int, randao: bool) -> int:
    """Gas of sealing the order of this many clients, in chunks where they are too many for one transaction."""
    if drawn <= MAX_SEAL:
        return SEAL + SEAL_PER_CLIENT * drawn + SEAL_RANDAO * randao
    chunks = -(-drawn // MAX_CHUNK)
    return chunks * (CHUNK + SEAL_RANDAO * randao) + CHUNK_PER_CLIENT * drawn
