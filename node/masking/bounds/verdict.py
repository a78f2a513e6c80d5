"""Whose updates are summed: a pure function of what the ledger lists and of the bytes under the digests there.

A member is summed if it is present by the word of its share-holders, its voucher is valid, and both ends of each of its
edges published the same commitment. Where two ends contradict each other, either reveals the point that they agreed on,
with a proof of equal discrete logarithms; the commitment of the edge follows from it, and whoever published another is
named. Where neither speaks, both are out, unnamed.

Taking out both ends at once, without asking who lied, would be fatal: liars contradict all partners of a victim, these
are out, their mask secrets are opened, and the victim's update stands bare.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds.edges import sketched_masks
from fedgrove.node.masking.bounds.knowledge import SharedPoint
from fedgrove.node.masking.bounds.vouching import Setting, Voucher, check_vouchers
from fedgrove.node.masking.keys import Random, RoundSecrets, shared_mask_key
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import Needed, needed_secrets

Edge = tuple[int, int]
"""Two positions, the lower one first."""


@dataclass(frozen=True)
class Verdict:
    """Who is summed, and why the others are not.

    Attributes
    ----------
    survivors : tuple of int
        L: positions whose updates are summed, ascending.
    named : tuple of int
        Positions that published a false commitment to an edge, as a reveal proves, ascending.
    unresolved : tuple of Edge
        Contradicted edges that nobody revealed: both ends are out, and nobody is named.
    invalid : tuple of int
        Positions that are present with a voucher that does not verify. Not named: its author may have made it for the
        block that a reorganisation replaced.
    """

    survivors: tuple[int, ...]
    named: tuple[int, ...]
    unresolved: tuple[Edge, ...]
    invalid: tuple[int, ...]

    def needed(self, setting: Setting) -> Needed:
        """The secrets to release; MaskingRefused: too few survive, or masks do not connect enough of them."""
        return needed_secrets(setting.graph, setting.sharers, self.survivors)


@dataclass(frozen=True)
class Reveal:
    """A member's word on an edge that its partner contradicts.

    Attributes
    ----------
    position, partner : int
        Who reveals, and the other end.
    proof : bytes
        A ``SharedPoint``: the point that both agreed on, and that it belongs to both mask keys.
    """

    position: int
    partner: int
    proof: bytes

    @property
    def edge(self) -> Edge:
        """The two ends, the lower one first."""
        return min(self.position, self.partner), max(self.position, self.partner)


def reveal(setting: Setting, position: int, partner: int, secrets: RoundSecrets, random: Random) -> Reveal:
    """Reveal an edge, only where the vouchers of both ends contradict each other and both are valid (``contradicted``).

    A partner that has not proven that it knows the secret of its mask key may have made that key from another's.
    """
    key, context = setting.graph.participants[partner].mask_key, _reveal_context(setting, position, partner)
    proof = SharedPoint.prove(secrets.mask_secret, key, context, random)
    return Reveal(position, partner, proof.to_bytes())


def contradicted(setting: Setting, vouchers: Mapping[int, Voucher]) -> tuple[Edge, ...]:
    """The edges to which both ends published a commitment, and not the same one, ascending.

    Parameters
    ----------
    vouchers : mapping of int to Voucher
        Valid ones, by position.
    """
    return tuple(
        (low, high)
        for low in sorted(vouchers)
        for high in setting.partners(low)
        if low < high and high in vouchers and vouchers[low].pairs[high] != vouchers[high].pairs[low]
    )


def proven_liars(setting: Setting, vouchers: Mapping[int, Voucher], reveals: Iterable[Reveal]) -> frozenset[int]:
    """Ends of contradicted edges whose commitment is not the one that follows from the point that both agreed on.

    Reveals that prove nothing, or are of another edge, do not count. Also for a reveal that comes after the verdict:
    it names whoever lied, and changes no verdict.
    """
    disputed = frozenset(contradicted(setting, vouchers))
    keys: dict[Edge, MaskKey] = {}
    for each in reveals:
        if each.edge in disputed and each.edge not in keys:
            key = _pair_key(setting, each)
            if key is not None:
                keys[each.edge] = key
    named: set[int] = set()
    for (low, high), mask in zip(keys, sketched_masks(setting.sketch, list(keys.values())), strict=True):
        published = {low: vouchers[low].pairs[high], high: vouchers[high].pairs[low]}
        named.update(end for end, commitment in published.items() if commitment != mask.commitment)
    return frozenset(named)


def judge(setting: Setting, present: Collection[int], blobs: Mapping[int, bytes], reveals: Iterable[Reveal]) -> Verdict:
    """The verdict of a round.

    Parameters
    ----------
    present : collection of int
        Who vouched in time and whose bytes count as available (``affirmation.present``).
    blobs : mapping of int to bytes
        The vouchers of at least these, each checked against its digest on the ledger.
    reveals : iterable of Reveal
        Those that are listed in time.

    Raises
    ------
    MaskingRefused
        A voucher is not there: another would come to another verdict, so nothing may be released before it is.
    """
    missing = sorted(set(present) - blobs.keys())
    if missing:
        client = setting.graph.client(missing[0])
        raise MaskingRefused(f"the voucher of client {client} is affirmed, but could not be fetched yet")
    vouchers = valid_vouchers(setting, {position: blobs[position] for position in sorted(present)})
    return verdict_on(setting, present, vouchers, reveals)


def verdict_on(
    setting: Setting, present: Collection[int], vouchers: Mapping[int, Voucher], reveals: Iterable[Reveal]
) -> Verdict:
    """As ``judge``, where it is known already which of those who are present have valid vouchers."""
    named = proven_liars(setting, vouchers, reveals)
    unresolved = tuple(edge for edge in contradicted(setting, vouchers) if named.isdisjoint(edge))
    survivors = vouchers.keys() - named.union(*unresolved)
    invalid = set(present) - vouchers.keys()
    return Verdict(tuple(sorted(survivors)), tuple(sorted(named)), unresolved, tuple(sorted(invalid)))


def valid_vouchers(setting: Setting, blobs: Mapping[int, bytes]) -> dict[int, Voucher]:
    """Those of the vouchers that parse and prove what they must, by position."""
    parsed: dict[int, Voucher] = {}
    for position, data in blobs.items():
        try:
            parsed[position] = Voucher.parse(data, setting, position)
        except InvalidContent:
            continue
    failing = check_vouchers(setting, parsed)
    return {position: voucher for position, voucher in parsed.items() if position not in failing}


def _pair_key(setting: Setting, revealed: Reveal) -> MaskKey | None:
    """The key of an edge's mask, None if the reveal proves nothing."""
    graph = setting.graph
    own, other = graph.participants[revealed.position], graph.participants[revealed.partner]
    context = _reveal_context(setting, revealed.position, revealed.partner)
    try:
        shared = SharedPoint.parse(revealed.proof)
    except InvalidContent:
        return None
    if not shared.verify(own.mask_key, other.mask_key, context):
        return None
    key = shared_mask_key(graph.context, shared.x, own.client, other.client)
    return MaskKey(key, False, revealed.edge)


def _reveal_context(setting: Setting, position: int, partner: int) -> bytes:
    graph = setting.graph
    clients = graph.client(position).to_bytes(4) + graph.client(partner).to_bytes(4)
    return b"fedgrove reveal 1" + graph.context.to_bytes() + clients
