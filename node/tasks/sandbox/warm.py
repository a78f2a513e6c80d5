"""The process that imports what jobs need once and forks for each.

It is started as ``python -m fedgrove.node.tasks.sandbox.warm DESCRIPTOR``.

It runs no line of a task and reads nothing that a task wrote; it hears from the node alone, by a socket that no job
inherits, and ends when the node does. For each ``run`` that it hears it starts a job and says how the job ended, by
itself or, at the node's ``end``, killed.
"""

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress

from fedgrove.node.base.memory import keep_private
from fedgrove.node.tasks.sandbox.contain import NOBODY, REPLY, REQUEST, contain
from fedgrove.node.tasks.sandbox.job import perform
from fedgrove.node.tasks.sandbox.settings import Mode, WarmSettings

MESSAGE = 65536  # bytes
NOT_CONTAINED = 91  # exit code of a job that did not begin
END = b"end"


def main(descriptor: int) -> None:
    keep_private()
    control = socket.socket(fileno=descriptor)
    settings = WarmSettings.load(control.recv(MESSAGE))
    gc.disable()  # an eighth of what it takes to import torch
    for module in settings.preload:
        importlib.import_module(module)
    gc.enable()
    gc.collect()
    gc.freeze()  # jobs share these pages for as long as nobody counts their references
    control.send(b"ready")
    while _serve(control, settings):
        pass


def _serve(control: socket.socket, settings: WarmSettings) -> bool:
    """Run one job; whether there may be another."""
    message, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 2)
    if not message:
        return False
    request, reply = descriptors
    scratch = _scratch(settings)
    pid = os.fork()
    if not pid:
        _job(settings, message.decode(), request, reply, scratch)
    os.close(request)
    os.close(reply)
    ended = _attend(control, pid, settings)
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)  # what a job made unremovable must not stop the next one
    return ended


def _job(settings: WarmSettings, entry: str, request: int, reply: int, scratch: str | None) -> None:
    """The life of a job's process: it never returns."""
    try:
        contain(settings, request, reply)
        if scratch:
            os.chdir(scratch)
            os.environ["HOME"] = os.environ["TMPDIR"] = scratch
    except BaseException as fault:
        os.write(2, f"{type(fault).__name__}: {fault}\n".encode())
        os._exit(NOT_CONTAINED)
    try:
        perform(entry, settings.visible, REQUEST, REPLY)
    finally:
        os._exit(0)  # no handler that the task left behind runs


def _attend(control: socket.socket, pid: int, settings: WarmSettings) -> bool:
    """Wait until the job has ended and the node is through with it; whether the node is still there."""
    process = os.pidfd_open(pid)
    try:
        # A node with many files hands over a descriptor that is too large for select().
        waiting = select.poll()
        for descriptor in (control.fileno(), process):
            waiting.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll()}
        received = control.recv(MESSAGE) if control.fileno() in ready else None
        _kill(pid, settings)
        _, status, usage = os.wait4(pid, 0)
    finally:
        os.close(process)
    if received != b"":
        control.send(json.dumps({"status": status, "peak": usage.ru_maxrss * 1024}).encode())
        received = received or control.recv(MESSAGE)
    return received == END


def _kill(pid: int, settings: WarmSettings) -> None:
    """Kill a job; with ``off`` it may have started others, which are of its group for as long as they wish."""
    os.kill(pid, signal.SIGKILL)
    if settings.mode is Mode.OFF:
        with suppress(ProcessLookupError):  # it had no group of its own yet
            os.killpg(pid, signal.SIGKILL)


def _scratch(settings: WarmSettings) -> str | None:
    """A folder for a job that no file system of its own is mounted for, with ``off``; other modes need none."""
    if settings.mode is not Mode.OFF:
        return None
    folder = tempfile.mkdtemp(prefix="fedgrove-job-")
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    return folder


if __name__ == "__main__":
    main(int(sys.argv[1]))
