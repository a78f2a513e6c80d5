"""Waiting for new blocks. (Polling only, for now: the subscription is on its way.)"""

import time
from collections.abc import Sequence
from typing import Self


class Heads:
    """Lets a service sleep until there may be a new block."""

    def __init__(self, urls: Sequence[str], websocket: str = "", poll_seconds: float = 1.0) -> None:
        self._poll_seconds = poll_seconds

    def wait(self, seconds: float) -> None:
        """Return after at most this long, or the polling interval."""
        time.sleep(min(seconds, self._poll_seconds))

    def close(self) -> None:
        """Nothing to end yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
