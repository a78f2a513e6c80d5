"""Something done in a process of its own that may neither hang nor take more memory than it should."""

import os
import pickle
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HANGS, TOO_MUCH = "it hangs", "it takes too much memory"
_MIB = 1 << 20


@dataclass(frozen=True)
class Raised:
    """An exception that it ended with."""

    kind: type[BaseException]
    message: str


def bounded(act: Callable[[], Any], seconds: float = 20.0, mebibytes: int = 512) -> Any:
    """What ``act`` returns, or ``HANGS``, or ``TOO_MUCH``, or what it ``Raised``.

    ``mebibytes`` come on top of what this process has by now.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _run(act, writer, mebibytes)
    os.close(writer)
    deadline, ended = time.monotonic() + seconds, 0
    with os.fdopen(reader, "rb") as pipe:
        while not ended and time.monotonic() < deadline:
            ended, _ = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return HANGS
        told = pipe.read()
    result = pickle.loads(told) if told else TOO_MUCH
    return TOO_MUCH if isinstance(result, Raised) and result.kind is MemoryError else result


def _run(act: Callable[[], Any], writer: int, mebibytes: int) -> None:
    try:
        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + mebibytes * _MIB,) * 2)
        try:
            result = act()
        except Exception as fault:
            result = Raised(type(fault), str(fault))
        os.write(writer, pickle.dumps(result))
    finally:
        os._exit(0)
