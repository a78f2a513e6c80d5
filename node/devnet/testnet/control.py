"""Control of a testnet by the command and by scripts: start it, inspect it, stop it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import TypeVar

from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.common.errors import RunFailed
from fedgrove.common.wire import Malformed, Table, decode
from fedgrove.node.base.files import open_log
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.keeper import Status
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, clear, read_record
from fedgrove.node.devnet.testnet.lock import Busy, claim
from fedgrove.node.devnet.testnet.processes import chain_url
from fedgrove.node.devnet.testnet.supervisor import (
    ENDED,
    FAILED,
    FRUITLESS,
    RUNNING,
    STOP_SECONDS,
    ProcessReport,
    Supervision,
)
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.status.standing import Standing, standing
from fedgrove.node.tasks.folder import remove_folder

KILL_SECONDS = 5.0
CLAIM_SECONDS = 30.0
START_SECONDS, START_SECONDS_EACH = 120.0, 20.0
_POLL_SECONDS = 0.2
_LAST_BYTES = 300

Progress = Callable[[str], None]
_Written = TypeVar("_Written", bound=Table)


@dataclass(frozen=True)
class Processes:
    """Running processes of a testnet.

    Attributes
    ----------
    supervisor : Identity
    since : float
        When it was started, in seconds since 1970.
    phase : str
        ``running``, ``ended`` (all rounds), ``ended without a result``, ``failed`` (a service was given up), or what
        goes on instead.
    kept : tuple of Status
    """

    supervisor: Identity
    since: float
    phase: str
    kept: tuple[Status, ...]

    @property
    def up(self) -> bool:
        """Whether everything was started."""
        return self.phase in (RUNNING, ENDED, FRUITLESS, FAILED)

    @property
    def sound(self) -> bool:
        """Whether every process runs, or has finished its work."""
        return self.up and all(one.state in ("running", "finished") for one in self.kept)


def look(layout: TestnetPaths) -> Processes | None:
    """Running processes of a testnet; None while it has no supervisor."""
    found = _read(Supervision, layout.supervisor)
    if found is None or not (identity := Identity(found.pid, found.started)).alive:
        return None
    report = _read(ProcessReport, layout.processes) or ProcessReport("starting", ())
    return Processes(identity, found.since, report.phase, report.processes)


def up(layout: TestnetPaths, scenario: Scenario, say: Progress) -> bool:
    """Make the testnet if there is none, start what does not run, and return when everything runs.

    Where it cannot be made, what was made of it is removed, with the directories that were made for it.

    Parameters
    ----------
    say : callable
        Told what goes on.

    Returns
    -------
    bool
        False when it was up already.

    Raises
    ------
    RunFailed
        It cannot be made, or did not start in time.
    """
    missing = [path for path in (layout.root, *layout.root.parents) if not path.exists()]
    lock, supervisor = _claim(layout), None
    if lock is not None:
        try:
            if not layout.record.exists():
                _make(layout, scenario, say, missing)
            supervisor = _supervise(layout, lock)  # which takes the lock over
        finally:
            os.close(lock)
    _await_start(layout, supervisor, say)
    return supervisor is not None


def wait_until_ended(layout: TestnetPaths, say: Progress) -> str:
    """Return when the federation has ended: ``ENDED``, ``FRUITLESS``, or ``FAILED`` where somebody gave up.

    Raises
    ------
    RunFailed
        The testnet was taken down, or its supervisor died.
    """
    last = ""
    while (now := look(layout)) is not None:
        if now.phase in (ENDED, FRUITLESS, FAILED):
            return now.phase
        line = _progress(layout)
        if line and line != last:
            say(line)
            last = line
        time.sleep(5 * _POLL_SECONDS)
    raise RunFailed(f"the testnet in {layout.root} is no longer running: see {layout.log('supervisor')}")


def down(layout: TestnetPaths) -> int:
    """End every process of a testnet; returns how many there were. With none running it does nothing.

    Raises
    ------
    RunFailed
        A process could not be ended.
    """
    if not layout.root.exists():
        return 0
    lock = _claim(layout)
    if lock is not None:
        os.close(lock)
    now, left = look(layout), _left_behind(layout)
    ended = len(left) + (now is not None)
    if now is not None and now.supervisor.send(SIGTERM) and not now.supervisor.wait(STOP_SECONDS):
        left = _left_behind(layout)  # before its death, as it may have started others meanwhile
        now.supervisor.send(SIGKILL)
        now.supervisor.wait(KILL_SECONDS)
    for identity in left:
        if not identity.wait(0):
            identity.send(SIGKILL)
    alive = [identity.pid for identity in left if not identity.wait(KILL_SECONDS)]
    still = look(layout)
    if still is not None and not alive:
        alive = [(now or still).supervisor.pid]
    if alive:
        raise RunFailed(f"these processes did not end: {alive}; end them manually")
    for path in (layout.processes, layout.supervisor):
        path.unlink(missing_ok=True)
    return ended


def delete(layout: TestnetPaths) -> None:
    """Remove a testnet's directory, after ``down``.

    Raises
    ------
    RunFailed
        The directory holds other things, another command works on it, or has brought it up again.
    """
    if not layout.root.exists():
        return
    lock = _claim(layout)
    if lock is None:
        raise RunFailed(f"the testnet in {layout.root} was started again in the meantime: nothing was removed")
    try:
        remove_folder(layout.root)
    finally:
        os.close(lock)


def federation(testnet: Testnet) -> Standing:
    """State of the federation. Raises ChainError when the chain does not answer."""
    with connect(chain_url(testnet), testnet.chain_id) as network:
        ledger = Ledger(network, read_deployment(network, testnet.ledger, testnet.block), None)
        return standing(ledger)


def _claim(layout: TestnetPaths) -> int | None:
    """The lock on the directory, or None when it is supervised; waits a while for another command that is at work."""
    deadline = time.monotonic() + CLAIM_SECONDS
    while look(layout) is None:
        try:
            return claim(layout)
        except Busy:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
    return None


def _make(layout: TestnetPaths, scenario: Scenario, say: Progress, new: Sequence[Path]) -> None:
    """Make the testnet, or else remove what was made of it.

    ``new`` are the directories that were made for it, the innermost first; they go where nothing else is in them.
    """
    from fedgrove.node.devnet.testnet.setup import make  # slow, and looking at a testnet does without

    try:
        make(layout, scenario, say)
    except BaseException:
        with suppress(OSError):  # what cannot be removed stays marked, for the next attempt to clear
            clear(layout)
            layout.unfinished.unlink(missing_ok=True)
            for directory in new:
                directory.rmdir()
        raise


def _supervise(layout: TestnetPaths, lock: int) -> subprocess.Popen:
    """Start the supervisor, which outlives this process."""
    layout.processes.unlink(missing_ok=True)
    with open_log(layout.log("supervisor")) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "fedgrove.node.devnet.testnet.supervisor", str(layout.root), str(lock)],
            pass_fds=(lock,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _await_start(layout: TestnetPaths, supervisor: subprocess.Popen | None, say: Progress) -> None:
    """Return when everything was started, by this supervisor or (None) by one that was there before."""
    seconds = START_SECONDS + START_SECONDS_EACH * read_record(layout).scenario.cast.clients
    deadline, last, said = time.monotonic() + seconds, "", set[str]()
    while time.monotonic() < deadline:
        now = look(layout)
        if now is None and (supervisor is None or supervisor.poll() is not None):
            log = layout.log("supervisor")
            raise RunFailed(f"the testnet's supervisor ended while starting ({_last_words(log)}): see {log}")
        for one in now.kept if now is not None and supervisor is not None else ():
            if one.state == "gave up":
                raise RunFailed(f"{one.trouble}, and was given up: see {layout.log(one.name)}")
            if one.trouble and one.trouble not in said:
                say(f"{one.trouble}, and is tried again")
                said.add(one.trouble)
        if now is not None and now.up:
            return
        if now is not None and now.phase != last:
            say(now.phase)
            last = now.phase
        time.sleep(_POLL_SECONDS)
    raise RunFailed(f"some processes are not running after {seconds:.0f} s ({last}): see the logs in {layout.logs}")


def _last_words(log: Path) -> str:
    """The last line of a log, cut to what a sentence holds."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")
    return "without a word"


def _progress(layout: TestnetPaths) -> str:
    try:
        now = federation(read_record(layout))
    except ChainError:
        return ""  # the chain is being started again; the supervisor's log tells
    return f"round {now.round}, {now.phase}: {len(now.acted)} of {now.members} members have acted"


def _left_behind(layout: TestnetPaths) -> list[Identity]:
    """The kept processes that are alive, whether or not a supervisor is."""
    report = _read(ProcessReport, layout.processes)
    known = [Identity(one.pid, one.started) for one in report.processes] if report else []
    return [identity for identity in known if identity.pid and identity.alive]


def _read(kind: type[_Written], path: Path) -> _Written | None:
    """A file of the supervisor's; None when it is not there."""
    try:
        return decode(kind, path.read_bytes(), kind.max_bytes)
    except (OSError, Malformed):
        return None
