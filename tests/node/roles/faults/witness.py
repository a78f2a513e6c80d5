"""Holds everything that the clients ever handed out against what they may hand out.

It reads copies that were made before a blob went to the store, so that it sees what a killed client let go of, too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.release import parse_release
from fedgrove.node.masking.sealing import OPENING_BYTES
from fedgrove.node.protocol.rounds import RoundRecords
from tests.node.roles.faults.killing import kind_of

ONCE = ("shares", "masked update", "release")
_HEADER_BYTES = 4 + 32 + 4
_SHARE_BYTES = 4 + 1 + OPENING_BYTES


@dataclass(frozen=True)
class Told:
    """A blob that a client handed out in a round."""

    client: int
    round: int
    data: bytes

    @property
    def kind(self) -> str:
        return kind_of(self.data)


def told_by(client: int, folder: Path) -> list[Told]:
    """What a client handed out, given where its ``TellingStore`` noted it."""
    return [Told(client, int(path.name.partition("-")[0]), path.read_bytes()) for path in sorted(folder.iterdir())]


def violations(
    told: Iterable[Told],
    rounds: dict[int, RoundRecords],
    graph_of: dict[int, MaskGraph],
    abandoned: Collection[tuple[int, int, bytes]] = (),
) -> list[str]:
    """Everything that must not have been handed out, a sentence each.

    ``abandoned``: client, round and digest of commitments that stood on the ledger until the chain forgot them. What
    was published for one stays masked: nobody releases the seed of its own mask when it counts as dropped out. And a
    release that was made for a list with one, which never changes, fits the list without it no more.
    """
    forgotten = {number for client, number, digest in abandoned if not _stands(rounds[number], client, digest)}
    sorted_out = defaultdict(list)
    for one in told:
        if one.kind in ONCE:
            sorted_out[one.client, one.round, one.kind].append(one)
    found = []
    for (client, number, kind), blobs in sorted_out.items():
        who = f"client {client} in round {number}"
        if len(blobs) > 1:
            found.append(f"{who} handed out {len(blobs)} blobs of kind {kind}")
        if kind == "masked update":
            found += [
                f"{who} published an update before it was committed" for one in blobs if _early(one, rounds, abandoned)
            ]
        if kind == "release":
            found += [f"{who} released both kinds of share for position {owner}" for owner in _both(blobs)]
            bad = [] if number in forgotten else _bad(blobs, rounds, graph_of)
            found += [f"{who} recorded a release that is none: {fault}" for fault in bad]
    return found


def _stands(current: RoundRecords, client: int, digest: bytes) -> bool:
    return client in current.commits and current.commits[client].digest == digest


def _early(one: Told, rounds: dict[int, RoundRecords], abandoned: Collection[tuple[int, int, bytes]]) -> bool:
    digest = cid_of(one.data).digest
    return not _stands(rounds[one.round], one.client, digest) and (one.client, one.round, digest) not in abandoned


def _both(blobs: list[Told]) -> list[int]:
    """Positions of whom shares of both kinds were released, by any of these blobs or all of them together."""
    kinds = defaultdict(set)
    for one in blobs:
        start = _HEADER_BYTES
        for _ in ("unavailable", "bad"):
            start += 4 + 4 * int.from_bytes(one.data[start : start + 4])
        for at in range(start + 4, len(one.data), _SHARE_BYTES):
            kinds[int.from_bytes(one.data[at : at + 4])].add(one.data[at + 4])
    return [owner for owner, both in kinds.items() if len(both) > 1]


def _bad(blobs: list[Told], rounds: dict[int, RoundRecords], graph_of: dict[int, MaskGraph]) -> list[str]:
    """What is wrong with releases that are on the ledger."""
    faults = []
    for one in blobs:
        current = rounds[one.round]
        listed = current.releases.get(one.client)
        if listed is None or listed.digest != cid_of(one.data).digest:
            continue
        lists = (current.positions(current.shares), current.positions(current.commits))
        try:
            parse_release(one.data, graph_of[one.round], current.order.index(one.client), *lists)
        except InvalidContent as fault:
            faults.append(str(fault))
    return faults
