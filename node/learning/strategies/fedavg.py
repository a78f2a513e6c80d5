"""FedAvg: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data".

Local SGD on the task's loss alone.
"""

from dataclasses import dataclass

from fedgrove.node.learning.strategies.base import Strategy


@dataclass(frozen=True)
class FedAvg(Strategy):
    """Plain federated averaging; no options."""
