"""A federation whose roles are processes that die at named steps and are started again, on a real chain and store.

``World`` tells the chain when to make blocks: when a transaction waits for one, now and then, and all the blocks to the
end of a phase in which everybody has acted. Windows are long, so that no round is lost to a slow machine.
"""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from fedgrove.chain.crypto.keys import save
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import anvil
from fedgrove.chain.records import Closed
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.clock import draw_window_end
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import StrategySettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from tests.node.federation import Federation, LyingCoordinator
from tests.node.roles.faults.killing import KILLED, PASSED
from tests.node.roles.faults.lives import (
    PASSWORD,
    PATIENCE_SECONDS,
    Idle,
    Life,
    described,
    keystore_of,
    live,
    log_of,
    open_store,
    steps_of,
    word_of,
)
from tests.node.roles.faults.witness import told_by, violations

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
WINDOWS = LedgerSettings(
    seed_delay=1,
    draw_window=150,
    seal_window=150,
    share_window=150,
    commit_window=150,
    recover_window=300,
    coordinator_grace=20,
    absence_limit=1,
    max_clients=8,
)
BLOCK_SECONDS = 1.0
LOOK_SECONDS = 0.03
REPEATS = 6  # as many as times that a node is killed, each of which may cost a round
KEYSTORE_COST = 2

# Transactions that come once: whoever is killed between sending and confirming one must be back before it is mined, for
# else nobody would ever be killed at the confirmation.
ONCE = [f"transaction {name}: sent" for name in ("register", "fixSeed", "skip", "fail", "judge", "resume")]
# All that a life imports, and the tests' own main module.
_PRELOADED = ["tests.node.roles.faults.world", "pytest"]


class Liar(LyingCoordinator):
    """Closes every round with a model of its own."""


@dataclass
class Role:
    """One role and its lives.

    Attributes
    ----------
    kills : Counter
        Steps at which it is still to be killed.
    deaths : list of str
        Steps at which it was.
    patient : bool
        Killed between sending and confirming: no block is made until its next life sends again.
    standby : bool
        A client that stands by for the coordinator, too.
    """

    name: str
    kind: type[Client] | type[Coordinator]
    samples: Samples
    kills: Counter = field(default_factory=Counter)
    deaths: list[str] = field(default_factory=list)
    process: BaseProcess | None = None
    finished: bool = False
    patient: bool = False
    standby: bool = False

    @property
    def words(self) -> list[str]:
        """The roles of its process."""
        return [self.name.split("-")[0], *(["standby"] if self.standby else [])]


