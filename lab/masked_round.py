"""A round of masking from the draw to the recovery, with the very code of the roles, in memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from fedgrove.chain.crypto import tree
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.client import RoundSecrets, mask_update, seal_shares
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import MaskGraph, build_graph
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.recovery import RecoveryRecord, recover
from fedgrove.node.masking.release import held_shares, release

CONTEXT = RoundContext(1, "0x" + "11" * 20, 1)
Sealed = Mapping[int, bytes]
"""Shares of each client's secrets, by its position."""


@dataclass(frozen=True)
class MaskedRound:
    """The clients of a round, who masks with whom, and all their secrets."""

    graph: MaskGraph
    secrets: tuple[RoundSecrets, ...] = field(repr=False)

    @classmethod
    def draw(
        cls,
        samples: Sequence[int],
        random: Random,
        *,
        clients: Sequence[int] = (),
        context: RoundContext = CONTEXT,
        in_tree: bool = True,
        seed: bytes = bytes(32),
        **choices: Any,
    ) -> Self:
        """Draw fresh secrets of clients that have these samples.

        Parameters
        ----------
        clients : sequence of int
            Their numbers; without them from 1.
        in_tree : bool
            Whether they have the partners of the cooperation tree, in addition to random ones.
        **choices
            As ``build_graph`` takes them: ``degree`` random partners, ``shares``.
        """
        numbers = clients or range(1, len(samples) + 1)
        secrets = tuple(RoundSecrets.generate(random) for _ in samples)
        participants = [
            Participant(position, number, count, own.mask_key, own.seal_key)
            for position, (number, count, own) in enumerate(zip(numbers, samples, secrets, strict=True))
        ]
        places = range(len(samples))
        partners = [tree.partners(position, len(samples)) if in_tree else () for position in places]
        return cls(build_graph(context, participants, partners, seed=seed, **choices), secrets)

    def masked(self, position: int, vector: np.ndarray, layout: Layout, bound: float) -> np.ndarray:
        """A client's upload: uint32 (layout.length,)."""
        everybody = range(self.graph.n)
        return mask_update(self.graph, position, self.secrets[position], everybody, vector, layout, bound=bound)

    def sealed(self, random: Random) -> dict[int, bytes]:
        """The shares that all clients publish."""
        return {p: seal_shares(self.graph, p, own, random) for p, own in enumerate(self.secrets)}

    def releases(self, sealed: Sealed, survivors: Sequence[int], **partly: Any) -> dict[int, bytes]:
        """What the survivors release; ``partly`` are the model's ``tensors``, and ``kappa``, the masked part."""
        held = {p: held_shares(self.graph, p, self.secrets[p], sealed) for p in survivors}
        return {p: release(self.graph, p, held[p], sealed, survivors, committed=True, **partly) for p in survivors}

    def recovered(self, sealed: Sealed, survivors: Iterable[int], releases: Mapping[int, bytes]) -> RecoveryRecord:
        """The secrets of the round's recovery record."""
        hashes = {p: self.secrets[p].seed_hash for p in survivors}
        return recover(self.graph, range(self.graph.n), tuple(hashes), hashes, releases, sealed)
