"""The comparisons of a federation, message by message: what each client uploads in which round (spec 05, part 2).

    ecdh   blind → answer → (count)        the counter opens the answers, which are sealed to it, and counts
    rsa    blind → ask → answer → report   askers count, and tell

After its first message, which is for everybody, a client's upload has one part for each of its partners, in their
order, each of a length that follows from the sizes of the sets. A part that cannot be made is zero, and a pair whose
messages do not fit has nothing in common: who sends nonsense is like nobody.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from fedgrove.node.masking.keys import SECRET_BYTES, clamp
from fedgrove.node.methods.procfl import ecdh
from fedgrove.node.methods.procfl.hash_to_curve import POINT_BYTES
from fedgrove.node.methods.procfl.messages import TAG_BYTES, InvalidMessage, message_bytes
from fedgrove.node.methods.procfl.sets import elements
from fedgrove.node.methods.procfl.stated import Counts

if TYPE_CHECKING:
    from fedgrove.node.methods.procfl.rsa import (  # needs gmpy2, which the other protocol does without
        RsaAsker,
        RsaSigner,
    )

RSA_BITS = 2048
_COUNT_BYTES = 4
_KEY = b"fedgrove comparison key 1"
_ASKER = b"fedgrove comparison asker 1"

Sizes = Mapping[int, int]
"""Elements of each client's set, ascending by client."""


@dataclass(frozen=True)
class Received:
    """What a partner sent: its first message, and its part for this client of the round before, if there is one."""

    first: bytes = field(repr=False)
    part: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Party:
    """One client in one clustering. The same secret and set give the same messages, also after a restart.

    Attributes
    ----------
    session : bytes
        32 bytes that name the clustering.
    client : int
    counts : Counts
        Its samples of each label.
    secret : bytes
        32 random bytes, for this clustering only. Whoever has them and the first message can tell the counts.
    """

    session: bytes
    client: int
    counts: Counts = field(repr=False)
    secret: bytes = field(repr=False)

    @cached_property
    def elements(self) -> np.ndarray:
        """χ."""
        return elements(np.array(self.counts, np.int64))

    @cached_property
    def blinder(self) -> ecdh.EcdhClient:
        """Its side by Diffie–Hellman."""
        return ecdh.EcdhClient(self.session, self.client, self.elements, clamp(self.secret))

    @cached_property
    def signer(self) -> "RsaSigner":
        """Its side as RSA signer; the key follows from the secret."""
        from fedgrove.node.methods.procfl.rsa import RsaKey, RsaSigner

        key = RsaKey.generate(_Stream(_KEY + self.secret), RSA_BITS)
        return RsaSigner(self.session, self.client, self.elements, key, os.urandom)

    @cached_property
    def asker(self) -> "RsaAsker":
        """Its side as RSA asker."""
        from fedgrove.node.methods.procfl.rsa import RsaAsker

        return RsaAsker(self.session, self.client, self.elements, _Stream(_ASKER + self.secret)(SECRET_BYTES), RSA_BITS)


class _Stream:
    """Bytes that follow from a seed, in place of ``os.urandom``."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._calls = seed, 0

    def __call__(self, count: int) -> bytes:
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(8)).digest(count)


class Comparing(Protocol):
    """A protocol of comparisons, round by round."""

    stages: ClassVar[tuple[str, ...]]
    sealed: ClassVar[bool]
    """Whether uploads after the first are for the counter only."""

    def first(self, party: Party) -> bytes:
        """A client's first message, to all."""
        ...

    def first_bytes(self, size: int) -> int:
        """Its length."""
        ...

    def size(self, message: bytes, session: bytes, client: int) -> int:
        """Elements of the set behind a first message; raises InvalidMessage for anything else."""
        ...

    def lengths(self, stage: str, sizes: Sizes, client: int) -> dict[int, int]:
        """Bytes of each part of a client's upload, by partner."""
        ...

    def part(self, party: Party, stage: str, partner: int, received: Received) -> bytes:
        """A client's part for a partner; raises InvalidMessage if what it received does not fit."""
        ...


