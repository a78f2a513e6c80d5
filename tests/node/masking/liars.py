"""Holders and owners that lie about shares, for tests of what a round makes of them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from random import Random

import pytest

from fedgrove.node.masking import sealing
from fedgrove.node.masking.graph import MaskGraph, encode_positions
from fedgrove.node.masking.recovery import Revealed
from fedgrove.node.masking.release import Release, parse_release
from fedgrove.node.masking.sealing import ENTRY_BYTES, SEALED_BYTES, Kind, Opening
from fedgrove.node.masking.shamir import PRIME
from fedgrove.node.masking.survivors import needed_secrets
from tests.node.masking.rounds import Round

HEADER = 40

Lie = Callable[[Opening], Opening]
Deal = Callable[[tuple[int, ...]], tuple[int, ...]]

# --- what holders release -------------------------------------------------------------------------------------------


def another_share(opening: Opening) -> Opening:
    """Another element of the field under the same salt."""
    return Opening((opening.share + 1) % PRIME, opening.salt)


def another_salt(opening: Opening) -> Opening:
    """The right share, with a salt that its owner did not commit to it with."""
    return Opening(opening.share, bytes(byte ^ 1 for byte in opening.salt))


@dataclass(frozen=True)
class Lists:
    """The round and the lists that a release is for."""

    graph: MaskGraph
    sharers: Collection[int]
    survivors: Collection[int]

    def lying(self, blob: bytes, holder: int, lie: Lie = another_share, owners: Collection[int] | None = None) -> bytes:
        """A holder's release with a lie in place of the shares of some owners (None: of all)."""
        parsed = parse_release(blob, self.graph, holder, self.sharers, self.survivors)
        lied = {owner for owner in parsed.shares if owners is None or owner in owners}
        shares = {owner: lie(share) if owner in lied else share for owner, share in parsed.shares.items()}
        return self._written(blob, replace(parsed, shares=shares))

    def complaining(self, blob: bytes, holder: int, owners: Collection[int]) -> bytes:
        """A holder's release that calls the shares of some owners bad, and keeps them."""
        parsed = parse_release(blob, self.graph, holder, self.sharers, self.survivors)
        bad = tuple(sorted({*parsed.bad, *(set(owners) & set(parsed.shares))}))
        shares = {owner: share for owner, share in parsed.shares.items() if owner not in owners}
        return self._written(blob, replace(parsed, bad=bad, shares=shares))

    def revealed(self, releases: Mapping[int, bytes], shares: Mapping[int, bytes]) -> Revealed:
        """Everything of the round, parsed."""
        return Revealed.parse(self.graph, needed_secrets(self.graph, self.sharers, self.survivors), releases, shares)

    def _written(self, blob: bytes, parsed: Release) -> bytes:
        lists = encode_positions(parsed.unavailable) + encode_positions(parsed.bad)
        entries = (
            owner.to_bytes(4) + (Kind.SEED if owner in self.survivors else Kind.KEY).to_bytes(1) + share.to_bytes()
            for owner, share in parsed.shares.items()
        )
        return blob[:HEADER] + lists + len(parsed.shares).to_bytes(4) + b"".join(entries)


# --- what owners deal -----------------------------------------------------------------------------------------------


def dealt(work: Round, position: int, deal: Deal) -> bytes:
    """The blob of an owner that seals other shares than those of its secrets, and commits to them."""
    right = sealing.split
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "split", lambda *inputs: deal(right(*inputs)))
        return work.blob(position)


def random_shares(shares: tuple[int, ...]) -> tuple[int, ...]:
    """Elements of the field that lie on no polynomial of the degree."""
    random = Random(1)
    return tuple(random.randrange(PRIME) for _ in shares)


def of_another_secret(shares: tuple[int, ...]) -> tuple[int, ...]:
    """Shares of the secret plus one: consistent, and of no use."""
    return tuple((share + 1) % PRIME for share in shares)


def few_right(count: int) -> Deal:
    """The first shares right, random ones for the others."""
    return lambda shares: shares[:count] + random_shares(shares[count:])


def with_garbage(blob: bytes, places: Collection[int] | None = None) -> bytes:
    """An owner's blob with random bytes for messages, at some places among its holders (None: at all)."""
    data, random = bytearray(blob), Random(0)
    for place in range((len(blob) - HEADER) // ENTRY_BYTES):
        if places is None or place in places:
            start = HEADER + ENTRY_BYTES * place
            data[start : start + SEALED_BYTES] = random.randbytes(SEALED_BYTES)
    return bytes(data)
