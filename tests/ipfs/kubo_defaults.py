"""Names that Kubo gives by default, as an oracle for trees and directories: its profile unixfs-v0-2015."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import base58

from fedgrove.ipfs.unixfs import Link, Profile, chunks, encode_node, field, varint

DEFAULTS = Profile(chunk_size=256 << 10, max_links=174)


@dataclass(frozen=True)
class Name:
    """A CID of version 0, of a dag-pb block."""

    block: bytes

    def __bytes__(self) -> bytes:
        return b"\x12\x20" + hashlib.sha256(self.block).digest()

    def __str__(self) -> str:
        return base58.b58encode(bytes(self)).decode()


def by_default(parts: Iterable[bytes | memoryview]) -> Link:
    """Root of a file given as chunks; its leaves are dag-pb blocks, too."""
    level = []
    for part in parts:
        content = field(0x12, bytes(part)) if len(part) else b""
        leaf = field(0x0A, b"\x08\x02" + content + b"\x18" + varint(len(part)))
        level.append(Link(Name(leaf), len(part), len(leaf)))
    while len(level) > 1:
        groups = [level[start : start + DEFAULTS.max_links] for start in range(0, len(level), DEFAULTS.max_links)]
        nodes = [(encode_node(group), group) for group in groups]
        level = [
            Link(Name(node), sum(x.size for x in group), len(node) + sum(x.total_size for x in group))
            for node, group in nodes
        ]
    return level[0]


def named_by_default(data: bytes) -> str:
    """What ``ipfs add`` prints of a file."""
    return str(by_default(chunks(data, DEFAULTS)).cid)
