"""Local differential privacy: each upload has its own noise before it meets its masks.

What leaves the client is private by itself (``node.privacy.local``): neither masks nor survivors nor the coordinator
matter to the guarantee. Sample counts weigh, as without privacy; they are on the ledger anyway.
"""

from dataclasses import replace

from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.methods.training.codec import settings_of
from fedgrove.node.methods.training.masked import MaskedUploads
from fedgrove.node.privacy.local import LocalMean
from fedgrove.node.privacy.records import LocalRecord
from fedgrove.node.privacy.settings import LocalSettings
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.terms import FederationConfig


class LocalUploads(MaskedUploads):
    """Clipped updates with noise, within the bound of the masks, and then like weights or updates without."""

    kind = LocalMean

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, LocalSettings)

    def mechanism(self, layout: Layout) -> LocalMean:
        return LocalMean(layout, self.config.masking.bound, self.config.masking.masked, settings=self._settings)

    def mean(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        settings = self._settings
        stated = LocalRecord(
            epsilon=None,
            delta=settings.delta,
            upload_epsilon=settings.epsilon,
            clip=settings.clip,
            uploads=len(inputs.survivors),
        )
        return replace(super().mean(inputs, record), privacy=stated)
