"""Run jobs of a task in a sandbox, one after the other: ``Worker``, what a node uses.

    with Worker(choose(), Visible(task, data), preload=("torch",)) as worker:
        header = {"file": "task.py", "function": "train"}
        reply = worker.run("fedgrove.node.tasks.sandbox.script:run", header, model, layout)

The process that imports torch is kept warm between jobs; each job is a fork of it, contained before a line of the task
runs and killed once it has answered, so that nothing of a job is there for the next.
"""

import builtins
import errno
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from fedgrove.common.chunks import Buffer
from fedgrove.common.text import one_line
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.tasks.sandbox import bubblewrap, runtime
from fedgrove.node.tasks.sandbox.attached import Attached, Ending
from fedgrove.node.tasks.sandbox.exchange import DeadlinePassed, Ended, exchange
from fedgrove.node.tasks.sandbox.faults import (
    JobFailed,
    JobOutOfMemory,
    JobRaised,
    JobTimedOut,
    SandboxUnavailable,
)
from fedgrove.node.tasks.sandbox.frames import body_limit, pack, parse_header, parse_tensors
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.settings import Mode, Visible, WarmSettings
from fedgrove.node.tasks.sandbox.warm import NOT_CONTAINED

_COMPLAINT = "InvalidTask"
"""What fedgrove itself raises about a task (``fedgrove.node.learning.tasks``): its message is a whole sentence."""
_PLACE = re.compile(r"([\w./-]{1,100}), line [0-9]{1,6}")


@dataclass(frozen=True)
class Reply:
    """What a job answered, checked; its time in seconds and the most memory that it used, in bytes."""

    header: Mapping[str, Any]
    tensors: Tensors
    seconds: float
    peak: int


class Worker:
    """Jobs of one task on one source of data. Not for several threads at once, but any may close it during a job.

    Parameters
    ----------
    visible
        The task's code, data and bases, the only files that a job sees in addition to the interpreter.
    preload
        Modules that are imported once: of the product and its dependencies, never a task's.
    private
        Files that no job may see: a task or data that holds one of them is refused.
    environment
        Variables that the process gets in addition to those that it needs.
    """

    def __init__(
        self,
        mode: Mode,
        visible: Visible,
        limits: JobLimits | None = None,
        preload: Iterable[str] = (),
        private: Iterable[Path] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ):
        bases = {name: _found(path) for name, path in visible.bases.items()}
        self._outside = Visible(_found(visible.task), visible.data and _found(visible.data), bases)
        refuse_private(self._outside, private)
        self._settings = _settings(mode, self._outside, limits or JobLimits(), tuple(preload))
        self._environment = environment
        self._attached: Attached | None = None
        self._closing = threading.Lock()
        self._closed = False

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the warm process, unless it runs: seconds, where torch is among the preloaded modules."""
        self._running()

    def close(self) -> None:
        """End the warm process, and with it a job that runs; there is no further one."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        with self._closing:
            attached, self._attached = self._attached, None
        if attached is not None:
            attached.close()

    def run(
        self,
        entry: str,
        header: Mapping[str, Any],
        tensors: Tensors | None = None,
        expected: Layout | None = None,
        seconds: float | None = None,
    ) -> Reply:
        """Run one job and check what it answers.

        Parameters
        ----------
        entry
            ``module:function`` of the product, a ``job.Entry``.
        expected
            Layout of the tensors that must come back; none by default.
        seconds
            Time limit of this job; by default that of the worker.

        Raises
        ------
        JobFailed
            One of its kinds, with one sentence; the worker can run the next job.
        SandboxUnavailable
            The sandbox did not start.
        """
        parts = pack(header, tensors or {})
        limits = self._settings.limits
        if sum(map(len, parts)) > limits.request:
            raise JobFailed(f"a job of a task may be given {limits.request} bytes at most, not {sum(map(len, parts))}")
        most_bytes = body_limit(expected)
        if most_bytes > limits.reply:
            raise JobFailed(f"a job of a task may return {limits.reply} bytes at most, and {most_bytes} are expected")
        began, most = time.monotonic(), seconds or limits.seconds
        try:
            (text, body), ending = self._exchange(entry, parts, (limits.header, most_bytes), began + most)
        except DeadlinePassed:
            raise JobTimedOut(f"the task's code ran for more than {most:g} s and was stopped") from None
        outcome = self._outcome(parse_header(text))
        return Reply(outcome, parse_tensors(body, expected), time.monotonic() - began, ending.peak)

    def _outcome(self, header: dict[str, Any]) -> Mapping[str, Any]:
        """Return the header of the task's answer; raise what the job reported instead."""
        answer = header.get("header")
        if header.get("outcome") == "done" and isinstance(answer, dict):
            return cast(dict[str, Any], answer)
        if header.get("outcome") == "memory":
            raise JobOutOfMemory("the task's code needed more memory than it may use")
        if header.get("outcome") != "raised":
            raise JobFailed("the task's reply has neither an answer nor a fault")
        kind, message, place = (one_line(str(header.get(name, "")), 200) for name in ("kind", "message", "place"))
        said = message if kind == _COMPLAINT else f"the task raised {kind}" + (f": {message}" if message else "")
        raise JobRaised(said + (f" ({place})" if place else ""), brief_of(kind, place, self._outside.task))

    def _exchange(
        self, entry: str, parts: Sequence[Buffer], limits: tuple[int, int], deadline: float
    ) -> tuple[tuple[bytearray, bytearray], Ending]:
        """Send the request, read the reply as it is, and end the job whatever happened."""
        attached, descriptors = self._begin(entry)
        answer = None
        try:
            answer = exchange(parts, *descriptors, limits, deadline)
        except Ended:
            pass  # how it ended says why
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            complaint = attached.launched.complaint()
            ending = attached.end()
            if ending is None:
                self._end()
        if answer is None:
            raise _ended(ending, complaint)
        return answer, ending or Ending(0, 0)

    def _begin(self, entry: str) -> tuple[Attached, tuple[int, int]]:
        """Start a job, in a new warm process where the last one went away."""
        attached = self._running()
        try:
            return attached, attached.begin(entry)
        except OSError:
            self._end()
        attached = self._running()
        return attached, attached.begin(entry)

    def _running(self) -> Attached:
        """The warm process, started if need be; OSError once the worker is closed."""
        attached = self._attached
        if attached is None and not self._closed:
            attached = self._attached = Attached.start(self._settings, self._outside, self._environment)
        if attached is None or self._closed:  # perhaps while it started
            self._end()
            raise OSError(errno.ESHUTDOWN, "its worker is closed")
        return attached


