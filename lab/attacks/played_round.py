"""A round of masking from the draw to the recovery, with the very code of the roles, in memory.

Every client has as few partners as the cooperation tree would give it by itself, so the masks are thinner than any that
the terms allow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.client import RoundSecrets, mask_update, seal_shares
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import MaskGraph, build_graph
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.recovery import RecoveryRecord, recover
from fedgrove.node.masking.release import held_shares, release

LEDGER = "0x" + "a7" * 20


@dataclass(frozen=True)
class AttackedTerms:
    """What the clients of the attacked federation agreed on.

    Attributes
    ----------
    clients : int
        Drawn in a round.
    samples : int
        Of each.
    bound : float
        Largest absolute value of a parameter.
    """

    clients: int = 8
    samples: int = 100
    bound: float = 8.0


@dataclass(frozen=True)
class PublicRound:
    """Everything of a round that stands on ledger and store when it is over.

    Attributes
    ----------
    graph : MaskGraph
        Who took part, with which keys, and who masked with whom.
    layout : Layout
    bound : float
    updates : mapping of int to uint32 array (d,)
        Masked updates of the survivors, by position.
    late : mapping of int to uint32 array (d,)
        Those of dropouts that came after the list of survivors was closed.
    shares : mapping of int to bytes
        Sealed shares, by owner.
    seed_hashes : mapping of int to bytes
        Of the survivors' self-masks.
    record : RecoveryRecord
        Self-mask seeds of the survivors, mask secrets of the dropouts.
    """

    graph: MaskGraph
    layout: Layout
    bound: float
    updates: Mapping[int, np.ndarray]
    late: Mapping[int, np.ndarray]
    shares: Mapping[int, bytes]
    seed_hashes: Mapping[int, bytes]
    record: RecoveryRecord


@dataclass(frozen=True)
class PlayedRound:
    """A round as its clients know it: what is public, and all their secrets. The latter are for controls only."""

    public: PublicRound
    secrets: tuple[RoundSecrets, ...] = field(repr=False)


def draw_round(terms: AttackedTerms, number: int, random: Random) -> tuple[MaskGraph, tuple[RoundSecrets, ...]]:
    """Fresh secrets of a round's clients, and who masks with whom."""
    secrets = tuple(RoundSecrets.generate(random) for _ in range(terms.clients))
    participants = [
        Participant(position, position + 1, terms.samples, own.mask_key, own.seal_key)
        for position, own in enumerate(secrets)
    ]
    partners = max(2, (terms.clients - 1).bit_length())
    graph = build_graph(
        RoundContext(31337, LEDGER, number),
        participants,
        [()] * terms.clients,
        degree=partners,
        seed=number.to_bytes(32),
    )
    return graph, secrets


def play_round(
    terms: AttackedTerms,
    number: int,
    vectors: Sequence[np.ndarray],
    layout: Layout,
    random: Random,
    dropouts: Collection[int] = (),
) -> PlayedRound:
    """Mask, drop out, release and recover.

    Parameters
    ----------
    vectors : sequence of float32 arrays (layout.length,)
        Each client's weights, by position.
    dropouts : collection of int
        Positions that share their secrets and upload too late.
    """
    graph, secrets = draw_round(terms, number, random)
    everyone = range(graph.n)
    survivors = [position for position in everyone if position not in dropouts]
    shares = {position: seal_shares(graph, position, secrets[position], random) for position in everyone}
    masked = {
        position: mask_update(
            graph, position, secrets[position], everyone, vectors[position], layout, bound=terms.bound
        )
        for position in everyone
    }
    hashes = {position: secrets[position].seed_hash for position in survivors}
    releases = _releases(graph, secrets, shares, survivors, layout)
    record = recover(graph, everyone, survivors, hashes, releases, shares)
    public = PublicRound(
        graph,
        layout,
        terms.bound,
        {position: masked[position] for position in survivors},
        {position: masked[position] for position in dropouts},
        shares,
        hashes,
        record,
    )
    return PlayedRound(public, secrets)


def _releases(
    graph: MaskGraph,
    secrets: Sequence[RoundSecrets],
    shares: Mapping[int, bytes],
    survivors: Sequence[int],
    layout: Layout,
) -> dict[int, bytes]:
    releases = {}
    for holder in survivors:
        held = held_shares(graph, holder, secrets[holder], shares)
        releases[holder] = release(
            graph, holder, held, shares, survivors, committed=True, kappa=1.0, tensors=len(layout.names)
        )
    return releases
