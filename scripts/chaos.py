"""Kill a testnet's processes at random while it trains, and see that nothing is lost that the ledger does not explain.

``python scripts/chaos.py --clients 12 --rounds 6 --seed 1`` brings a testnet up, kills clients, the coordinator, the
chain and a store with SIGKILL every few seconds until the last round opens, waits for the end, audits the history,
takes the testnet down and looks for what it left. With ``--hang 60`` a client is also stopped for a minute once the
first round has closed; with ``--headless 3`` the coordinator never comes back once the third round has opened. Prints
JSON. Exit code 0: verified, each round with its end on the ledger and none overruled, nothing left.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.records import Closed, Failed, Skipped
from fedgrove.common.errors import RunFailed
from fedgrove.node.devnet.terms import ledger_rounds
from fedgrove.node.devnet.testnet.control import look
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.keeper import Status
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, read_record
from fedgrove.node.devnet.testnet.lock import claim
from fedgrove.node.devnet.testnet.processes import chain_url, reach
from fedgrove.node.devnet.testnet.supervisor import ENDED, FAILED
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

# Of every this many kills: each kind is met in a short run, clients most often.
DECK = ("client",) * 6 + ("coordinator",) * 2 + ("chain", "store")
SERVICES = ("client", "coordinator")
# A slow machine takes its time to start a service again; there is no point in killing faster than that.
MOST_AWAY = 3
POLL_SECONDS = 0.2
LIMIT_SECONDS = 600.0
TESTNET = ("--store", "kubo", "--kubo-nodes", "2", "--block-seconds", "0.5", "--no-explorer")
FEDGROVE = (sys.executable, "-m", "fedgrove.node.cli")


class ChaosFailed(RuntimeError):
    """Something that had to hold did not."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="fedgrove-chaos-") as temporary:
        layout = TestnetPaths((options.dir or Path(temporary) / "testnet").absolute())
        os.environ["TMPDIR"] = temporary  # so that what the processes leave there is seen
        started = time.monotonic()
        try:
            report = run(layout, options) | {"seconds": round(time.monotonic() - started, 1)}
        except ChaosFailed as fault:
            print(f"failed: {fault}", file=sys.stderr)
            _tell_last_words(layout)
            return 1
        finally:
            _fedgrove("network", "down", "--dir", str(layout.root))
    print(json.dumps(report, indent=2, sort_keys=True))
    return 0


def run(layout: TestnetPaths, options: argparse.Namespace) -> dict:
    """Bring up, kill, wait, audit, take down, look; raises ChaosFailed."""
    standby = options.clients if options.standby is None else options.standby
    plan = ("--clients", options.clients, "--rounds", options.rounds, "--seed", options.seed, "--standby", standby)
    _must("network", "up", "--dir", layout.root, *plan, *TESTNET)
    testnet = read_record(layout)
    harassment = Harassment(layout, testnet, options)
    harassment.run()
    restarts = sum(one.restarts for one in look(layout).kept)
    rounds = [outcome(each) for each in _rounds(testnet).rounds.values()]
    closed = sum(one["outcome"] == "closed" for one in rounds)  # what failed is repeated
    if closed != options.rounds:
        raise ChaosFailed(f"{closed} rounds closed of {options.rounds}: {rounds}")
    verdict = _audit(layout, testnet)
    _must("network", "down", "--dir", layout.root)
    left = left_over(layout, testnet)
    if left:
        raise ChaosFailed(f"left behind: {'; '.join(left)}")
    did = {"kills": dict(harassment.kills), "hung": harassment.hung_seconds, "headless_in": harassment.headless_in}
    return {"rounds": rounds, **did, "restarts": restarts, "audit": verdict}


