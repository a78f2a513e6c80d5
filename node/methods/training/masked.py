"""Weights, or updates against the round's global model, as they are, under masks; weighted by sample counts.

Behind the model's words stand those of the member's metrics, where the terms ask for them, and one that counts who
could not train. In the round that only evaluates the last model they stand alone.
"""

import os
from collections.abc import Collection, Iterator
from functools import partial

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import Layout, Tensors, flatten, unflatten
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.limits import check_sum
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.survivors import opened_groups
from fedgrove.node.methods.training.codec import ModelCodec, ModelUpdate, uploaded, weight_of
from fedgrove.node.methods.training.metric_sums import (
    limits_behind,
    members_metrics,
    metric_words,
    raised_in,
    words_behind,
)
from fedgrove.node.privacy.weighted import WeightedMean
from fedgrove.node.protocol.bounds_settings import norm_of
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.masked_sum import masked_bytes, unmasked_sum
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords


class MaskedUploads(ModelCodec):
    """No mechanism of differential privacy: what the masks leave is the exact weighted mean."""

    kind = WeightedMean

    def upload_bytes(self, layout: Layout) -> int:
        return WORD.itemsize * (self.mechanism(layout).length + words_behind(self.config))

    def groups(self, cells: Cells, current: RoundRecords) -> tuple[Group, ...]:
        return cells.groups(current)  # none where updates have bounds

    def mechanism(self, layout: Layout) -> WeightedMean:
        masking = self.config.masking
        return WeightedMean(layout, masking.bound, masking.masked, norm_of(self.config.bounds))

    def encode(self, inputs: RoundInputs[Tensors], client: int, secrets: RoundSecrets, update: ModelUpdate) -> bytes:
        if not inputs.sums(client):
            return b""
        behind = metric_words(inputs, update)
        if inputs.only_evaluates:
            return masked_bytes(inputs, client, secrets, behind, uploaded(inputs), len(behind))
        layout = Layout.of(update.tensors)
        try:
            mechanism = self.mechanism(layout)
        except (InvalidInput, InvalidContent) as fault:
            raise MaskingRefused(str(fault)) from None
        weight = weight_of(inputs, [inputs.current.order.index(client)])
        words = mechanism.encode(flatten(update.tensors), partial(self._start, inputs), weight, os.urandom)
        words = np.concatenate([words, behind]) if len(behind) else words
        return masked_bytes(inputs, client, secrets, words, layout, len(behind))

    def remark(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> str:
        said = super().remark(inputs, update)
        if said or self.config.bounds is None or update.fault is not None:
            return said
        mechanism = self.mechanism(Layout.of(update.tensors))
        times = mechanism.shortened(flatten(update.tensors), partial(self._start, inputs))
        return f"scaled down {times:.3g} times to bounds.norm" if times > 1 else ""

    def caution(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> str:
        hidden = self.kind.hides_divergence  # of noise it would say something about the update
        if inputs.only_evaluates or hidden or update.fault is not None:
            return update.caution
        mechanism, vector = self.mechanism(Layout.of(update.tensors)), flatten(update.tensors)
        beyond = mechanism.cut_off(vector, partial(self._start, inputs))
        cut = f"with {beyond} of {len(vector)} values cut off at masking.bound" if beyond else ""
        return "; ".join(filter(None, (cut, update.caution)))

    def mean(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        summed, positions = self._sum(inputs, record)
        words, behind = np.split(summed, [uploaded(inputs).length])
        members = members_metrics(inputs, behind, positions)
        raised = raised_in(inputs, behind, len(positions))
        if inputs.only_evaluates:
            return Outcome(inputs.previous, members=members, raised=raised)
        weight = weight_of(inputs, positions)
        vector = self.mechanism(inputs.layout).mean(words, lambda: inputs.previous, weight)
        return Outcome(unflatten(vector, inputs.layout), members=members, raised=raised)

    def _start(self, inputs: RoundInputs[Tensors]) -> Tensors:
        """The model that the round trains from; not kept where it is only looked at, as it may be large."""
        only_looks = self.config.masking.masked == "weights" and not self.kind.hides_divergence
        return inputs.start(inputs.read()) if only_looks else inputs.previous

    def _sum(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> tuple[np.ndarray, Collection[int]]:
        """The sum of the groups that nobody spoilt, and the positions whose it is."""
        total, summed = np.zeros(uploaded(inputs).length + words_behind(self.config), WORD), []
        for group, words in self._sums(inputs, record):
            if words is not None:
                total += words
                summed += group
        if not summed:
            raise InvalidUpdate("every group has an upload that cannot be summed", 0)
        return total, summed

    def clean_groups(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> list[bool]:
        """Whether each group of a round is in its sum; raises StoreError."""
        return [words is not None for _, words in self._sums(inputs, record)]

    def _sums(
        self, inputs: RoundInputs[Tensors], record: RecoveryRecord
    ) -> Iterator[tuple[Collection[int], np.ndarray | None]]:
        """Each group with its sum; None for one that has none: too few survived, or somebody spoilt it."""
        for group in opened_groups(inputs.graph, record.left(inputs.survivors), record.left_out):
            words = None
            try:
                words = self._checked_sum(inputs, record, group) if group else None
            except InvalidUpdate:
                if inputs.graph.is_whole:
                    raise
                # The audit names the group; the others are none the worse.
            yield group, words

    def _checked_sum(
        self,
        inputs: RoundInputs[Tensors],
        record: RecoveryRecord,
        positions: Collection[int],
    ) -> np.ndarray:
        layout = uploaded(inputs)
        try:
            words = unmasked_sum(inputs, record, layout, positions, words_behind(self.config))
        except InvalidUpdate:
            if inputs.bounds is not None:
                inputs.bounded.check(record, positions, None)
            raise
        if inputs.bounds is not None:  # first: it says whose fault it is that a sum is too large
            inputs.bounded.check(record, positions, words)
        if layout.names:
            limits = self.mechanism(layout).limits(_samples(inputs, positions), inputs.graph.total_samples)
            check_sum(words[: layout.length], limits)
        return words

    def metric_limits(self) -> tuple[int, ...]:
        return limits_behind(self.config)


def _samples(inputs: RoundInputs[Tensors], positions: Collection[int]) -> list[int]:
    return [inputs.graph.participants[position].samples for position in positions]
