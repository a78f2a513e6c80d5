"""Gas of each kind of transaction of a federation, as measured on an EVM under Prague rules.

Whole transactions, as their senders pay for them: intrinsic gas and calldata included. Tests compare these figures with
the contracts' own snapshot and with a federation on the embedded chain.
"""

from fedgrove.chain.face.ledger import MAX_CHUNK, MAX_SEAL

DEPLOY_REGISTRY, DEPLOY_LEDGER = 1_520_700, 5_387_200
APPROVE = 47_850
REGISTER_OPEN, REGISTER_APPROVED = 97_600, 80_500
FIRST_REGISTRATION = 17_100
"""What the very first registration costs more than the others."""

OPEN, FIRST_OPENING = 90_170, 14_650
FIX_SEED = 55_980
DRAW, FIRST_DRAW = 66_500, 39_250
"""A proof has two roots on average; 1,130 for each more or less. A member's first draw fills fresh storage."""

SHARE, COMMIT, RELEASE = 34_460, 35_680, 32_290
LAST = 1_200
"""What the last draw, share or commitment of a phase costs more, as it ends the phase."""

CLOSE = 45_900
SEAL, SEAL_PER_CLIENT, SEAL_RANDAO = 65_250, 1_302, 12_270
CHUNK, CHUNK_PER_CLIENT = 170_000, 5_432


def seal_gas(drawn: int, randao: bool) -> int:
    """Gas of sealing the order of this many clients, in chunks where they are too many for one transaction."""
    if drawn <= MAX_SEAL:
        return SEAL + SEAL_PER_CLIENT * drawn + SEAL_RANDAO * randao
    chunks = -(-drawn // MAX_CHUNK)
    return chunks * (CHUNK + SEAL_RANDAO * randao) + CHUNK_PER_CLIENT * drawn