class Harassment:
    """Kills until the last round opens.

    Attributes
    ----------
    kills : Counter of str
        How many processes of each kind were killed.
    hung_seconds : float
        How long one client was stopped.
    headless_in : int or None
        The round in which the coordinator was killed for good.
    """

    def __init__(self, layout: TestnetPaths, testnet: Testnet, options: argparse.Namespace) -> None:
        self._layout, self._testnet, self._options = layout, testnet, options
        self._chooser = random.Random(options.seed)
        self._deck: list[str] = []
        self._away: dict[str, int] = {}
        self._hung: tuple[str, list[Identity], float] | None = None
        self.kills: Counter[str] = Counter()
        self.hung_seconds = 0.0
        self.headless_in: int | None = None

    def run(self) -> None:
        """Return when the federation has ended."""
        pause = self._options.pause
        deadline = time.monotonic() + LIMIT_SECONDS
        following = time.monotonic() + self._chooser.uniform(0, pause)
        try:
            while (now := look(self._layout)) is not None and now.phase not in (ENDED, FAILED):
                if time.monotonic() > deadline:
                    raise ChaosFailed(f"the federation has not ended after {LIMIT_SECONDS:.0f} s")
                if time.monotonic() > following:
                    self._strike(now.kept)
                    following = time.monotonic() + self._chooser.uniform(0.5 * pause, 1.5 * pause)
                if self._hung and time.monotonic() - self._hung[2] > self._options.hang:
                    self._let_go()
                time.sleep(POLL_SECONDS)
        finally:
            self._let_go()
        if now is None or now.phase == FAILED:
            raise ChaosFailed("the supervisor died" if now is None else "a process could not be kept running")

    def _strike(self, kept: Sequence[Status]) -> None:
        number = _round(self._testnet)
        running = [one for one in kept if one.state == "running" and not (self._hung and one.name == self._hung[0])]
        if self._options.headless and self.headless_in is None and number >= self._options.headless:
            for one in running:
                if one.kind == "coordinator":
                    self._behead(one, number)
        if self._options.hang and not self.hung_seconds and not self._hung and number > 1:
            self._stop(self._chooser.choice([one for one in running if one.kind == "client"]))
        self._away = {name: size for name, size in self._away.items() if _size(self._layout, name) == size}
        wanted = self.kills.total() < self._options.kills and len(self._away) < MOST_AWAY
        if not wanted or number >= ledger_rounds(self._testnet.scenario):
            return
        self._deck = self._deck or self._chooser.sample(DECK, len(DECK))
        kind = self._deck.pop()
        if candidates := [one for one in running if one.kind == kind]:
            self._kill(self._chooser.choice(candidates))

    def _kill(self, victim: Status) -> None:
        if Identity(victim.pid, victim.started).send(SIGKILL):
            self.kills[victim.kind] += 1
            self._away |= {victim.name: _size(self._layout, victim.name)} if victim.kind in SERVICES else {}
            print(f"killed {victim.name}", file=sys.stderr)

    def _behead(self, coordinator: Status, number: int) -> None:
        """Without its keys it ends whenever it is started again, until it is given up."""
        self._layout.participant(coordinator.name).keystore.unlink()
        self.headless_in = number
        self._kill(coordinator)

    def _stop(self, victim: Status) -> None:
        stopped = hang(self._layout, victim.name)
        self._hung = (victim.name, stopped, time.monotonic())
        print(f"stopped {victim.name}", file=sys.stderr)

    def _let_go(self) -> None:
        if self._hung is not None:
            name, stopped, since = self._hung
            for each in stopped:
                each.send(SIGCONT)
            self.hung_seconds, self._hung = round(time.monotonic() - since, 1), None
            print(f"continued {name}", file=sys.stderr)


def hang(layout: TestnetPaths, name: str) -> list[Identity]:
    """Stop a participant's process, the fork that works for it, and what these started."""
    found = map(Identity.of, processes_at(layout.participant(name).root))
    return [each for each in found if each.send(SIGSTOP)]


