"""Step recover, the coordinator's side: from released shares to the recovery record (spec 02, step 5).

Record: magic (4) ‖ transcript (32) ‖ b of each survivor (32 each) ‖ e of each dropout whose masks dangle (32 each),
both ascending by position. The transcript fixes the positions. Everybody can check every secret against the ledger.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from node.masking.graph import MaskGraph
from node.masking.keys import SECRET_BYTES, is_mask_secret, is_self_seed
from node.masking.release import InvalidRelease, Release, parse_with
from node.masking.shamir import recover_secret
from node.masking.survivors import Needed, UnsafeSurvivors, needed_secrets

_MAGIC = b"FGV1"
_HEADER_BYTES = len(_MAGIC) + 32


class TooFewShares(ValueError):
    """The releases do not recover a secret, or none may be recovered; the message names the client.

    Attributes
    ----------
    client : int or None
        Index on the ledger of the client whose secret is missing.
    """

    def __init__(self, message: str, client: int | None = None) -> None:
        super().__init__(message)
        self.client = client


class InvalidRecovery(ValueError):
    """A recovery record is wrong; the message names the client.

    Attributes
    ----------
    client : int or None
        Index on the ledger of the client whose secret is wrong.
    """

    def __init__(self, message: str, client: int | None = None) -> None:
        super().__init__(message)
        self.client = client


@dataclass(frozen=True)
class RecoveryRecord:
    """The secrets that unmask the sum; public once the round is recovered.

    Attributes
    ----------
    transcript : bytes
        Of the graph and the lists the record is for.
    self_seeds : mapping of int to bytes
        b by survivor's position, ascending.
    mask_secrets : mapping of int to bytes
        e by dropout's position, ascending.
    """

    transcript: bytes
    self_seeds: Mapping[int, bytes]
    mask_secrets: Mapping[int, bytes]

    def to_bytes(self) -> bytes:
        """The canonical blob."""
        return _MAGIC + self.transcript + b"".join(self.self_seeds.values()) + b"".join(self.mask_secrets.values())

    @classmethod
    def parse(
        cls,
        data: bytes,
        graph: MaskGraph,
        sharers: Collection[int],
        survivors: Collection[int],
        seed_hashes: Mapping[int, bytes],
    ) -> "RecoveryRecord":
        """Read a record and check every secret in it against the ledger.

        Raises
        ------
        InvalidRecovery
            Not of these lists, of the wrong length, or with a secret that is not the client's.
        """
        try:
            needed = needed_secrets(graph, sharers, survivors)
        except UnsafeSurvivors as fault:
            raise InvalidRecovery(f"the round cannot be recovered: {fault}") from None
        expected = _HEADER_BYTES + SECRET_BYTES * (len(needed.seeds) + len(needed.keys))
        if len(data) != expected:
            raise InvalidRecovery(f"the recovery record takes {len(data)} bytes, {expected} were expected")
        if data[:_HEADER_BYTES] != _MAGIC + needed.transcript:
            raise InvalidRecovery("the recovery record belongs to another round or list of survivors")
        starts = range(_HEADER_BYTES, expected, SECRET_BYTES)
        secrets = [data[start : start + SECRET_BYTES] for start in starts]
        record = cls(
            needed.transcript,
            dict(zip(needed.seeds, secrets, strict=False)),
            dict(zip(needed.keys, secrets[len(needed.seeds) :], strict=True)),
        )
        record.check(graph, seed_hashes)
        return record

    def check(self, graph: MaskGraph, seed_hashes: Mapping[int, bytes]) -> None:
        """Raise InvalidRecovery for the first secret that is not the one behind the ledger's hash or key."""
        for position, seed in self.self_seeds.items():
            if not is_self_seed(seed, seed_hashes[position]):
                client = graph.client(position)
                raise InvalidRecovery(f"the self-mask seed of client {client} is not the one it committed to", client)
        for position, secret in self.mask_secrets.items():
            if not is_mask_secret(secret, graph.participants[position].mask_key):
                client = graph.client(position)
                raise InvalidRecovery(f"the mask secret of client {client} is not that of its mask key", client)


def recover(
    graph: MaskGraph,
    sharers: Collection[int],
    survivors: Collection[int],
    seed_hashes: Mapping[int, bytes],
    releases: Mapping[int, bytes],
) -> RecoveryRecord:
    """Reconstruct every secret that the sum needs; wrong shares are corrected as far as can be.

    Parameters
    ----------
    seed_hashes : mapping of int to bytes
        Survivor's position to SHA-256 of its self-mask seed, from the ledger.
    releases : mapping of int to bytes
        Holder's position to its blob; blobs that do not parse count as absent.

    Raises
    ------
    TooFewShares
        A secret cannot be recovered from these releases, or the lists forbid it.
    """
    try:
        needed = needed_secrets(graph, sharers, survivors)
    except UnsafeSurvivors as fault:
        raise TooFewShares(f"nothing may be recovered: {fault}") from None
    parsed = _parse_all(graph, needed, releases)
    seeds = {
        owner: _recover_one(graph, owner, parsed, lambda secret, owner=owner: is_self_seed(secret, seed_hashes[owner]))
        for owner in needed.seeds
    }
    secrets = {
        owner: _recover_one(
            graph, owner, parsed, lambda secret, key=graph.participants[owner].mask_key: is_mask_secret(secret, key)
        )
        for owner in needed.keys
    }
    return RecoveryRecord(needed.transcript, seeds, secrets)


def unavailable_updates(
    graph: MaskGraph, sharers: Collection[int], survivors: Collection[int], releases: Mapping[int, bytes]
) -> tuple[int, ...]:
    """Survivors whose masked update a majority of their holders could not fetch, ascending.

    With such a survivor the round has failed; it is never unmasked by revealing e (spec 02, step 5).
    """
    try:
        needed = needed_secrets(graph, sharers, survivors)
    except UnsafeSurvivors:
        return ()
    parsed = _parse_all(graph, needed, releases)
    return tuple(
        owner
        for owner in needed.seeds
        if 2 * sum(_reports(parsed, holder, owner) for holder in graph.holders[owner]) > len(graph.holders[owner])
    )


def _parse_all(graph: MaskGraph, needed: Needed, releases: Mapping[int, bytes]) -> dict[int, Release]:
    parsed = {}
    for holder, data in releases.items():
        try:
            parsed[holder] = parse_with(data, graph, holder, needed)
        except InvalidRelease:
            continue  # a holder that writes nonsense is an absent holder; the audit names it
    return parsed


def _recover_one(graph: MaskGraph, owner: int, parsed: Mapping[int, Release], accept: Callable[[bytes], bool]) -> bytes:
    shares = {
        index: parsed[holder].shares[owner]
        for index, holder in enumerate(graph.holders[owner])
        if holder in parsed and owner in parsed[holder].shares
    }
    client, threshold = graph.client(owner), graph.thresholds[owner]
    if len(shares) < threshold:
        raise TooFewShares(f"{len(shares)} shares of client {client} were released, {threshold} are needed", client)
    limit = 1 << 8 * SECRET_BYTES
    secret = recover_secret(shares, threshold, lambda value: value < limit and accept(value.to_bytes(SECRET_BYTES)))
    if secret is None:
        raise TooFewShares(f"too many of the {len(shares)} shares of client {client} are wrong", client)
    return secret.to_bytes(SECRET_BYTES)


def _reports(parsed: Mapping[int, Release], holder: int, owner: int) -> bool:
    return holder in parsed and owner in parsed[holder].unavailable
