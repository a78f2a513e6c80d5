"""Local differential privacy (spec 04, seed 002): each upload has its own noise before it meets its masks.

``node.privacy.local`` for real rounds. What leaves the client is private by itself: neither masks nor survivors nor the
coordinator matter to the guarantee. Sample counts weigh, as without privacy; they are on the ledger anyway.
"""

import os

import numpy as np
from fedgrove.node.base.tensors import Layout, Tensors, flatten
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.methods.training.codec import settings_of
from fedgrove.node.methods.training.masked import MaskedUploads
from fedgrove.node.methods.training.update import ModelUpdate
from fedgrove.node.privacy.local import mechanism_for, noisy_model
from fedgrove.node.privacy.records import LocalRecord
from fedgrove.node.privacy.settings import LocalSettings
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.terms import FederationConfig


class LocalUploads(MaskedUploads):
    """Clipped updates with noise, within the bound of the masks, and then like weights or updates without."""

    hides_divergence = True

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, LocalSettings)

    def upload_bytes(self, layout: Layout) -> int:
        mechanism_for(self._settings, layout.length)
        return super().upload_bytes(layout)

    def vector(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> np.ndarray:
        try:
            mechanism = mechanism_for(self._settings, inputs.layout.length)
        except ValueError as fault:
            raise MaskingRefused(str(fault)) from None
        masking = self.config.masking
        start = flatten(inputs.previous) if masking.masked == "weights" else np.zeros(1, np.float32)
        return noisy_model(mechanism, start, inputs.change(update.tensors), masking.bound, os.urandom)

    def caution(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> str:
        return ""  # what is cut off is noise, and would say something about the update

    def mean(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        settings = self._settings
        stated = LocalRecord(
            epsilon=None,
            delta=settings.delta,
            upload_epsilon=settings.epsilon,
            clip=settings.clip,
            uploads=len(inputs.survivors),
        )
        return Outcome(super().mean(inputs, record).model, stated)
