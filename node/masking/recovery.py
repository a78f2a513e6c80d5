"""Step recover, the coordinator's side: from released shares to the recovery record.

Record: magic (4) ‖ transcript (32) ‖ numbers of the groups that are left out (count 4, then 4 each) ‖ b of each
survivor (32 each) ‖ e of each dropout whose masks dangle (32 each), both ascending by position. The transcript fixes
the positions. Everybody can check every secret against the ledger.

Where survivors were expelled, as their own seeds prove that they lied about what they sent, the magic is another, and
behind it stand their positions (count 4, then 4 each) and b of each (32 each). They count as dropouts in all else.

A released share counts only if it is the one that its owner committed to, so that one liar spoils one share, and who
lied is known: a holder whose share is another, or an owner whose committed shares belong to no secret of its own.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.graph import MaskGraph, decode_positions, encode_positions
from fedgrove.node.masking.keys import SECRET_BYTES, is_mask_secret, is_self_seed
from fedgrove.node.masking.release import Release, parse_with
from fedgrove.node.masking.sealing import Kind, MaskingRefused, SealedShares, is_committed, parse_shares
from fedgrove.node.masking.shamir import recover_secret
from fedgrove.node.masking.survivors import Needed, needed_secrets, without_groups

_MAGIC = b"FGV2"
_EXPELLING = b"FGX1"
_HEADER_BYTES = len(_MAGIC) + 32


class TooFewShares(InvalidContent):
    """The releases do not recover a secret, or none may be recovered; the message names the client.

    Attributes
    ----------
    client : int or None
        Index on the ledger of the client whose secret is missing.
    owner_lied : bool
        More releases do not help: what the client itself shared is wrong, as its own commitments say, or this many of
        its holders that colluders alone cannot be.
    """

    def __init__(self, message: str, client: int | None = None, *, owner_lied: bool = False) -> None:
        super().__init__(message)
        self.client = client
        self.owner_lied = owner_lied


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
    left_out : tuple of int
        Numbers of the groups, ascending, that lack a secret or an update; where groups are summed apart.
    expelled : mapping of int to bytes
        b by position, ascending, of those on the list of survivors that are not summed, as they prove to have lied.
    """

    transcript: bytes
    self_seeds: Mapping[int, bytes] = field(repr=False)
    mask_secrets: Mapping[int, bytes] = field(repr=False)
    left_out: tuple[int, ...] = ()
    expelled: Mapping[int, bytes] = field(default_factory=dict[int, bytes], repr=False)

    def left(self, survivors: Collection[int]) -> tuple[int, ...]:
        """Those on a list of survivors that are not expelled, ascending."""
        return tuple(sorted(set(survivors) - self.expelled.keys()))

    def to_bytes(self) -> bytes:
        """The canonical blob."""
        head = _MAGIC
        if self.expelled:
            head = _EXPELLING + encode_positions(tuple(self.expelled)) + b"".join(self.expelled.values())
        secrets = (*self.self_seeds.values(), *self.mask_secrets.values())
        return head + self.transcript + encode_positions(self.left_out) + b"".join(secrets)

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

        Whether those that it expels lied is another question (``node.protocol.summed``).

        Raises InvalidContent: not of these lists, of the wrong length, or with a secret that is not the client's.
        """
        expelled, data = _read_expelled(data, graph, survivors)
        try:
            needed = needed_secrets(graph, sharers, set(survivors) - expelled.keys())
        except MaskingRefused as fault:
            raise InvalidContent(f"the round cannot be recovered: {fault}") from None
        if data[:_HEADER_BYTES] != _MAGIC + needed.transcript:
            raise InvalidContent("the recovery record belongs to another round or list of survivors")
        left_out, body = decode_positions(data[_HEADER_BYTES:], len(graph.groups), "the recovery record")
        if any(number >= len(graph.groups) for number in left_out):
            raise InvalidContent("the recovery record leaves out groups that do not exist")
        needed = without_groups(graph, needed, left_out)
        expected = SECRET_BYTES * (len(needed.seeds) + len(needed.keys))
        if len(body) != expected or not needed.seeds:
            raise InvalidContent(f"the recovery record has {len(body)} bytes of secrets instead of {expected}")
        secrets = [body[start : start + SECRET_BYTES] for start in range(0, expected, SECRET_BYTES)]
        record = cls(
            needed.transcript,
            dict(zip(needed.seeds, secrets, strict=False)),
            dict(zip(needed.keys, secrets[len(needed.seeds) :], strict=True)),
            left_out,
            expelled,
        )
        record.check(graph, seed_hashes)
        return record

    def check(self, graph: MaskGraph, seed_hashes: Mapping[int, bytes]) -> None:
        """Raise InvalidContent for the first secret that is not the one behind the ledger's hash or key."""
        for position, seed in (*self.self_seeds.items(), *self.expelled.items()):
            if not is_self_seed(seed, seed_hashes[position]):
                client = graph.client(position)
                raise InvalidContent(f"the self-mask seed of client {client} is not the one it committed to")
        for position, secret in self.mask_secrets.items():
            if not is_mask_secret(secret, graph.participants[position].mask_key):
                client = graph.client(position)
                raise InvalidContent(f"the mask secret of client {client} is not that of its mask key")


