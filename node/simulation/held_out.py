"""Which samples a simulated client holds out: as a member does, by a secret that follows from the scenario's seed."""

import hashlib
from dataclasses import dataclass, field

from fedgrove.node.learning.held_out import HoldOutRule
from fedgrove.node.learning.settings import EvaluationSettings


@dataclass
class SimulatedHoldOut:
    """A client's rule. Its data never change, so there is no boundary to remember."""

    rule: HoldOutRule
    boundary: bytes = field(default=b"", init=False)

    def remember(self, boundary: bytes) -> None:
        self.boundary = boundary


def held_out_by(settings: EvaluationSettings, seed: int, client: int) -> SimulatedHoldOut:
    """The rule of a client; members of a federation have secrets of their own instead."""
    secret = hashlib.sha256(f"fedgrove simulated held-out samples {seed} {client}".encode()).digest()
    return SimulatedHoldOut(HoldOutRule(secret, settings.millionths))
