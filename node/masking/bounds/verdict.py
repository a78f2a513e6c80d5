"""Whose updates are summed: a pure function of what the ledger lists and of the bytes under the digests there.

A member is summed if it is present by the votes of its share-holders, its voucher is valid, and both ends of each of
its edges published the same commitment. Where two ends contradict each other, either reveals the point that they agreed
on, with a proof of equal discrete logarithms; the commitment of the edge follows from it, and whoever published another
is named. Where neither speaks, both are out, unnamed.

Taking out both ends at once, without asking who lied, would be fatal: liars contradict all partners of a victim, these
are out, their mask secrets are opened, and the victim's update stands bare.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds.affirmation import Votes
from fedgrove.node.masking.bounds.deposition import Deposition, Edge, contradicted, pair_keys
from fedgrove.node.masking.bounds.edges import sketched_masks
from fedgrove.node.masking.bounds.vouching import Setting, Voucher, valid_vouchers
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import Needed, needed_secrets


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
    absent : tuple of int
        Positions that vouched and whose bytes do not count as available.
    """

    survivors: tuple[int, ...]
    named: tuple[int, ...]
    unresolved: tuple[Edge, ...]
    invalid: tuple[int, ...]
    absent: tuple[int, ...]

    def needed(self, setting: Setting) -> Needed:
        """The secrets to release; MaskingRefused: too few survive, or masks do not connect enough of them."""
        return needed_secrets(setting.graph, setting.sharers, self.survivors)


@dataclass(frozen=True)
class Listed:
    """A blob that the ledger lists.

    Attributes
    ----------
    listed_at : int
        Place of its digest among the records of the round.
    data : bytes or None
        Under the digest; None if it could not be fetched.
    """

    listed_at: int
    data: bytes | None


def judge(setting: Setting, vouchers: Mapping[int, Listed], depositions: Mapping[int, Listed], votes: Votes) -> Verdict:
    """The verdict of a round.

    Parameters
    ----------
    vouchers : mapping of int to Listed
        By position, of all that vouched in time.
    depositions : mapping of int to Listed
        The first one of each position, of those listed before the verdict falls. It counts if its author is present,
        and a threshold of holders voted after it was listed.

    Raises
    ------
    MaskingRefused
        Something that counts could not be fetched: others may come to another verdict, so that nothing may be released
        before it is there. An honest holder has it.
    """
    present = votes.present(vouchers)
    valid = valid_vouchers(setting, {at: _fetched(setting, at, vouchers[at].data) for at in sorted(present)})
    disputed = contradicted(setting, valid)
    counted: list[Deposition] = []
    for position in sorted({end for edge in disputed for end in edge} & depositions.keys()):
        listed = depositions[position]
        if votes.has(position, listed.listed_at):
            counted += _deposition(setting, position, _fetched(setting, position, listed.data))
    named = proven_liars(setting, valid, counted)
    unresolved = tuple(edge for edge in disputed if named.isdisjoint(edge))
    return Verdict(
        survivors=tuple(sorted(valid.keys() - named.union(*unresolved))),
        named=tuple(sorted(named)),
        unresolved=unresolved,
        invalid=tuple(sorted(present - valid.keys())),
        absent=tuple(sorted(vouchers.keys() - present)),
    )


def proven_liars(
    setting: Setting, vouchers: Mapping[int, Voucher], depositions: Iterable[Deposition]
) -> frozenset[int]:
    """Ends of contradicted edges whose commitment is not the one that follows from the point that both agreed on.

    Also for depositions that come after the verdict: they name whoever lied, and change no verdict.

    Parameters
    ----------
    vouchers : mapping of int to Voucher
        Valid ones, by position.
    """
    disputed = frozenset(contradicted(setting, vouchers))
    keys: dict[Edge, MaskKey] = {}
    for each in depositions:
        keys.update((edge, key) for edge, key in pair_keys(setting, each).items() if edge in disputed)
    named: set[int] = set()
    for (low, high), mask in zip(keys, sketched_masks(setting.sketch, list(keys.values())), strict=True):
        published = {low: vouchers[low].pairs[high], high: vouchers[high].pairs[low]}
        named.update(end for end, commitment in published.items() if commitment != mask.commitment)
    return frozenset(named)


def _fetched(setting: Setting, position: int, data: bytes | None) -> bytes:
    if data is None:
        client = setting.graph.client(position)
        raise MaskingRefused(f"what client {client} published counts, but could not be fetched yet: try again later")
    return data


def _deposition(setting: Setting, position: int, data: bytes) -> list[Deposition]:
    try:
        return [Deposition.parse(data, setting, position)]
    except InvalidContent:
        return []  # the same for everybody: these are the bytes under the digest
