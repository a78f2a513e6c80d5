"""The one process that starts and keeps all others of a testnet: ``python -m node.devnet.testnet.supervisor DIR LOCK``.

LOCK is the number of the open, locked directory that it inherits, so that there is never a moment without a lock. All
that it starts ends with it. It says what goes on in ``processes.json`` and takes SIGTERM as the order to end.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.common.wire import Table
from fedgrove.node.base.files import write_atomically
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.keeper import Job, Keeper, Status
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, read_record, write_record
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.devnet.testnet.processes import (
    Launcher,
    chain_job,
    chain_url,
    client_jobs,
    coordinator_job,
    explorer_job,
    read_terms,
    store_jobs,
    with_ports,
    write_configs,
)
from fedgrove.node.protocol.ledger_view import LedgerView

RUNNING, ENDED, FRUITLESS, FAILED = "running", "ended", "ended without a result", "failed"
SERVICE_SECONDS, STORE_SECONDS, CHAIN_SECONDS = 10.0, 6.0, 5.0
STOP_SECONDS = SERVICE_SECONDS + STORE_SECONDS + CHAIN_SECONDS + 5.0
_POLL_SECONDS = 0.2
_LOOK_SECONDS = 1.0
_CHAIN_ANSWER_SECONDS = 2.0


class Supervision(Table, frozen=True):
    """The supervisor's process, and since when it runs, in seconds since 1970."""

    pid: int
    started: str
    since: float


class ProcessReport(Table, frozen=True):
    """What the supervisor does, and how its processes are."""

    phase: str
    processes: tuple[Status, ...]


