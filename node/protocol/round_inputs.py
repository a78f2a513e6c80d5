"""The public inputs of a round: everything except the updates that uploads and their sum depend on."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol

import numpy as np

from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.masking.graph import MIN_CLIENTS, MaskGraph
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.privacy.records import PrivacyRecord
from fedgrove.node.protocol.affirm_times import AffirmTimes
from fedgrove.node.protocol.content import Metrics, ModelT, fetch_metrics
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.rounds import RoundRecords, Rounds, shares_of_round
from fedgrove.node.protocol.terms import FederationConfig


class Bounded(Protocol):
    """Bounds on the updates of one round (``node.protocol.bounded``, where the methods are explained)."""

    @property
    def survivors(self) -> tuple[int, ...]: ...

    def verdict_words(self) -> dict[int, str]: ...

    def voucher_bytes(self, position: int) -> int: ...

    def most_deposition_bytes(self, position: int) -> int: ...

    def vouch(self, position: int, secrets: RoundSecrets, upload: bytes, block_hash: bytes) -> bytes: ...

    def unpublished(self, position: int, lot: int) -> tuple[int, ...]: ...

    @property
    def times(self) -> AffirmTimes: ...

    def unvouched(self) -> tuple[int, ...]: ...

    def unseen(self) -> tuple[int, ...]: ...

    def deposition(self, position: int, secrets: RoundSecrets, missing: Collection[int]) -> bytes | None: ...

    def is_settled(self, position: int) -> bool: ...

    def vote(self, position: int, late: Collection[int] = ()) -> bytes: ...

    @property
    def named(self) -> tuple[int, ...]: ...

    def check(self, record: RecoveryRecord, group: Collection[int], words: np.ndarray | None) -> None: ...

    def check_connected(self, record: RecoveryRecord, liars: Collection[int]) -> None: ...


@dataclass(frozen=True)
class RoundInputs(Generic[ModelT]):
    """Everything that a round is computed from but the updates; everybody has it.

    Attributes
    ----------
    rounds : Rounds
        The ledger, at least up to this round.
    current : RoundRecords
        The round, with its order sealed.
    graph : MaskGraph
        Who masks with whom in it.
    config : FederationConfig
        The terms.
    store : ContentReader
        Where models, metrics and uploads are.
    read : callable
        Returns what the round before published: its model, or its state.
    layouts : dict of bytes to Layout
        Of models that were read before, by their digest: a large model need not be read again for it.
    start : callable
        Maps what was published to the model that the round trains from; by default they are the same.
    bounds : callable, optional
        Finds whom bounds on updates let pass, where the terms have bounds.
    """

    rounds: Rounds
    current: RoundRecords
    graph: MaskGraph
    config: FederationConfig
    store: ContentReader
    read: Callable[[], ModelT]
    layouts: dict[bytes, Layout] = field(default_factory=dict)
    start: Callable[[ModelT], ModelT] = lambda published: published
    bounds: "Callable[[RoundInputs[ModelT]], Bounded] | None" = None

    @cached_property
    def published(self) -> ModelT:
        """What the round before published."""
        return self.read()

    @cached_property
    def previous(self) -> ModelT:
        """The global model that the round trains from."""
        return self.start(self.published)

    @cached_property
    def layout(self: "RoundInputs[Tensors]") -> Layout:
        """The model's tensors, in a round that trains one."""
        digest = self.current.opened.model_digest
        if digest not in self.layouts:
            self.layouts.clear()  # only the latest is asked for
            self.layouts[digest] = Layout.of(self.previous)
        return self.layouts[digest]

    @cached_property
    def stated(self) -> Metrics | None:
        """Metrics of the round that produced the model; None for the first model.

        Raises InvalidContent: its metrics are none.
        """
        current = self.rounds.base_of(self.current.number)
        if current is None:
            return None
        return fetch_metrics(self.store, current.result.metrics_digest)

    @cached_property
    def only_evaluates(self) -> bool:
        """Whether the round trains nothing: the training has ended, and its members evaluate the last model.

        Raises as ``stated``.
        """
        return only_evaluates(self.config, self.rounds, self.current.number, lambda: self.stated)

    @cached_property
    def begins_anew(self) -> bool:
        """Whether a round from this model failed before, as too few of those who could commit did so.

        It may be a model from which nobody can train: members that cannot then train from the first model, and neither
        the server's state nor the course of the loss goes on. The ledger alone says so.
        """
        current, rounds = self.current, self.rounds
        if current.opened.model_digest == rounds.first_digest:
            return False
        earlier = (each for each in rounds.ended() if each.number < current.number and not each.stands)
        same = (each for each in earlier if each.opened.model_digest == current.opened.model_digest)
        return any(self._lacked_updates(each) for each in same)

    def _lacked_updates(self, earlier: RoundRecords) -> bool:
        """Whether most who shared in a round did not commit, or too many for the sum of the others to be opened."""
        shared, committed = len(earlier.shares), len(earlier.commits)
        if committed == shared:
            return False
        least = max(MIN_CLIENTS, shares_of_round(len(earlier.order), self.config.masking).threshold)
        return 2 * committed < shared or committed < least

    @property
    def base(self) -> PrivacyRecord | None:
        """What that round released; None for the first model. Raises as ``stated``."""
        return self.stated.privacy if self.stated is not None else None

    @property
    def sharers(self) -> tuple[int, ...]:
        """Positions of those who are to upload."""
        return self.current.positions(self.current.shares)

    def sums(self, client: int) -> bool:
        """Whether a client's upload is part of a sum: if groups are summed separately, it may be in none."""
        position = self.current.order.index(client)
        return any(position in group.positions for group in self.graph.groups)

    @property
    def bounded(self) -> Bounded:
        """Bounds on the updates of the round; AttributeError where the terms have none."""
        if self.bounds is None:
            raise AttributeError("the terms have no bounds on updates")
        return self.bounds(self)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Positions of those whose uploads are to be summed: all that are listed or, with bounds, whom they let pass.

        Raises StoreError: a voucher cannot be read.
        """
        if self.bounds is not None:
            return self.bounded.survivors
        return self.current.positions(self.current.commits)


def only_evaluates(config: FederationConfig, rounds: Rounds, number: int, stated: Callable[[], Metrics | None]) -> bool:
    """Whether a round trains nothing: the training has ended, and its members evaluate the last model.

    Parameters
    ----------
    stated : callable
        Returns the metrics of the round that produced the model; None for the first model.
    """
    if config.evaluation is None:
        return False
    if rounds.closed_before(number) >= config.federation.rounds:
        return True
    metrics = stated() if config.federation.patience else None
    return metrics is not None and metrics.members is not None and bool(metrics.members.ending)


@dataclass(frozen=True)
class Outcome(Generic[ModelT]):
    """Outcome of a round.

    Attributes
    ----------
    model : Model
        The next global model.
    privacy : PrivacyRecord or None
        What the round released of the clients; None without a mechanism. A kind leaves its ``epsilon`` open; it depends
        on all rounds, not on this one (``node.protocol.aggregation``).
    members : MembersMetrics, MembersRates or None
        The members' metrics of the model that the round began with; None where the terms ask for none.
    raised : int or None
        How many of those summed could not train; None where nobody counts.
    """

    model: ModelT
    privacy: PrivacyRecord | None = None
    members: MembersStatement | None = None
    raised: int | None = None