def most_record_bytes(graph: MaskGraph, expels: bool = False) -> int:
    """The longest recovery record of a round, in which somebody may be expelled or not."""
    expelled = 4 + (4 + SECRET_BYTES) * graph.n if expels else 0
    return _HEADER_BYTES + 4 + 4 * len(graph.groups) + SECRET_BYTES * graph.n + expelled


def _read_expelled(data: bytes, graph: MaskGraph, survivors: Collection[int]) -> tuple[dict[int, bytes], bytes]:
    """Whom a record expels, with their seeds, and the record as it is where nobody is."""
    if data[: len(_EXPELLING)] != _EXPELLING:
        return {}, data
    positions, rest = decode_positions(data[len(_EXPELLING) :], graph.n, "the recovery record")
    end = SECRET_BYTES * len(positions)
    if not positions or not set(positions) <= set(survivors) or len(rest) < end:
        raise InvalidContent("the recovery record expels nobody, or somebody who is on no list of survivors")
    seeds = [rest[start : start + SECRET_BYTES] for start in range(0, end, SECRET_BYTES)]
    return dict(zip(positions, seeds, strict=True)), _MAGIC + rest[end:]


@dataclass(frozen=True)
class Revealed:
    """All that was released and shared in a round, parsed: what does not parse counts as absent.

    Attributes
    ----------
    releases : mapping of int to Release
        By holder's position.
    sealed : mapping of int to SealedShares
        By owner's position.
    """

    releases: Mapping[int, Release]
    sealed: Mapping[int, SealedShares]

    @classmethod
    def parse(
        cls, graph: MaskGraph, needed: Needed, releases: Mapping[int, bytes], shares: Mapping[int, bytes]
    ) -> "Revealed":
        """Read the blobs of holders and of owners, by position."""
        sealed: dict[int, SealedShares] = {}
        for owner, data in shares.items():
            try:
                sealed[owner] = parse_shares(data, graph, owner)
            except InvalidContent:
                continue
        return cls(_parse_all(graph, needed, releases), sealed)

    def lying_holders(self, graph: MaskGraph) -> tuple[int, ...]:
        """Holders that released a share which is not the one that its owner committed to, ascending."""
        return tuple(
            sorted(holder for holder in self.releases if any(not fine for _, fine in self._checked(graph, holder)))
        )

    def shares_of(self, graph: MaskGraph, owner: int, kind: Kind) -> dict[int, int]:
        """The right shares of an owner, by the holder's place among its holders."""
        sealed = self.sealed.get(owner)
        if sealed is None:
            return {}
        found: dict[int, int] = {}
        for index, holder in enumerate(graph.holders[owner]):
            opening = self.releases[holder].shares.get(owner) if holder in self.releases else None
            if opening is not None and is_committed(graph, owner, holder, kind, opening, sealed):
                found[index] = opening.share
        return found

    def complaints(self, graph: MaskGraph, owner: int) -> int:
        """How many of its holders say that what an owner sealed for them is wrong."""
        return sum(holder in self.releases and owner in self.releases[holder].bad for holder in graph.holders[owner])

    def _checked(self, graph: MaskGraph, holder: int) -> Iterator[tuple[int, bool]]:
        for owner, opening in self.releases[holder].shares.items():
            sealed = self.sealed.get(owner)
            kinds = (is_committed(graph, owner, holder, kind, opening, sealed) for kind in Kind) if sealed else ()
            yield owner, sealed is None or any(kinds)


