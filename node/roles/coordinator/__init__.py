"""The coordinator: opens rounds, seals the order, recovers dropouts, closes with the next model.

It holds no secret but its account key and decides nothing that others cannot recompute: the sample is drawn by VRF, the
survivors are the ledger's commit list, the closed model is a deterministic function of both.

role     the coordinator itself: which phase is due
context  what the phases work with, what a round came to, and how a round is recorded as failed
opening  opens a round, fixes the seed, waits for draws, seals the order
summing  waits for shares and commitments, takes the masks off the sum, closes the round with the next model
"""

from fedgrove.node.roles.coordinator.role import NOTHING, Coordinator

__all__ = ["NOTHING", "Coordinator"]
