"""``fedgrove network up`` when a process hangs for long, or when the coordinator never comes back."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL

import pytest

from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.access import Network
from fedgrove.chain.records import Phase
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.testnet.control import look
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.devnet.testnet.processes import chain_url
from fedgrove.node.devnet.testnet.supervisor import ENDED, RUNNING
from fedgrove.node.protocol.clock import phase_of
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords
from scripts.chaos import hang, outcome
from tests.node.cli.test_bad_input import fedgrove
from tests.node.cli.test_network import up

ROUNDS = 3
SECONDS = 400.0
POLL_SECONDS = 0.05
WINDOWS = 60
# Seconds that processes have after a block that the test makes, or a window that passes at once, to see it and to act.
SECONDS_A_BLOCK = 0.2
SECONDS_A_WINDOW = 0.5
TESTNET = ("--clients", "3", "--store", "disk", "--chain", "anvil", "--no-explorer")


@dataclass
class Watched:
    """A testnet that is up, its chain, and its ledger as it is at each look."""

    layout: TestnetPaths
    network: Network
    deployment: Deployment
    view: LedgerView
    by_hand: bool = False

    @property
    def current(self) -> RoundRecords | None:
        """The latest round."""
        return self.view.refresh()

    @property
    def phase(self) -> Phase:
        """Of the latest round; NONE before the first."""
        current = self.current
        return Phase.NONE if current is None else phase_of(current, self.view.deadlines(current), self.view.block + 1)

    def until(self, condition, what: str) -> None:
        """Look at the ledger until something holds."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not in {SECONDS:g} s; {self.phase.name} of {self.current}"
            time.sleep(SECONDS_A_BLOCK if self.by_hand else POLL_SECONDS)
            if self.by_hand:
                self.network.mine()

    def stop_the_clock(self) -> None:
        """Have blocks made from now on whenever the test looks, and at no other time."""
        self.network.request("evm_setIntervalMining", 0)
        self.by_hand = True

    def process(self, name: str) -> Identity:
        """The process of a participant that runs."""
        one = next(each for each in look(self.layout).kept if each.name == name)
        assert one.state == "running", one
        return Identity(one.pid, one.started)

    def client(self, name: str) -> int:
        """A participant's index on the ledger."""
        account = read_record(self.layout).accounts[name]
        return next(index for index, each in self.view.rounds.members.items() if each.account == account)

    def ended(self) -> bool:
        """Whether the supervisor says that the federation has ended."""
        phase = look(self.layout).phase
        assert phase in (RUNNING, ENDED), phase
        return phase == ENDED


@pytest.fixture
def testnet(tmp_path):
    """Three members and three rounds, which a coordinator opens and the members may have to."""
    opened = []

    def bring_up(*more: str, rounds: int = ROUNDS) -> Watched:
        done = up(*TESTNET, "--rounds", str(rounds), *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        record = read_record(TestnetPaths(tmp_path / "testnet"))
        network = connect(chain_url(record), record.chain_id)
        opened.append(network)
        deployment = read_deployment(network, record.ledger, record.block)
        view = LedgerView(Ledger(network, deployment, None))
        return Watched(TestnetPaths(tmp_path / "testnet"), network, deployment, view)

    yield bring_up
    for network in opened:
        network.close()
    fedgrove("network", "down", "--delete", cwd=tmp_path)


def check_rounds(watched: Watched, place: Path, headless: int = 0) -> None:
    """All rounds closed and none was opened in vain, ``headless`` of them by members; an auditor finds nothing."""
    watched.until(watched.ended, "the end")
    watched.view.refresh()
    rounds = watched.view.rounds.rounds.values()
    assert len(rounds) == watched.deployment.terms.rounds and all(each.stands for each in rounds), list(
        map(outcome, rounds)
    )
    closers = [each.closing.at.author for each in rounds]
    assert len(closers) - closers.count(watched.deployment.coordinator) >= headless
    record = read_record(watched.layout)
    reach = ("--rpc", chain_url(record), "--ledger", record.ledger, "--from-block", str(record.block))
    audit = fedgrove("audit", *reach, "--store", f"disk:{watched.layout.root / 'store'}", "--json", cwd=place)
    assert audit.returncode == 0, audit.stderr
    assert json.loads(audit.stdout)["verdict"] == "verified"


def stop_between_rounds(watched: Watched, name: str, index: int) -> list[Identity]:
    """Stop a member's processes before it draws in the second round; the test makes the blocks, one by one."""
    watched.stop_the_clock()
    store = DiskStore(watched.layout.root / "store")

    def published() -> bool:
        # What is listed comes into the store after it: without that the round could not be summed.
        release = watched.current.releases.get(index)
        return release is not None and store.has(release.digest)

    watched.until(published, "the member's release")
    hung = hang(watched.layout, name)
    watched.until(lambda: watched.current.number > 1, "the second round")
    assert index not in watched.current.draws
    return hung


def wait_for_a_hung_member(watched: Watched, windows: int) -> None:
    """Stop a member below the quorum for some windows of a draw; the round waits, and goes on when it is back."""
    watched.until(lambda: watched.current is not None, "a first round")
    assert watched.current.number == 1
    index, hung = watched.client("client-02"), []
    try:
        hung = stop_between_rounds(watched, "client-02", index)
        for _ in range(windows):
            watched.network.mine(watched.view.settings.draw_window)
            time.sleep(SECONDS_A_WINDOW)
        assert watched.current.number == 2 and watched.phase is Phase.DRAW
        assert set(watched.current.able) - set(watched.current.draws) == {index}
    finally:
        for each in hung:
            each.send(SIGCONT)


def lose_the_coordinator(watched: Watched) -> None:
    """Kill the coordinator's process so that it never comes back."""
    coordinator = watched.process("coordinator")
    # Without its keys it ends whenever it is started again, until it is given up.
    watched.layout.participant("coordinator").keystore.unlink()
    assert coordinator.send(SIGKILL)


def test_a_hung_member_is_waited_for(testnet, tmp_path):
    watched = testnet("--block-seconds", "0.25", rounds=2)
    wait_for_a_hung_member(watched, windows=4)
    check_rounds(watched, tmp_path)


@pytest.mark.processes
def test_a_hung_member_is_waited_for_and_uses_no_repeat(testnet, tmp_path):
    watched = testnet("--block-seconds", "0.5")
    wait_for_a_hung_member(watched, WINDOWS)
    check_rounds(watched, tmp_path)


@pytest.mark.processes
@pytest.mark.parametrize(
    "phase",
    [Phase.CLOSED, Phase.DRAW, Phase.SEAL, Phase.SHARE, Phase.COMMIT, Phase.RECOVER],
    ids=lambda each: each.name,
)
def test_a_headless_federation_goes_on_by_its_members(testnet, tmp_path, phase):
    watched = testnet("--block-seconds", "0.5", "--standby", "3")
    watched.until(lambda: watched.phase is phase and watched.current.number < ROUNDS, f"the phase {phase.name}")
    headless = ROUNDS - watched.current.number
    lose_the_coordinator(watched)
    check_rounds(watched, tmp_path, headless)