class World:
    """A federation of processes; a context manager that leaves none behind.

    Parameters
    ----------
    directory : Path
        For chain, store, journals, logs; must be empty.
    clients, rounds : int
    seed : int
        Decides whether a transaction is mined before the process that sent it, and was killed, is back.
    back_first : float
        How probable it is that the process is.
    store : str
        URL of a Kubo node; without one, a folder.
    skips : bool
        When nobody has anything to do, as in a round that is lost, the next deadline comes at once.
    """

    def __init__(
        self,
        directory: Path,
        clients: int = 4,
        rounds: int = 2,
        seed: int = 0,
        back_first: float = 0.5,
        store: str = "",
        skips: bool = False,
    ) -> None:
        self.root = directory
        self._store = store or str(directory / "store")
        self._state = directory / "chain.json"
        self._chance = random.Random(seed)
        self._back_first = back_first
        self.skips = skips
        self._stood: set[tuple[int, int, bytes]] = set()  # commitments that a killed chain may forget
        self._spawner = multiprocessing.get_context("forkserver")
        self._spawner.set_forkserver_preload(_PRELOADED)
        self.network = self._node = anvil(self._state)
        try:
            self.federation = self._found(clients, rounds)
            self.network.request("evm_setAutomine", False)
            self._mined, self._seen = time.monotonic(), 0
            self._idle: dict[Path, int] = {}
        except BaseException:
            self.network.close()
            raise

    def _found(self, clients: int, rounds: int) -> Federation:
        # MOON's clients keep their models from round to round, so what was kept shows in the next round's model.
        terms = {"training": QUICK, "ledger": WINDOWS, "strategy": StrategySettings("moon")}
        made = Federation.found(self.network, self.root, clients, rounds, repeats=REPEATS, **terms)
        made.store = open_store(self._store)
        self.roles = {"coordinator": Role("coordinator", Coordinator, made.test)}
        save(keystore_of(self.root, "coordinator"), made.coordinator_keys, PASSWORD, KEYSTORE_COST)
        for number, (keys, samples) in enumerate(zip(made.keys, made.samples, strict=True), 1):
            name = f"client-{number}"
            self.roles[name] = Role(name, Client, samples)
            save(keystore_of(self.root, name), keys, PASSWORD, KEYSTORE_COST)
        self.ledger = Ledger(self.network, made.deployment)
        self._pacer = Pacer(self.network, self.ledger)
        return made

    @property
    def clients(self) -> list[str]:
        return [name for name in self.roles if name.startswith("client")]

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self, names: Iterable[str] | None = None, until: Callable[[], bool] | None = None) -> None:
        """Let these roles live, again and again, until the condition holds, or all of them have come to their end."""
        running = [self.roles[name] for name in names or self.roles]
        quiet, seen = time.monotonic(), None
        while not (until() if until else all(role.finished for role in running)):
            for role in running:
                self._care_for(role)
            self._make_blocks(running)
            # Not a limit for the machine, but for a federation that has come to a standstill.
            if seen != (seen := sum(len(self.steps(role.name)) for role in running)):
                quiet = time.monotonic()
            assert time.monotonic() - quiet < PATIENCE_SECONDS, (
                f"all wait: {[self.log(r.name)[-200:] for r in running]}"
            )
            time.sleep(LOOK_SECONDS)

    def kill(self, *names: str) -> None:
        """Kill roles wherever they are."""
        for role in map(self.roles.get, names):
            if role.process is not None:
                role.process.kill()
                self._bury(role, expected=True)
            role.patient = False  # what it sent may be mined before it lives again

    def silence(self, *clients: str) -> None:
        """Kill clients, and take what they sent last out of the pool: nothing more of them gets into a block."""
        self.kill(*clients)
        for name in clients:
            keys = self.federation.keys[int(name.removeprefix("client-")) - 1]
            self.network.request("anvil_removePoolTransactions", keys.address)

    def restart_chain(self) -> None:
        """Kill the chain's node, which forgets about its last second, and start it on what it had written."""
        for current in self.rounds().rounds.values():
            self._stood |= {(client, current.number, commit.digest) for client, commit in current.commits.items()}
        os.kill(self._node.pid, signal.SIGKILL)
        self._node.close()
        self._node = anvil(self._state, int(self.network.url.rpartition(":")[2]))
        self._node.request("evm_setAutomine", False)
        # What a role said of the blocks that are lost would let a deadline come before it has sent again what was lost.
        self._idle = {}
        for role in self.roles.values():
            for word in role.words:
                word_of(self.root, role.name, word).unlink(missing_ok=True)

    def _care_for(self, role: Role) -> None:
        if role.finished:
            return
        if role.process is None:
            self._start(role)
        elif not role.process.is_alive():
            self._bury(role)

    def _start(self, role: Role) -> None:
        made = self.federation
        life = Life(
            role.name,
            role.kind,
            self.root,
            self.network.url,
            made.deployment,
            made.config,
            role.samples,
            self._store,
            len(made.keys),
            role.standby,
            dict(role.kills),
        )
        for word in role.words:
            word_of(self.root, role.name, word).unlink(missing_ok=True)
        role.process = self._spawner.Process(target=live, args=(life,), name=role.name, daemon=True)
        role.process.start()

    def _bury(self, role: Role, expected: bool = False) -> None:
        """Note what a life has come to: its end, a step, or a kill by this process, if one was expected."""
        role.process.join()
        code, role.process = role.process.exitcode, None
        killed = self._killed(role)
        if len(killed) > len(role.deaths):
            role.kills -= Counter([killed[-1]])
            role.deaths.append(killed[-1])
            role.patient = killed[-1] in ONCE or (
                killed[-1].endswith(": sent") and self._chance.random() < self._back_first
            )
        elif code == 0:
            role.finished = True
        else:
            assert expected, f"{role.name} ended with code {code}: {self.log(role.name)[-2000:]}"

    def _killed(self, role: Role) -> list[str]:
        return [step for word, _, step in (line.partition(" ") for line in self.steps(role.name)) if word == KILLED]

    def _make_blocks(self, running: list[Role]) -> None:
        """A block for what waits, unless who sent it shall see it wait; one now and then; all that may be skipped."""
        waits = int(self.network.request("txpool_status")["pending"], 16) > 0  # before the look at who sent it
        if any([self._wants_none(role) for role in running]):
            return
        head, now = self.network.block_number(), time.monotonic()
        unique = any(role.kills[step] for role in running for step in ONCE)
        if waits or (now - self._mined > BLOCK_SECONDS and not unique):
            self.network.mine()
            self._mined = now
        elif head != self._seen:
            self._pacer.step()
            self._seen = head
        if self.skips:
            self._skip_idle_blocks(running, head)

    def _skip_idle_blocks(self, running: list[Role], head: int) -> None:
        """Skip to the next deadline when all have seen this block, and then looked once more at what others stored."""
        live = [role for role in running if not role.finished]
        idle = {
            word_of(self.root, role.name, word): self._idle_word(role, word) for role in live for word in role.words
        }
        if any(word.block < head or word.steps < self._idle.get(path, 1) for path, word in idle.items()):
            self._idle = {}
        elif not self._idle:
            self._idle = {path: word.steps for path, word in idle.items()}
        # The first of two more steps may have begun before the last of the others had done its work.
        elif all(word.steps >= self._idle.get(path, word.steps) + 2 for path, word in idle.items()):
            self.network.mine(min([word.until for word in idle.values() if word.until > head], default=head) - head)

    def _idle_word(self, role: Role, word: str) -> Idle:
        """What a role said after its last step; nothing if it has not said it yet."""
        path = word_of(self.root, role.name, word)
        text = path.read_text() if role.process is not None and path.exists() else ""
        return Idle(*map(int, text.split())) if text.endswith("\n") else Idle(0, 0, 0)

    def _wants_none(self, role: Role) -> bool:
        """Whether a role is about to be killed when its transaction is sent, or was and has not sent it again."""
        word, _, step = (self.steps(role.name) or [""])[-1].partition(" ")
        transaction, _, moment = step.rpartition(": ")
        if word == KILLED:
            return role.patient or len(self._killed(role)) > len(role.deaths)
        role.patient = role.patient and moment != "sent"
        return role.patient or (moment == "before" and role.kills[f"{transaction}: sent"] > 0)

    def skip_to(self, deadline: str) -> None:
        """Let a window of the latest round pass in which somebody will not act."""
        self._skip(getattr(self.latest.deadlines(self.federation.config.ledger), deadline))

    def skip_the_draws(self) -> None:
        """Let the window for draws pass, after which a round of all members waits for its quorum."""
        self._skip(draw_window_end(self.latest, self.federation.config.ledger))

    def skip_the_pause(self) -> None:
        """Let the blocks pass for which nobody opens a round, as several in a row left no model."""
        pause = self.rounds().pause(self.federation.config.ledger.draw_window)
        self._skip(self.latest.ending.at.block + pause)

    def _skip(self, end: int) -> None:
        self.network.mine(max(0, end - self.network.block_number()))

    def let(self, name: str, act: Callable[[Ledger], object]) -> None:
        """Let a client that does not live send a transaction, which is mined at once."""
        keys = self.federation.keys[int(name.removeprefix("client-")) - 1]
        self.network.request("evm_setAutomine", True)
        act(self.federation.ledger(keys))
        self.network.request("evm_setAutomine", False)

    # --- what came of it --------------------------------------------------------------------------------------------

    def steps(self, name: str) -> list[str]:
        """The steps that a role passed or was killed at, over all its lives."""
        path = steps_of(self.root, name)
        return path.read_text().splitlines() if path.exists() else []

    def past(self, name: str, step: str) -> bool:
        """Whether a role has passed a step and is not to be killed at it any more."""
        lines = self.steps(name)
        return (f"{PASSED} {step}" in lines or f"{KILLED} {step}" in lines) and not self.roles[name].kills[step]

    def log(self, name: str) -> str:
        """A role's log, of all its lives."""
        path = log_of(self.root, name)
        return path.read_text() if path.exists() else ""

    def rounds(self) -> Rounds:
        """The ledger as it stands, sorted."""
        found = Rounds(self.federation.config.ledger.quorum)
        for record in self.ledger.records():
            found.add(record)
        return found

    @property
    def latest(self) -> RoundRecords:
        """The latest round."""
        return self.rounds().latest

    def models(self) -> dict[int, bytes]:
        """Digest of the model of each closed round."""
        ended = self.rounds().ended()
        return {each.number: each.result.model_digest for each in ended if isinstance(each.end, Closed)}

    def violations(self) -> list[str]:
        """What clients handed out and must not have."""
        rounds, made = self.rounds(), self.federation
        told = []
        for name, keys in zip(self.clients, made.keys, strict=True):
            told += told_by(rounds.member(keys.address).client, described(self.root, name))
        # Not the ledger's draws alone say who is summed with whom: after a failed round groups are summed apart.
        place, store = (self.ledger.chain_id, self.ledger.address), open_store(self._store)
        sealed = [each for each in rounds.rounds.values() if each.sealed]
        graphs = {each.number: method_of(made.config).inputs(rounds, each, place, store).graph for each in sealed}
        return violations(told, rounds.rounds, graphs, self._stood)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill(*self.roles)
        self.network.close()
        self._node.close()


def passed(lines: Iterable[str]) -> list[str]:
    """The names of all steps in these lines, each once, in order."""
    return list(dict.fromkeys(line.partition(" ")[2] for line in lines))
