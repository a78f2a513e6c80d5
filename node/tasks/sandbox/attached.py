"""The node's end of a warm process: start it, begin and end jobs in it."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from fedgrove.common.text import one_line
from fedgrove.common.wire import decode
from fedgrove.node.tasks.sandbox.faults import SandboxUnavailable
from fedgrove.node.tasks.sandbox.launch import Launched, launch, python
from fedgrove.node.tasks.sandbox.settings import Visible, WarmSettings
from fedgrove.node.tasks.sandbox.warm import END, MESSAGE

_PATIENCE = 10.0  # seconds for the warm process to say how a job ended: it only has to kill it


@dataclass(frozen=True)
class Ending:
    """How the process of a job ended: its status as of wait(2), and the most memory that it used, in bytes."""

    status: int
    peak: int


@dataclass(frozen=True)
class Attached:
    """A warm process and the socket by which it hears from the node."""

    launched: Launched
    control: socket.socket

    @classmethod
    def start(cls, settings: WarmSettings, outside: Visible, environment: Mapping[str, str]) -> "Attached":
        """Start a process and wait until it has imported what jobs need; ``SandboxUnavailable`` where it does not."""
        control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inner:
            program = python("-m", "fedgrove.node.tasks.sandbox.warm", str(inner.fileno()))
            attached = cls(launch(settings.mode, outside, program, [inner], environment), control)
        with suppress(OSError):  # it is away, or too slow: then the answer is missing, too
            control.settimeout(settings.limits.start_seconds)
            control.send(settings.dump())
            if control.recv(MESSAGE):
                return attached
        complaint = one_line(attached.launched.complaint(), 300)
        attached.close()
        raise SandboxUnavailable(f"the process for a task's code did not start: {complaint or 'it took too long'}")

    def begin(self, entry: str) -> tuple[int, int]:
        """Start a job; the descriptors to write its request to and to read its reply from."""
        request, writing = os.pipe()
        reading, reply = os.pipe()
        try:
            socket.send_fds(self.control, [entry.encode()], [request, reply])
        except OSError:
            os.close(writing)
            os.close(reading)
            raise
        finally:
            os.close(request)
            os.close(reply)
        return writing, reading

    def end(self) -> Ending | None:
        """Kill the job if it still runs; how it ended, or None where the warm process does not answer."""
        try:
            self.control.settimeout(_PATIENCE)
            self.control.send(END)
            said = self.control.recv(MESSAGE)
        except OSError:
            return None
        return decode(Ending, said, MESSAGE) if said else None

    def close(self) -> None:
        self.control.close()
        self.launched.close()
