"""A round of masking that is attacked: all that it makes public, and the secrets, for the controls.

Every client has as few partners as the cooperation tree would give it by itself, so the masks are thinner than any that
the terms allow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.client import RoundSecrets
from fedgrove.node.masking.context import RoundContext
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove_lab.masked_round import MaskedRound

LEDGER = "0x" + "a7" * 20


@dataclass(frozen=True)
class AttackedTerms:
    """What the clients of the attacked federation agreed on.

    Attributes
    ----------
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


def draw_round(terms: AttackedTerms, number: int, random: Random) -> MaskedRound:
    """A round's clients with fresh secrets."""
    context = RoundContext(31337, LEDGER, number)
    partners = max(2, (terms.clients - 1).bit_length())
    samples, seed = [terms.samples] * terms.clients, number.to_bytes(32)
    return MaskedRound.draw(samples, random, context=context, in_tree=False, degree=partners, seed=seed)


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
    drawn = draw_round(terms, number, random)
    everyone = range(drawn.graph.n)
    survivors = [position for position in everyone if position not in dropouts]
    shares = drawn.sealed(random)
    masked = [drawn.masked(position, vectors[position], layout, terms.bound) for position in everyone]
    releases = drawn.releases(shares, survivors, kappa=1.0, tensors=len(layout.names))
    public = PublicRound(
        drawn.graph,
        layout,
        terms.bound,
        {position: masked[position] for position in survivors},
        {position: masked[position] for position in dropouts},
        shares,
        {position: drawn.secrets[position].seed_hash for position in survivors},
        drawn.recovered(shares, survivors, releases),
    )
    return PlayedRound(public, drawn.secrets)
