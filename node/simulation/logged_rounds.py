"""Rounds of a simulation in logs, in addition to another watcher."""

import time
from collections.abc import Mapping
from typing import Any

from fedgrove.node.simulation.record import RoundResult
from fedgrove.node.simulation.session import Watcher
from fedgrove.node.status.figure_targets import FigureLogs


class LoggedRounds:
    """Passes on what goes on to another watcher, and each round's figures to the logs.

    A run is named by the time at which the simulation was started, and its seed.
    """

    def __init__(self, watcher: Watcher, logs: FigureLogs) -> None:
        self._watcher, self._logs = watcher, logs
        self._started = time.strftime("%Y%m%d-%H%M%S")
        self._run = ""

    def begin(self, label: str, rounds: int) -> None:
        """As ``Watcher``."""
        self._run = f"{self._started}-{label.replace(' ', '-')}"
        self._watcher.begin(label, rounds)

    def advance(self, result: RoundResult) -> None:
        """As ``Watcher``."""
        self._watcher.advance(result)
        self._logs.write(self._run, result.round, _figures(result))

    def compared(self, done: int, total: int) -> None:
        """As ``Watcher``."""
        self._watcher.compared(done, total)


def _figures(result: RoundResult) -> dict[str, float]:
    plain = ("accuracy", "loss", "train_loss", "samples", "ood_accuracy")
    named: dict[str, Any] = {name: getattr(result, name) for name in plain} | {"clients": len(result.clients)}
    if result.clustering is not None:
        named |= {name: getattr(result.clustering, name) for name in ("personal_accuracy", "backdoor")}
    released: Mapping[str, Any] = result.privacy or {}
    found = named | {f"privacy.{name}": value for name, value in released.items()}
    return {name: value for name, value in found.items() if isinstance(value, int | float) and value is not True}
