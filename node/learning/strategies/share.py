"""Share: the baseline of Hou and Dong 2024, 4.6 (after Zhao et al. 2018, "Federated Learning with Non-IID Data").

FedAvg with the shared set mixed into every client's data.
"""

from dataclasses import dataclass
from typing import Any

from fedgrove.node.learning.strategies.base import Strategy
from fedgrove.node.learning.tasks.task import joined


@dataclass(frozen=True)
class Share(Strategy):
    """FedAvg on the client's own samples and the shared ones; no options.

    A client's weight in the mean stays the number of its own samples.
    """

    def local_data(self, samples: Any, shared: Any) -> Any:
        """The client's own samples, then the shared ones; training shuffles them at every epoch."""
        return joined(samples, shared)