def recover(
    graph: MaskGraph,
    sharers: Collection[int],
    survivors: Collection[int],
    seed_hashes: Mapping[int, bytes],
    releases: Mapping[int, bytes],
    shares: Mapping[int, bytes],
    left_out: Collection[int] = (),
    expelled: Mapping[int, bytes] | None = None,
) -> RecoveryRecord:
    """Reconstruct every secret that the sum needs from the shares that their owners committed to.

    Parameters
    ----------
    seed_hashes : mapping of int to bytes
        Survivor's position to SHA-256 of its self-mask seed, from the ledger.
    releases, shares : mapping of int to bytes
        Blobs of holders and of owners, by position; those that do not parse count as absent.
    left_out : collection of int
        Groups that are not summed.
    expelled : mapping of int to bytes, optional
        b of survivors that are not summed, by position; the releases are for those who are left.

    Raises
    ------
    TooFewShares
        A secret cannot be recovered from these releases, or the lists forbid it.
    """
    out = dict(sorted((expelled or {}).items()))
    try:
        whole = needed_secrets(graph, sharers, set(survivors) - out.keys())
    except MaskingRefused as fault:
        raise TooFewShares(f"nothing may be recovered: {fault}") from None
    needed = without_groups(graph, whole, left_out)
    if not needed.seeds:
        raise TooFewShares("nothing is left to recover: every group is left out")
    released = Revealed.parse(graph, whole, releases, shares)
    seeds = {
        owner: _recover_one(
            graph, owner, Kind.SEED, released, lambda secret, owner=owner: is_self_seed(secret, seed_hashes[owner])
        )
        for owner in needed.seeds
    }
    secrets = {
        owner: _recover_one(
            graph,
            owner,
            Kind.KEY,
            released,
            lambda secret, key=graph.participants[owner].mask_key: is_mask_secret(secret, key),
        )
        for owner in needed.keys
    }
    return RecoveryRecord(needed.transcript, seeds, secrets, tuple(sorted(left_out)), out)


def unavailable_updates(
    graph: MaskGraph, sharers: Collection[int], survivors: Collection[int], releases: Mapping[int, bytes]
) -> tuple[int, ...]:
    """Survivors whose masked update a majority of their witnesses could not fetch, ascending.

    With such a survivor the round has failed; it is never unmasked by revealing e.
    """
    try:
        needed = needed_secrets(graph, sharers, survivors)
    except MaskingRefused:
        return ()
    parsed = _parse_all(graph, needed, releases)
    return tuple(
        owner
        for owner in needed.seeds
        if 2 * sum(_reports(parsed, holder, owner) for holder in graph.witnesses(owner)) > len(graph.witnesses(owner))
    )


def _parse_all(graph: MaskGraph, needed: Needed, releases: Mapping[int, bytes]) -> dict[int, Release]:
    parsed: dict[int, Release] = {}
    for holder, data in releases.items():
        try:
            parsed[holder] = parse_with(data, graph, holder, needed)
        except InvalidContent:
            continue  # a holder that writes nonsense is an absent holder; the audit names it
    return parsed


def _recover_one(
    graph: MaskGraph, owner: int, kind: Kind, released: Revealed, accept: Callable[[bytes], bool]
) -> bytes:
    shares = released.shares_of(graph, owner, kind)
    client, threshold, holders = graph.client(owner), graph.threshold, len(graph.holders[owner])
    if len(shares) < threshold:
        complaints = released.complaints(graph, owner)
        reason = f"{len(shares)} shares of client {client} were released, but {threshold} are needed"
        if _is_owners_fault(graph, complaints):
            reason = f"{complaints} of {holders} holders received no usable share from client {client}"
        raise TooFewShares(reason, client, owner_lied=_is_owners_fault(graph, complaints))
    limit = 1 << 8 * SECRET_BYTES
    secret = recover_secret(shares, threshold, lambda value: value < limit and accept(value.to_bytes(SECRET_BYTES)))
    if secret is None:
        raise TooFewShares(
            f"the shares that client {client} committed to do not yield its secret", client, owner_lied=True
        )
    return secret.to_bytes(SECRET_BYTES)


def _is_owners_fault(graph: MaskGraph, complaints: int) -> bool:
    """Whether enough holders complain about an owner that some are honest: as many colluders could open its update."""
    return complaints >= graph.threshold


def _reports(parsed: Mapping[int, Release], holder: int, owner: int) -> bool:
    return holder in parsed and owner in parsed[holder].unavailable