def _found(path: Path) -> Path:
    """The path without links; ``SandboxUnavailable`` if there is nothing at it."""
    try:
        return path.resolve(strict=True)
    except OSError as fault:
        raise SandboxUnavailable(f"cannot show {path} to a task's code: {fault.strerror}; give another path") from None


def refuse_private(visible: Visible, private: Iterable[Path]) -> None:
    """Raise ``SandboxUnavailable`` if something that no job may see lies within what jobs see."""
    shown = [*visible.paths, *runtime.folders()]
    for secret in private:
        for path in shown:
            if secret.resolve().is_relative_to(path):
                raise SandboxUnavailable(f"a task's code would see {secret}: move it out of {path}")


def _settings(mode: Mode, outside: Visible, limits: JobLimits, preload: tuple[str, ...]) -> WarmSettings:
    folders = runtime.folders()
    visible = bubblewrap.inside(outside) if mode is Mode.STRICT else outside
    readable = () if mode is not Mode.CONTAINED else (*folders, *runtime.MACHINE, *outside.paths)
    temporary = not any(path.is_relative_to("/tmp") for path in folders)
    return WarmSettings(mode, visible, limits, preload, readable, temporary)


def brief_of(kind: str, place: str, folder: Path) -> str:
    """Kind and place of an exception of a task, for logs.

    Whoever wrote the task names its classes and files at will, even after the data: only kinds that Python and fedgrove
    define are named, and only files of the bundle.
    """
    built_in = getattr(builtins, kind, None)
    known = kind in (_COMPLAINT, "DatasetError") or (isinstance(built_in, type) and issubclass(built_in, BaseException))
    found = _PLACE.fullmatch(place)
    inside = found is not None and ".." not in found[1] and (folder / found[1]).is_file()
    return f"the task raised {kind if known else 'an exception of its own'}" + (f" ({place})" if inside else "")


def _ended(ending: Ending | None, complaint: str) -> Exception:
    """The fault of a job that ended without an answer."""
    if ending is None:
        return JobFailed("the process for the task's code went away")
    code = os.waitstatus_to_exitcode(ending.status)
    if code == NOT_CONTAINED:
        return SandboxUnavailable(f"a job of the task could not be contained: {one_line(complaint, 300)}")
    if code == -signal.SIGKILL:
        return JobFailed("the process of the task's code closed its pipe or was killed, perhaps for lack of memory")
    reason = f"by {signal.Signals(-code).name}" if code < 0 else "without an answer"
    return JobFailed(f"the process of the task's code ended {reason}")
