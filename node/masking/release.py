"""Step recover, a holder's side: one kind of share per client, bound to one list of survivors.

Blob: magic (4) ‖ transcript (32) ‖ position of the holder (4) ‖ unavailable positions (count 4, then 4 each) ‖
positions whose shares were bad (likewise) ‖ number of shares (4) ‖ for each, ascending by owner: owner (4), kind (1),
share (33), its salt (16). Keep the blob before it is published, and publish no other for the round: the transcript in
it fixes the lists it was made for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.coverage import thinnest
from fedgrove.node.masking.graph import MaskGraph, decode_positions, encode_positions
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.sealing import (
    OPENING_BYTES,
    Kind,
    MaskingRefused,
    Opening,
    SharePair,
    check_own,
    open_shares,
    parse_shares,
)
from fedgrove.node.masking.survivors import Needed, needed_secrets

_MAGIC = b"FGR2"
_ENTRY_BYTES = 4 + 1 + OPENING_BYTES
_HEADER_BYTES = len(_MAGIC) + 32 + 4


@dataclass(frozen=True)
class HeldShares:
    """What one holder found in the blobs of step share.

    Attributes
    ----------
    holder : int
        Position.
    shares : mapping of int to SharePair
        By owner's position; those that could be opened.
    bad : mapping of int to str
        Owner's position to what is wrong with its blob.
    """

    holder: int
    shares: Mapping[int, SharePair] = field(repr=False)
    bad: Mapping[int, str]


@dataclass(frozen=True)
class Release:
    """A parsed blob: what a holder let go of.

    Attributes
    ----------
    holder : int
        Position.
    unavailable : tuple of int
        Survivors whose masked update the holder could not fetch.
    bad : tuple of int
        Owners whose shares for this holder could not be opened, or are not what they committed to, as it says.
    shares : mapping of int to Opening
        By owner's position; the kind follows from the lists.
    """

    holder: int
    unavailable: tuple[int, ...]
    bad: tuple[int, ...]
    shares: Mapping[int, Opening] = field(repr=False)


def most_release_bytes(graph: MaskGraph, position: int) -> int:
    """The longest blob that this holder may release."""
    return _HEADER_BYTES + 3 * 4 + (4 + 4 + _ENTRY_BYTES) * len(graph.held_by[position])


def held_shares(graph: MaskGraph, position: int, secrets: RoundSecrets, blobs: Mapping[int, bytes]) -> HeldShares:
    """Open what is addressed to this holder.

    Parameters
    ----------
    blobs : mapping of int to bytes
        Owner's position to its blob, as far as they could be fetched: shares that cannot be had are as bad as wrong
        ones. Owners this holder holds nothing of are ignored.
    """
    check_own(graph, position, secrets)
    shares: dict[int, SharePair] = {}
    bad: dict[int, str] = {}
    for owner in graph.held_by[position]:
        if owner not in blobs:
            bad[owner] = f"the shares of client {graph.client(owner)} are unavailable"
        else:
            try:
                shares[owner] = open_shares(graph, owner, position, secrets, parse_shares(blobs[owner], graph, owner))
            except InvalidContent as fault:
                bad[owner] = str(fault)
    return HeldShares(position, shares, bad)


def release(
    graph: MaskGraph,
    position: int,
    held: HeldShares,
    sharers: Collection[int],
    survivors: Collection[int],
    unavailable: Collection[int] = (),
    *,
    committed: bool,
    kappa: float = 1.0,
    tensors: int = 1,
) -> bytes:
    """The shares that this holder lets go of: of b for survivors, of e for dropouts.

    Parameters
    ----------
    sharers, survivors : collection of int
        The ledger's share list and commit list, at a confirmed block.
    unavailable : collection of int
        Survivors of whom it holds shares, and whose masked update it cannot fetch. Those that are to be summed are
        reported; their e is never released.
    committed : bool
        Whether this holder knows that it committed itself.
    kappa, tensors : float, int
        With κ < 1: the fraction that a pair masks and the number of tensors of the model.

    Raises
    ------
    MaskingRefused
        The lists would expose somebody, or contradict what this holder knows of itself.
    """
    if committed != (position in survivors):
        listed = "listed" if position in survivors else "not listed"
        raise MaskingRefused(f"client {graph.client(position)} is wrongly {listed} as survivor: do not trust the list")
    needed = needed_secrets(graph, sharers, survivors)
    if not set(unavailable) <= set(survivors):
        raise MaskingRefused("an update that was never committed is reported unavailable")
    _check_cover(graph, needed, kappa, tensors)
    kinds = _kinds(graph, position, needed)
    entries = [
        owner.to_bytes(4) + kind.to_bytes(1) + held.shares[owner][kind].to_bytes()
        for owner, kind in kinds.items()
        if owner in held.shares
    ]
    own = frozenset(graph.held_by[position])
    reported = sorted(own.intersection(unavailable, needed.seeds))
    bad = sorted(set(held.bad) & set(kinds))
    head = _header(needed, position) + encode_positions(reported) + encode_positions(bad)
    return head + len(entries).to_bytes(4) + b"".join(entries)


def parse_release(
    data: bytes, graph: MaskGraph, position: int, sharers: Collection[int], survivors: Collection[int]
) -> Release:
    """Read what a holder released.

    Raises
    ------
    InvalidContent
        Not of this round, holder and lists; an owner it holds nothing of; the wrong kind of share; not canonical.
    """
    try:
        needed = needed_secrets(graph, sharers, survivors)
    except MaskingRefused as fault:
        raise InvalidContent(f"nothing may be released: {fault}") from None
    return parse_with(data, graph, position, needed)


def parse_with(data: bytes, graph: MaskGraph, position: int, needed: Needed) -> Release:
    """As ``parse_release``, for lists that are known to be safe."""
    who = f"client {graph.client(position)}"
    header = _header(needed, position)
    if data[: len(header)] != header:
        raise InvalidContent(f"the release of {who} belongs to another round, client or list of survivors")
    kinds = _kinds(graph, position, needed)
    unavailable, rest = decode_positions(data[len(header) :], len(kinds), f"the release of {who}")
    bad, rest = decode_positions(rest, len(kinds), f"the release of {who}")
    if not set(unavailable) <= set(needed.seeds) & set(kinds) or not set(bad) <= set(kinds):
        raise InvalidContent(f"{who} reports on clients whose shares it does not hold, or that never committed")
    if len(rest) < 4 or len(rest) != 4 + _ENTRY_BYTES * int.from_bytes(rest[:4]):
        raise InvalidContent(f"the release of {who} has the wrong length")
    shares: dict[int, Opening] = {}
    for start in range(4, len(rest), _ENTRY_BYTES):
        owner, kind = int.from_bytes(rest[start : start + 4]), rest[start + 4]
        if kinds.get(owner) != kind or owner in bad or (shares and owner <= max(shares)):
            raise InvalidContent(f"{who} released a share that it should not have (position {owner}, kind {kind})")
        try:
            shares[owner] = Opening.from_bytes(rest[start + 5 : start + _ENTRY_BYTES])
        except InvalidContent as fault:
            raise InvalidContent(f"{who} released an invalid share (position {owner}): {fault}") from None
    return Release(position, unavailable, bad, shares)


def _check_cover(graph: MaskGraph, needed: Needed, kappa: float, tensors: int) -> None:
    """With κ < 1, partners that dropped out may leave a survivor's tensor bare."""
    if kappa == 1:
        return
    for position in needed.seeds:
        pairs, tensor = thinnest(graph, position, needed.seeds, tensors, kappa)
        if not pairs:
            raise MaskingRefused(f"no surviving partner of client {graph.client(position)} masks its tensor {tensor}")


def _kinds(graph: MaskGraph, holder: int, needed: Needed) -> dict[int, Kind]:
    """Owner to the one kind of share this holder may release of it, ascending by owner."""
    seeds, keys = frozenset(needed.seeds), frozenset(needed.keys)
    owners = (owner for owner in graph.held_by[holder] if owner in seeds or owner in keys)
    return {owner: Kind.SEED if owner in seeds else Kind.KEY for owner in owners}


def _header(needed: Needed, position: int) -> bytes:
    return _MAGIC + needed.transcript + position.to_bytes(4)