def _size(layout: TestnetPaths, name: str) -> int:
    """Bytes of a process's log: a service that was killed is back when it has said something."""
    return layout.log(name).stat().st_size


def outcome(current: RoundRecords) -> dict[str, str | int]:
    """What the ledger says of a round's end; raises ChaosFailed when it says nothing."""
    if current.voided is not None:
        said = "voided by its members"
    elif current.replaced is not None:
        said = "its model replaced by its members"
    elif isinstance(current.end, Closed):
        said = "closed"
    elif isinstance(current.end, Skipped):
        said = f"skipped: {len(current.draws)} drawn"
    elif isinstance(current.end, Failed):
        said = "failed"
    else:
        raise ChaosFailed(f"round {current.number} has no end on the ledger")
    counts = {name: len(getattr(current, name)) for name in ("draws", "shares", "commits", "releases")}
    return {"round": current.number, "outcome": said, **counts}


def left_over(layout: TestnetPaths, testnet: Testnet) -> list[str]:
    """Processes, ports, locks and temporary files of the testnet that are still there."""
    left = [f"process {pid}" for pid in processes_at(layout.root)]
    left += [str(path) for path in Path(os.environ["TMPDIR"]).iterdir() if path != layout.root]
    left += [str(path) for path in layout.root.rglob("*.tmp")]
    for name, port in testnet.ports.items():
        with socket.socket() as probe:
            left += [f"port {port} of {name}"] if probe.connect_ex(("127.0.0.1", port)) == 0 else []
    left += [str(path) for path in (layout.supervisor, layout.processes) if path.exists()]
    try:
        os.close(claim(layout))
    except RunFailed as fault:
        left.append(str(fault))
    return left


def processes_at(root: Path) -> list[int]:
    """Processes that name the directory on their command line, or work in it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            place = os.readlink(folder / "cwd")
        except OSError:
            continue  # it has ended, or is somebody else's
        mine = int(folder.name) != os.getpid() and str(root) in command
        if mine or Path(place).is_relative_to(root):
            found.append(int(folder.name))
    return found


def _rounds(testnet: Testnet) -> Rounds:
    with connect(chain_url(testnet), testnet.chain_id) as network:
        view = LedgerView(Ledger(network, read_deployment(network, testnet.ledger, testnet.block), None))
        view.refresh()
        return view.rounds


def _round(testnet: Testnet) -> int:
    """Number of the latest round; as good as the last while the chain is away, so that it is let come back."""
    try:
        latest = _rounds(testnet).latest
        return latest.number if latest else 0
    except ChainError:
        return ledger_rounds(testnet.scenario)


def _audit(layout: TestnetPaths, testnet: Testnet) -> str:
    report = _must(
        *("audit", "--rpc", chain_url(testnet), "--ledger", testnet.ledger, "--from-block", testnet.block),
        *("--store", reach(layout, testnet, 0).store, "--json"),
    )
    return json.loads(report)["verdict"]


def _must(*arguments: object) -> str:
    """Run the command; what it printed to stdout."""
    done = _fedgrove(*map(str, arguments))
    if done.returncode != 0:
        raise ChaosFailed(f"`fedgrove {arguments[0]}` ended with code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _fedgrove(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*FEDGROVE, *arguments], capture_output=True, text=True)


def _tell_last_words(layout: TestnetPaths) -> None:
    for log in sorted(layout.logs.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-5:]
        print("\n".join([f"--- {log.name}", *lines]), file=sys.stderr)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--standby", type=int, help="how many clients stand by; default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the data, the training, and who is killed when")
    parser.add_argument("--dir", type=Path, help="the testnet's directory, kept; default: a temporary one")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between two kills, on average")
    parser.add_argument("--kills", type=int, default=1000, help="the most there are")
    parser.add_argument("--hang", type=float, default=0.0, help="seconds for which a client is stopped")
    parser.add_argument("--headless", type=int, default=0, help="the coordinator goes for good in this round")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