class Ecdh:
    """By Diffie–Hellman (``node.methods.procfl.ecdh``)."""

    stages: ClassVar[tuple[str, ...]] = ("blind", "answer")
    sealed: ClassVar[bool] = True

    def first(self, party: Party) -> bytes:
        return party.blinder.blinded

    def first_bytes(self, size: int) -> int:
        return message_bytes(size, POINT_BYTES)

    def size(self, message: bytes, session: bytes, client: int) -> int:
        return len(ecdh.read_points(message, session, client))

    def lengths(self, stage: str, sizes: Sizes, client: int) -> dict[int, int]:
        return {partner: message_bytes(size, TAG_BYTES) for partner, size in sizes.items() if partner != client}

    def part(self, party: Party, stage: str, partner: int, received: Received) -> bytes:
        return party.blinder.answer(partner, received.first)


class Rsa:
    """By blind signatures (``node.methods.procfl.rsa``), which tell askers which elements are common."""

    stages: ClassVar[tuple[str, ...]] = ("blind", "ask", "answer", "report")
    sealed: ClassVar[bool] = False

    def first(self, party: Party) -> bytes:
        return party.signer.offer

    def first_bytes(self, size: int) -> int:
        from fedgrove.node.methods.procfl.rsa import offer_bytes

        return offer_bytes(size, RSA_BITS)

    def size(self, message: bytes, session: bytes, client: int) -> int:
        from fedgrove.node.methods.procfl.rsa import offered

        return offered(message, session, client, RSA_BITS)

    def lengths(self, stage: str, sizes: Sizes, client: int) -> dict[int, int]:
        from fedgrove.node.methods.procfl.rsa import asker_of

        asked = {partner: asker_of(client, partner) for partner in sizes if partner != client}
        width = RSA_BITS // 8
        if stage == "answer":
            return {p: message_bytes(sizes[p], width) for p, asker in asked.items() if asker == p}
        own = message_bytes(sizes[client], width) if stage == "ask" else _COUNT_BYTES
        return {p: own for p, asker in asked.items() if asker == client}

    def part(self, party: Party, stage: str, partner: int, received: Received) -> bytes:
        if stage == "answer":
            return party.signer.sign(partner, received.part)
        question = party.asker.ask(partner, received.first)
        if stage == "ask":
            return question
        found = party.asker.count(partner, received.first, question, received.part)
        return found.overlap.to_bytes(_COUNT_BYTES)

    def overlaps(self, reports: Mapping[int, bytes], sizes: Sizes) -> tuple[Counts, ...]:
        """The matrix that reports come to, of those clients that reported; ``sizes`` are those of all.

        A number that no two sets can have in common counts as none.
        """
        clients = sorted(reports)
        rows = {client: dict.fromkeys(clients, 0) | {client: sizes[client]} for client in clients}
        for asker in clients:
            for place, partner in enumerate(self.lengths("report", sizes, asker)):
                found = int.from_bytes(reports[asker][_COUNT_BYTES * place :][:_COUNT_BYTES])
                if partner in rows and found <= min(sizes[asker], sizes[partner]):
                    rows[asker][partner] = rows[partner][asker] = found
        return tuple(tuple(row.values()) for row in rows.values())


def comparing(psi: str) -> Ecdh | Rsa:
    """The protocol that the terms name."""
    return Rsa() if psi == "rsa" else Ecdh()


def upload(psi: str, party: Party, stage: str, sizes: Sizes, received: Mapping[int, Received]) -> bytes:
    """A client's upload in a round after the first: its parts for all partners, joined."""
    protocol, parts = comparing(psi), []
    for partner, length in protocol.lengths(stage, sizes, party.client).items():
        try:
            part = protocol.part(party, stage, partner, received[partner])
        except InvalidMessage:
            part = bytes(length)
        parts.append(part)
    return b"".join(parts)


def part_of(lengths: Mapping[int, int], partner: int, data: bytes) -> bytes:
    """The part of an upload that is for a partner."""
    start = 0
    for other, length in lengths.items():
        if other == partner:
            return data[start : start + length]
        start += length
    return b""
