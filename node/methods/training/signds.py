"""SignDS (Jiang et al. 2022): each upload is a sign and a few dimensions, chosen under local differential privacy.

``node.privacy.signds`` for real rounds. An upload is committed, published and audited like any other, but wears no
masks: it is private by itself. The phases of sharing and recovery stay, as the ledger's protocol has them, and recover
seeds that hide nothing.

An upload that is no selection counts as none, and all others are averaged without it. Everybody can tell, as uploads
are open; under masks a round would fail.
"""

import os

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.store import Malformed, TooLarge
from fedgrove.node.base.tensors import Layout, Tensors, flatten, unflatten
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.training.codec import ModelCodec, ModelUpdate, settings_of
from fedgrove.node.privacy.mechanism import Weight
from fedgrove.node.privacy.records import SignDsRecord
from fedgrove.node.privacy.settings import SignDsSettings
from fedgrove.node.privacy.signds import Selection, SignDsVotes, add_vote, mechanism_for
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.terms import FederationConfig


class SignDsUploads(ModelCodec):
    """Selections of dimensions, in the open; all clients weigh the same."""

    kind = SignDsVotes

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, SignDsSettings)

    def upload_bytes(self, layout: Layout) -> int:
        return mechanism_for(self._settings, layout.length).upload_bytes

    def encode(self, inputs: RoundInputs[Tensors], client: int, secrets: RoundSecrets, update: ModelUpdate) -> bytes:
        try:
            votes = self._votes(inputs, Layout.of(update.tensors))
        except (InvalidInput, InvalidContent) as fault:
            raise MaskingRefused(str(fault)) from None
        return votes.select(flatten(update.tensors), lambda: inputs.previous, os.urandom).to_bytes()

    def mean(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        votes, listed = self._votes(inputs, inputs.layout), inputs.current.commits
        mechanism, words, refused = votes.mechanism, np.zeros(votes.length, WORD), 0
        for commit in listed.values():
            try:
                data = inputs.store.fetch(commit.digest, mechanism.upload_bytes)
                add_vote(words.view("<i4"), Selection.from_bytes(data, mechanism))
            except (TooLarge, Malformed, InvalidContent):
                refused += 1
        if refused == len(listed):
            raise InvalidUpdate("none of the uploads is a selection of dimensions", min(listed))
        vector = votes.mean(words, lambda: inputs.previous, Weight(len(listed) - refused, len(listed)))
        stated = SignDsRecord(
            epsilon=None,
            delta=self._settings.delta,
            upload_epsilon=self._settings.epsilon,
            dimensions=mechanism.dimensions,
            threshold=mechanism.threshold,
            step=votes.step,
            uploads=len(listed),
            refused=refused,
        )
        return Outcome(unflatten(vector, inputs.layout), stated)

    def _votes(self, inputs: RoundInputs[Tensors], layout: Layout) -> SignDsVotes:
        return SignDsVotes(layout, self._settings, inputs.current.number)
