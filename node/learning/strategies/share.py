"""Share: the baseline of Hou and Dong 2024, 4.6 (after Zhao et al. 2018, "Federated Learning with Non-IID Data").

FedAvg with the shared set mixed into every client's data.
"""

from dataclasses import dataclass

import numpy as np
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.strategies.fedavg import FedAvg


@dataclass(frozen=True)
class Share(FedAvg):
    """FedAvg on the client's own samples and the shared ones; no options.

    A client's weight in the mean stays the number of its own samples.
    """

    @property
    def needs_shared(self) -> bool:
        return True

    def local_data(self, samples: Samples, shared: Samples | None) -> Samples:
        """The client's own samples, then the shared ones; training shuffles them at every epoch."""
        if shared is None:
            raise ValueError("share needs a shared set: give the federation one, or choose the strategy fedavg")
        return Samples(np.concatenate([samples.x, shared.x]), np.concatenate([samples.y, shared.y]))