class Supervisor:
    """Starts a testnet's processes in order and keeps them until it is told to stop."""

    def __init__(self, layout: TestnetPaths) -> None:
        self._layout = layout
        self._keepers: list[Keeper] = []
        self._stop = threading.Event()
        self._phase = "starting"
        self._written: bytes = b""
        self._pacer: Pacer | None = None
        self._launcher: Launcher | None = None

    def stop(self, *_: object) -> None:
        """Make ``run`` end everything and return."""
        self._stop.set()

    def run(self) -> None:
        """Run until ``stop``."""
        me = Identity.of(os.getpid())
        write_atomically(self._layout.supervisor, Supervision(me.pid, me.started, time.time()).to_bytes())
        try:
            testnet = self._prepare()
            self._start(testnet)
            while not self._stop.wait(_POLL_SECONDS):
                self._phase = self._outcome(testnet.scenario.run.standby)
                self._write()
                self._hurry(testnet)
        finally:
            self._end()
            for path in (self._layout.processes, self._layout.supervisor):
                path.unlink(missing_ok=True)

    def _prepare(self) -> Testnet:
        before = read_record(self._layout)
        testnet = with_ports(before)
        if testnet != before:
            write_configs(self._layout, testnet, read_terms(self._layout))
            write_record(self._layout, testnet)
        return testnet

    def _start(self, testnet: Testnet) -> None:
        self._keep("starting the chain", [chain_job(self._layout, testnet)], self._all_run)
        for job in store_jobs(self._layout, testnet):
            self._keep("starting the stores", [job], self._all_run)
        self._launcher = launcher = Launcher(testnet, read_terms(self._layout))
        self._keep("starting the clients", client_jobs(self._layout, testnet, launcher), self._registered(testnet))
        self._keep("starting the coordinator", [coordinator_job(self._layout, testnet, launcher)], self._all_run)
        if testnet.scenario.run.explorer:  # nobody waits for it
            self._keep("starting the explorer", [explorer_job(self._layout, testnet)], lambda: True)

    def _keep(self, phase: str, jobs: list[Job], ready: Callable[[], bool]) -> None:
        """Start jobs and wait until they are ready for others."""
        if self._stop.is_set():
            return
        self._phase = phase
        say(phase)
        keepers = [Keeper(job, say) for job in jobs]
        self._keepers += keepers
        for keeper in keepers:
            keeper.begin()
        while not (self._stop.is_set() or ready() or self._settled(keepers)):
            self._write()
            self._stop.wait(_POLL_SECONDS)

    def _all_run(self) -> bool:
        return all(keeper.status.state in ("running", "finished") for keeper in self._keepers)

    def _settled(self, keepers: list[Keeper]) -> bool:
        """Nothing is to be waited for any more: each has finished, or was given up."""
        return all(keeper.status.state in ("finished", "gave up") for keeper in keepers)

    def _registered(self, testnet: Testnet) -> Callable[[], bool]:
        """Whether every client is on the ledger: a round that opened before would go on without the others."""
        looked, members = 0.0, 0

        def ready() -> bool:
            nonlocal looked, members
            if time.monotonic() - looked < _LOOK_SECONDS:
                return False
            looked, known = time.monotonic(), members
            members = _count_members(testnet, members)
            if members != known:
                self._phase = f"starting the clients: {members} of {testnet.scenario.cast.clients} have registered"
            lost = sum(keeper.status.state == "gave up" for keeper in self._keepers)
            return members >= testnet.scenario.cast.clients - lost

        return ready

    def _hurry(self, testnet: Testnet) -> None:
        """Skip blocks for which everybody would only wait; the chain may be away for a moment."""
        try:
            if self._pacer is None:
                network = connect(chain_url(testnet), testnet.chain_id, timeout=_CHAIN_ANSWER_SECONDS)
                ledger = Ledger(network, read_deployment(network, testnet.ledger, testnet.block))
                self._pacer = Pacer(network, ledger)
            self._pacer.step()
        except ChainError:
            self._pacer = None

    def _outcome(self, standby: int) -> str:
        """Whether the services still work, have all finished, or some were given up and the others have finished."""
        services = [keeper for keeper in self._keepers if keeper.job.ends]
        lost = {keeper.job.kind for keeper in services if keeper.status.state == "gave up"}
        if "coordinator" in lost and not standby:
            return FAILED  # the clients would wait for ever
        if not self._settled(services):
            return RUNNING
        if standby:  # clients that finish have seen the end, whoever coordinated
            services = [keeper for keeper in services if keeper.job.kind == "client"]
        if any(keeper.status.state != "finished" for keeper in services):
            return FAILED
        return ENDED if all(keeper.status.code == 0 for keeper in services) else FRUITLESS

    def _write(self) -> None:
        """Say how everything is, if it is not as it was."""
        data = ProcessReport(self._phase, tuple(keeper.status for keeper in self._keepers)).to_bytes()
        if data != self._written:
            write_atomically(self._layout.processes, data)
            self._written = data

    def _end(self) -> None:
        """End the services, then the stores, then the chain."""
        self._phase = "stopping"
        self._write()
        for kinds, seconds in (
            (("client", "coordinator", "explorer"), SERVICE_SECONDS),
            (("store",), STORE_SECONDS),
            (("chain",), CHAIN_SECONDS),
        ):
            threads = [
                threading.Thread(target=keeper.stop, args=(seconds,))
                for keeper in self._keepers
                if keeper.job.kind in kinds
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(2 * seconds)
        if self._launcher is not None:
            self._launcher.close()
        say("all processes have ended")


def say(sentence: str) -> None:
    """Write one line to the supervisor's log."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "role": "supervisor", "event": sentence}
    print(json.dumps(line), file=sys.stderr, flush=True)


def _count_members(testnet: Testnet, known: int) -> int:
    """How many clients are registered; ``known`` when the chain does not answer."""
    try:
        with connect(chain_url(testnet), testnet.chain_id) as network:
            view = LedgerView(Ledger(network, read_deployment(network, testnet.ledger, testnet.block), None))
            view.refresh()
            return len(view.rounds.members)
    except ChainError:
        return known


def main(root: Path, lock: int) -> None:
    """Supervise the testnet in ``root`` until SIGTERM or SIGINT."""
    os.set_inheritable(lock, False)
    supervisor = Supervisor(TestnetPaths(root))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.stop)
    supervisor.run()
    # Threads of keepers that could not be stopped in time must not keep this process: what they started ends with it.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
