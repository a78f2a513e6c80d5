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
        if not round.sums(client):
            return b""
        vector, layout = self.vector(round, update), Layout.of(update)
        samples = round.entry.draws[client].samples
        words = encode(vector, layout, samples, round.graph.total_samples, self.config.masking.bound)
        return masked_bytes(round, client, secrets, words, layout)

    def vector(self, round: UploadRound, update: Tensors) -> np.ndarray:
        """What is summed: float32, the weights or the update."""
        return round.change(update) if self.config.masking.masked == "delta" else flatten(update)

    def expected_bytes(self, round: UploadRound, client: int) -> int:
        return super().expected_bytes(round, client) if round.sums(client) else 0

    def parts(self, n: int) -> Adjacency:
        masking = self.config.masking
        return parts(n, group_size(n, Assumed.of(masking.colluders, masking.dropouts)))

    def outcome(self, round: UploadRound, record: RecoveryRecord) -> Outcome:
        words, positions = self._sum(round, record)
        vector = self._mean(round, words, positions)
        if self.config.masking.masked == "delta":
            vector = flatten(round.previous) + vector
        return Outcome(unflatten(vector, round.layout))

    def _sum(self, round: UploadRound, record: RecoveryRecord) -> tuple[np.ndarray, Collection[int]]:
        """The sum, and whose it is: of all, or of the groups that nobody spoilt."""
        if not round.graph.groups:
            words = unmasked_sum(round, record, round.layout)
            check_mean(self._mean(round, words, round.survivors), self.config.masking.bound)
            return words, round.survivors
        total, summed = np.zeros(round.layout.length, WORD), []
        for group in opened_groups(round.graph, round.survivors, record.left_out):
            try:
                words = unmasked_sum(round, record, round.layout, group) if group else None
                if words is not None:
                    check_mean(self._mean(round, words, group), self.config.masking.bound)
                    total += words
                    summed += group
            except InvalidUpdate:
                continue  # the audit names the group; the others are none the worse
        if not summed:
            raise InvalidUpdate("in every group somebody sent what cannot be summed", min(round.entry.commits))
        return total, summed

    def _mean(self, round: UploadRound, words: np.ndarray, positions: Collection[int]) -> np.ndarray:
        """The weighted mean behind the sum of these positions' uploads: float32 (d,)."""
        participants = round.graph.participants
        samples = sum(participants[position].samples for position in positions)
        return decode(words, samples, round.graph.total_samples, self.config.masking.bound)

    def planned_release(self, number: int, parameters: int) -> Release:
        return GaussianRelease(0.0)

    def release(self, entry: RoundRecords, parameters: int) -> Release:
        return GaussianRelease(0.0)
