"""Weights, or updates against the round's global model, as they are, under masks; weighted by sample counts.

Behind the model's words stand those of the member's metrics, where the terms ask for them. In the round that only
evaluates the last model they stand alone.
"""

from collections.abc import Collection

import numpy as np
from fedgrove.node.base.tensors import Layout, Tensors, add, flatten, largest, unflatten
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.graph import Adjacency
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.limits import Limits, check_sum
from fedgrove.node.masking.parameters import group_size
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD, decode, encode, kept_within, largest_sum, values_beyond
from fedgrove.node.masking.survivors import opened_groups
from fedgrove.node.methods.training.codec import ModelCodec, uploaded
from fedgrove.node.methods.training.metric_sums import members_metrics, metric_words, words_behind
from fedgrove.node.methods.training.regrouping import parts
from fedgrove.node.methods.training.update import ModelUpdate
from fedgrove.node.protocol.masked_sum import masked_bytes, unmasked_sum
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs


class MaskedUploads(ModelCodec):
    """No mechanism of differential privacy: what the masks leave is the exact weighted mean (spec 02)."""

    def upload_bytes(self, layout: Layout) -> int:
        return WORD.itemsize * (layout.length + words_behind(self.config))

    def parts(self, n: int) -> Adjacency:
        return parts(n, self.least(n), self.config.masking.assumed)

    def least(self, n: int) -> int:
        return group_size(n, self.config.masking.assumed)

    def encode(self, inputs: RoundInputs[Tensors], client: int, secrets: RoundSecrets, update: ModelUpdate) -> bytes:
        if not inputs.sums(client):
            return b""
        behind = metric_words(self.config, update)
        if inputs.only_evaluates:
            return masked_bytes(inputs, client, secrets, behind, uploaded(inputs), len(behind))
        vector, layout = self.vector(inputs, update), Layout.of(update.tensors)
        samples = inputs.current.draws[client].samples
        words = encode(vector, layout, samples, inputs.graph.total_samples, self.config.masking.bound, in_place=True)
        if len(behind):
            words = np.concatenate([words, behind])
        return masked_bytes(inputs, client, secrets, words, layout, len(behind))

    def vector(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> np.ndarray:
        """The vector to sum: float32, the weights or the update, clipped at the bound.

        A model may come to lie at the bound by what others upload. A client must be able to train from it: if it
        refused to upload what training carried beyond, nothing could ever lead the model back. Only where the terms'
        own first model is beyond their bound it refuses, as the terms are wrong.
        """
        bound = self.config.masking.bound
        fits = self.config.masking.masked == "delta" or largest(inputs.start(inputs.read())) <= np.float32(bound)
        bare = self._bare(inputs, update)
        return kept_within(bare, bound) if fits else bare

    def caution(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> str:
        if inputs.only_evaluates:
            return update.caution
        bare = self._bare(inputs, update)
        beyond = values_beyond(bare, self.config.masking.bound)
        cut = f"with {beyond} of {len(bare)} values cut off at masking.bound" if beyond else ""
        return "; ".join(filter(None, (cut, update.caution)))

    def mean(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        summed, positions = self._sum(inputs, record)
        words, behind = np.split(summed, [uploaded(inputs).length])
        members = members_metrics(inputs, behind, positions)
        if inputs.only_evaluates:
            return Outcome(inputs.previous, members=members)
        bound, total = self.config.masking.bound, inputs.graph.total_samples
        # Rounding may carry a mean of values at the bound a little beyond it.
        mean = decode(words, sum(_samples(inputs, positions)), total, bound, in_place=True)
        vector = kept_within(mean, bound)
        if self.config.masking.masked == "delta":
            add(vector, inputs.previous)
        return Outcome(unflatten(vector, inputs.layout), members=members)

    def _sum(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> tuple[np.ndarray, Collection[int]]:
        """The sum, and the positions whose it is: of all survivors, or of the groups that nobody spoilt."""
        if not inputs.graph.groups:
            return self._checked_sum(inputs, record, inputs.survivors, None), inputs.survivors
        total, summed = np.zeros(uploaded(inputs).length + words_behind(self.config), WORD), []
        for group in opened_groups(inputs.graph, inputs.survivors, record.left_out):
            if not group:
                continue
            try:
                total += self._checked_sum(inputs, record, group, group)
            except InvalidUpdate:
                continue  # the audit names the group; the others are none the worse
            summed += group
        if not summed:
            raise InvalidUpdate("every group has an upload that cannot be summed", 0)
        return total, summed

    def _checked_sum(
        self,
        inputs: RoundInputs[Tensors],
        record: RecoveryRecord,
        positions: Collection[int],
        group: Collection[int] | None,
    ) -> np.ndarray:
        layout = uploaded(inputs)
        words = unmasked_sum(inputs, record, layout, group, words_behind(self.config))
        samples, model = _samples(inputs, positions), words[: layout.length]
        if layout.names:
            check_sum(model, Limits(largest_sum(samples, inputs.graph.total_samples, self.config.masking.bound)))
        return words

    def _bare(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> np.ndarray:
        return inputs.change(update.tensors) if self.config.masking.masked == "delta" else flatten(update.tensors)


def _samples(inputs: RoundInputs[Tensors], positions: Collection[int]) -> list[int]:
    return [inputs.graph.participants[position].samples for position in positions]
