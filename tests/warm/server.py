"""Serve ``fedgrove`` at a socket: import its libraries once, and fork for each command."""

import atexit
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from typing import Any, NoReturn

LIMIT = 1 << 20
# What commands import when they run.
LATER = (
    *("fedgrove.chain.embedded", "fedgrove.node.devnet.demo", "sklearn.datasets"),
    *("fedgrove.node.lab.simulation.task_folder", "fedgrove.node.roles.client", "fedgrove.node.roles.coordinator"),
    "fedgrove.node.audit.auditor",
)


def serve(path: str) -> None:
    """Serve until the end of the input; return in the fork of each command, ready to run it."""
    _import()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[socket.socket, int] = {}  # the process by whoever waits for it
    selector = selectors.DefaultSelector()
    for each in (listener, woken, 0):
        selector.register(each, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
            elif key.fileobj == woken:
                os.read(woken, 1 << 16)
                _reap(running)
            elif key.fileobj == 0:
                for process in running.values():
                    os.kill(process, signal.SIGKILL)
                os._exit(0)
            elif isinstance(key.fileobj, socket.socket):
                message, files, _, _ = socket.recv_fds(key.fileobj, LIMIT, 3)
                if message:
                    process = os.fork()
                    if not process:
                        selector.close()
                        return _become(json.loads(message), files)
                    for each in files:
                        os.close(each)
                    running[key.fileobj] = process
                    key.fileobj.send(b"%d" % process)
                    continue
                selector.unregister(key.fileobj)
                key.fileobj.close()
                if process := running.pop(key.fileobj, 0):
                    # Whoever waited was killed. The next command, which may be the same again, finds this one gone.
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)


def _import() -> None:
    from fedgrove.node.cli.main import COMMANDS

    for name in (*(place.split(":")[0] for place in COMMANDS.values()), *LATER):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _reap(running: dict[socket.socket, int]) -> None:
    waiting = {process: each for each, process in running.items()}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if each := waiting.get(ended[0]):
                del running[each]
                with contextlib.suppress(OSError):
                    each.send(b"%d" % ended[1])


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Take over the descriptors, folder, environment and arguments of a command."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (open until the process ends)
    sys.stdout = open(1, "w", closefd=False, buffering=1 if os.isatty(1) else -1)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    tempfile.tempdir = None  # as TMPDIR has it now
    sys.argv = ["fedgrove", *request["arguments"]]
    sys.modules["__main__"] = types.ModuleType("__main__")  # processes that it spawns do not import this file


def _end(command: Callable[[], None]) -> NoReturn:
    """Run the command and end as Python does, but for taking its libraries apart, which copies their memory first."""
    code = 0
    try:
        command()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
    from fedgrove.node.cli.main import run

    _end(run)
