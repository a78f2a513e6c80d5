"""What uploads cost that are private by themselves: the same in every round, whoever else takes part."""

from fedgrove.node.privacy import local, signds
from fedgrove.node.privacy.accountant import GaussianRelease, Release
from fedgrove.node.privacy.settings import LocalSettings, SignDsSettings
from fedgrove.node.protocol.accounting import Accounting
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import FederationConfig


class UploadAccounting(Accounting):
    """Local differential privacy or SignDS; TypeError under terms with another mechanism."""

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        if not isinstance(config.privacy, LocalSettings | SignDsSettings):
            raise TypeError(f"the terms' mechanism is {config.mechanism}, whose uploads cost nothing by themselves")
        self._settings = config.privacy
        self.budget = config.privacy.budget or None
        self.delta = config.privacy.delta

    def planned_release(self, number: int, parameters: int) -> Release:
        if isinstance(self._settings, SignDsSettings):
            return signds.mechanism_for(self._settings, parameters).release
        return GaussianRelease(local.mechanism_for(self._settings, parameters).noise_multiplier)

    def release(self, current: RoundRecords, parameters: int) -> Release:
        return self.planned_release(current.number, parameters)
