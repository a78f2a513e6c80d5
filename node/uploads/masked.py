"""Weights, or updates against the round's global model, as they are, under masks; weighted by sample counts."""

import numpy as np

from node.masking.keys import RoundSecrets
from node.masking.recovery import RecoveryRecord
from node.masking.ring import WORD, decode, encode
from node.privacy.accountant import GaussianRelease, Release
from node.rounds import RoundRecords
from node.tensors import Layout, Tensors, flatten, unflatten
from node.uploads.kind import Outcome, UploadKind, UploadRound
from node.uploads.ring import masked_bytes, unmasked_sum


class MaskedUploads(UploadKind):
    """No mechanism of differential privacy: what the masks leave is the exact weighted mean (spec 02)."""

    def upload_bytes(self, layout: Layout) -> int:
        return WORD.itemsize * layout.length

    def encode(self, round: UploadRound, client: int, secrets: RoundSecrets, update: Tensors) -> bytes:
        vector, layout = self.vector(round, update), Layout.of(update)
        samples = round.entry.draws[client].samples
        words = encode(vector, layout, samples, round.graph.total_samples, self.config.masking.bound)
        return masked_bytes(round, client, secrets, words, layout)

    def vector(self, round: UploadRound, update: Tensors) -> np.ndarray:
        """What is summed: float32, the weights or the update."""
        return round.change(update) if self.config.masking.masked == "delta" else flatten(update)

    def outcome(self, round: UploadRound, record: RecoveryRecord) -> Outcome:
        words = unmasked_sum(round, record, round.layout)
        participants = round.graph.participants
        samples = sum(participants[position].samples for position in round.survivors)
        vector = decode(words, samples, round.graph.total_samples, self.config.masking.bound)
        if self.config.masking.masked == "delta":
            vector = flatten(round.previous) + vector
        return Outcome(unflatten(vector, round.layout))

    def planned_release(self, number: int, parameters: int) -> Release:
        return GaussianRelease(0.0)

    def release(self, entry: RoundRecords, parameters: int) -> Release:
        return GaussianRelease(0.0)
