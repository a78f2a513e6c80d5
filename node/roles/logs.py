"""Structured logs of a service: one JSON object a line on stderr, only fields that are named here.

Secrets cannot get in by carelessness: what is logged are numbers, names and the sentences that roles say of themselves,
never keys, journal notes, configurations or arguments of calls. Of a fault in the member's data, or in a task's code,
they say kind and place. Its text, which may quote the data, is in the log only where the member asks for that.
"""

import errno
import json
import sys
from datetime import UTC, datetime
from typing import TextIO

from fedgrove.node.protocol.step import Step

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk, and of a full quota."""


class ServiceLog:
    """Writes what a service does.

    Parameters
    ----------
    role : str
        ``client``, ``coordinator`` or ``standby``.
    stream : TextIO
        Where lines go; each is flushed.
    verbose : bool
        Write the texts of faults, too (``Step.detail``).
    """

    def __init__(self, role: str, stream: TextIO | None = None, verbose: bool = False) -> None:
        self._role, self._verbose = role, verbose
        self._stream = stream if stream is not None else sys.stderr
        self._last: dict[str, tuple[int, str]] = {}
        self.client = 0

    def step(self, role: str, number: int, block: int, step: Step) -> None:
        """Log what a role did, or whom it waits for if that has changed."""
        if self._last.get(role) == (number, step.acted or step.waiting) and not step.acted:
            return
        self._last[role] = (number, step.acted or step.waiting)
        facts = {"role": role, "round": number, "phase": step.phase, "block": block}
        facts |= {"detail": step.detail} if step.detail and self._verbose else {}
        if step.acted:
            self.write("warning" if step.warns else "info", step.acted, gas=step.gas, **facts)
        else:
            self.write("info", f"waits for {step.waiting}", until=step.until, **facts)

    def fault(self, role: str, kind: str, sentence: str) -> None:
        """Log that the chain or the store made a step fail, once while the failure lasts."""
        if self._last.get(role) != (0, sentence):
            self._last[role] = (0, sentence)
            self.write("warning", sentence, role=role, kind=kind)

    def write(self, level: str, event: str, **facts: str | int | float) -> None:
        """Write one line: time (UTC), level, event, role, the client's index once it is known, and ``facts``."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level, "event": event}
        line |= {"role": self._role} | ({"client": self.client} if self.client else {}) | facts
        try:
            print(json.dumps(line), file=self._stream, flush=True)
        except OSError as fault:
            if fault.errno not in NO_ROOM:  # a member whose disk is full waits for room, and its log must not end it
                raise
