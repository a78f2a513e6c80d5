"""Step close: the streaming sum of masked updates, unmasked.

Σ yᵢ − Σ PRG(bᵢ) ∓ the dangling pair masks = Σ qᵢ mod 2³², decoded as ``ring`` says. Memory is that of one model,
whatever the number of clients.
"""

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.coverage import masks_of
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.keys import pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import MaskKey, apply_masks
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD, decode
from fedgrove.node.masking.survivors import needed_secrets, summed_groups


class InvalidUpdate(InvalidContent):
    """A masked update cannot be part of the sum; the message names the client.

    Attributes
    ----------
    client : int
        Index on the ledger.
    """

    def __init__(self, message: str, client: int) -> None:
        super().__init__(message)
        self.client = client


class Aggregate:
    """One round's sum: ``add`` each survivor's masked update once, then ``close``.

    Parameters
    ----------
    graph : MaskGraph
    sharers, survivors : collection of int
        Positions on the ledger's share and commit lists.
    record : RecoveryRecord
        Checked against the ledger (by ``recover`` or ``RecoveryRecord.parse``).
    layout : Layout
        The model's tensors.
    bound, kappa : float
        As the clients used.
    group : collection of int, optional
        Sum only these survivors: those of a group, as ``summed_groups`` has them; by default of the first.
    behind : int
        How many words follow the model's in each update.

    Raises
    ------
    MaskingRefused
        The lists forbid a recovery.
    ValueError
        The record is for other lists.
    """

    def __init__(
        self,
        graph: MaskGraph,
        sharers: Collection[int],
        survivors: Collection[int],
        record: RecoveryRecord,
        layout: Layout,
        bound: float,
        *,
        kappa: float = 1.0,
        group: Collection[int] | None = None,
        behind: int = 0,
    ) -> None:
        if needed_secrets(graph, sharers, survivors).transcript != record.transcript:
            raise ValueError("the recovery record is for another round or list of survivors")
        self._graph = graph
        self._survivors = summed_groups(graph, survivors)[0] if group is None else frozenset(group)
        self._record = record
        self._layout = layout
        self._bound = bound
        self._kappa = kappa
        self._behind = behind
        self._sum = np.zeros(layout.length + behind, WORD)
        self._missing = set(self._survivors)
        self._partial: int | None = None  # the client whose update is in the sum only in part

    def add(self, position: int, chunks: Iterable[bytes]) -> None:
        """Add one survivor's masked update, 4 bytes a word, in chunks of any size.

        After an error, also one that ``chunks`` raised, the sum is spoilt: start a new one.

        Raises InvalidUpdate: not a survivor, added before, or of another size.
        """
        client = self._graph.client(position)
        self._check_whole()
        if position not in self._missing:
            raise InvalidUpdate(f"client {client} is not a survivor, or its update was already added", client)
        self._partial = client
        filled, carry = 0, b""
        for chunk in chunks:
            data = carry + chunk if carry else chunk
            count = len(data) // WORD.itemsize
            if filled + count > len(self._sum):
                break
            self._sum[filled : filled + count] += np.frombuffer(data, WORD, count)
            filled, carry = filled + count, bytes(data[count * WORD.itemsize :])
        else:
            if filled == len(self._sum) and not carry:
                self._partial = None
                self._missing.remove(position)
                return
        raise InvalidUpdate(f"the update of client {client} is not exactly {self._sum.nbytes} bytes long", client)

    def close(self) -> np.ndarray:
        """Take the masks off and return the weighted mean of the survivors' models.

        Returns
        -------
        float32 array of shape (layout.length,)
            The same bytes on every machine.

        Raises
        ------
        InvalidUpdate
            A survivor's update was not added, or only in part.
        """
        words = self.unmasked()
        samples = sum(self._graph.participants[position].samples for position in self._survivors)
        return decode(words, samples, self._graph.total_samples, self._bound)

    def unmasked(self) -> np.ndarray:
        """Take the masks off and return the sum as it is, of whatever integers lay under the masks; once.

        Returns
        -------
        uint32 array of shape (layout.length + behind,)

        Raises
        ------
        InvalidUpdate
            As ``close``.
        """
        self._check_whole()
        if self._missing:
            client = self._graph.client(min(self._missing))
            raise InvalidUpdate(f"the update of client {client} is not in the sum", client)
        left = left_over(self._graph, self._survivors, self._record)
        apply_masks(self._sum, masks_of(left, self._graph.n, self._layout, self._kappa, self._behind))
        return self._sum

    def _check_whole(self) -> None:
        if self._partial is not None:
            raise InvalidUpdate(
                f"the sum contains a part of the update of client {self._partial} and cannot be used", self._partial
            )


def left_over(graph: MaskGraph, survivors: Collection[int], record: RecoveryRecord) -> Iterator[MaskKey]:
    """The masks that the sum over the survivors, or a group of them, still wears, as masks that take them off."""
    for position, seed in record.self_seeds.items():
        if position not in survivors:
            continue
        yield MaskKey(self_mask_key(graph.context, seed, graph.client(position)), True)
    for dropout, secret in record.mask_secrets.items():
        for survivor in graph.neighbours[dropout]:
            if survivor in survivors:
                other = graph.participants[survivor]
                key = pair_mask_key(graph.context, secret, other.mask_key, graph.client(dropout), other.client)
                added = dropout > survivor  # by the survivor: it adds the masks shared with partners to its right
                yield MaskKey(key, added, (dropout, survivor))
