"""The coordinator: opens rounds, seals the order, recovers dropouts, closes with the next model.

It holds no secret but its account key and decides nothing that others cannot recompute: the sample is drawn by VRF, the
survivors are the ledger's commit list, the closed model is a deterministic function of both.

role     the coordinator itself: which phase is due
phase    in which phase a round is for a coordinator
context  what the phases work with
outcomes what a round came to, kept from recovery to closing
report   reports the clients that drew and did not commit
open     opens a round, the first one or the next
seal     fixes the seed, waits for draws, seals the order
gather   waits while clients share and commit
recover  recovers what masks the sum, or records why it cannot
close    closes the round with the next model and its metrics
failure  records rounds that failed, and those past a deadline
"""

from fedgrove.node.roles.coordinator.role import NOTHING, Coordinator

__all__ = ["NOTHING", "Coordinator"]
