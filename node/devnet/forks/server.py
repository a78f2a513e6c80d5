"""Serve ``fedgrove`` at a socket: import its libraries once, and fork for each command.

    python -m fedgrove.node.devnet.forks.server SOCKET PROGRAM MODULE…

A fork runs the module PROGRAM, for ``fedgrove`` that of its command. The socket's folder is removed at the end, which
is the end of the input.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

LIMIT = 1 << 20
_END_WITH_PARENT = 1  # prctl(2)


def serve(path: str, modules: Sequence[str]) -> None:
    """Serve until the end of the input; return in the fork of each command, ready to run it."""
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
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
    # Python 3.12 and later warn wherever libraries have threads. Theirs wait, and children do not use them.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
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
                shutil.rmtree(Path(path).parent, ignore_errors=True)
                os._exit(0)
            elif isinstance(key.fileobj, socket.socket):
                message, files, _, _ = socket.recv_fds(key.fileobj, LIMIT, 3)
                if message:
                    process = os.fork()
                    if not process:
                        return _become(json.loads(message), files, selector)
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


def _reap(running: dict[socket.socket, int]) -> None:
    waiting = {process: each for each, process in running.items()}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if each := waiting.get(ended[0]):
                del running[each]
                with contextlib.suppress(OSError):
                    each.send(b"%d" % ended[1])


def _become(request: dict[str, Any], files: list[int], selector: selectors.BaseSelector) -> None:
    """Take over the descriptors, folder, environment and arguments of a command; end with the server."""
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    for each in [key.fd for key in selector.get_map().values()]:
        os.close(each)
    selector.close()
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


def _run(program: str) -> NoReturn:
    """Run the program and end as Python does, without taking its libraries apart, which copies their memory first."""
    code = 0
    try:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as fault:
        sys.excepthook(type(fault), fault, fault.__traceback__)
        code = 1
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue] (what Python itself calls then)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _, path, wanted, *modules = sys.argv
    serve(path, modules)
    _run(wanted)
