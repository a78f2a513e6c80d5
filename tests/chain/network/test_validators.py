"""A federation on a chain of four validators with Byzantine fault tolerance, some of which are killed meanwhile.

Not part of the default run: `python -m pytest -m validators`. What such a chain lacks is tested, too: its headers do
not have the hashes that its blocks have, so its records are read by the word of two validators (`network.proofs`).
"""

import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from eth_utils import keccak, to_wei

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import BadHistory, ChainError, ContractRevert
from fedgrove.chain.face.founding import deploy, verify_code
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.network.rpc import RpcNetwork
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records import (
    Closed,
    Committed,
    Drawn,
    LedgerFounded,
    Registered,
    RegistryFounded,
    RoundOpened,
    Shared,
)
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.roles.coordinator import Coordinator
from tests.chain.federations import MODEL, TERMS, found
from tests.chain.network.block_hashes import Feeder
from tests.chain.network.validators import CHAIN_ID, Missing, Validators, find_injectived
from tests.node.federation import Federation

pytestmark = pytest.mark.validators

PATIENCE_SECONDS = 240
TRANSFER_GAS = 21_000
# About half a second a block; room for what a loaded machine may take.
WINDOWS = LedgerSettings(
    seed_delay=1,
    draw_window=20,
    seal_window=20,
    share_window=20,
    commit_window=30,
    recover_window=80,
    coordinator_grace=20,
    max_clients=4,
)


class PaidNetwork(RpcNetwork):
    """A connection to all validators; nobody mines at will there, and test ether comes from the rich account."""

    def __init__(self, chain: Validators) -> None:
        super().__init__(chain.urls, CHAIN_ID, proofs="endpoints")
        self.feeder = Feeder(self, chain.rich)
        self._rich = chain.rich

    def fund(self, address: str, ether: float) -> None:
        sender_of(self, self._rich).transact(address, b"", TRANSFER_GAS, value=int(to_wei(ether, "ether")))

    def mine(self, blocks: int = 1) -> None:
        self.advance_to(self.block_number() + blocks)


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    try:
        find_injectived()
    except Missing as missing:
        pytest.skip(str(missing))
    with Validators(tmp_path_factory.mktemp("chain"), Account(os.urandom(32))) as running:
        yield running


@pytest.fixture
def network(chain):
    with PaidNetwork(chain) as connected:
        yield connected


def test_every_validator_runs_our_code_and_keeps_our_records(chain, network):
    federation = found(network)
    verify_code(network, federation.deployment)
    records = federation.coordinator.records()
    assert [type(record) for record in records] == [RegistryFounded, LedgerFounded] + [Registered] * 4
    chain.wait(network.block_number())
    for url in chain.urls:
        with connect(url, CHAIN_ID, proofs="endpoints") as own:
            verify_code(own, federation.deployment)
            assert Ledger(own, federation.deployment).records() == records


def test_what_its_blocks_do_not_offer(chain, network):
    """Why a ledger there needs block hashes from elsewhere, and its history cannot be checked without a node."""
    deployment = deploy(network, chain.rich, chain.rich.address, WINDOWS, TERMS)
    ledger = Ledger(network, deployment, chain.rich)
    ledger.open(MODEL)
    seed_block = ledger.round(1).seed_block
    network.advance_to(seed_block + 1)
    with pytest.raises(ContractRevert) as refusal:
        ledger.fix_seed(1)
    assert refusal.value.name == "BlockHashUnavailable"
    network.feeder.feed(seed_block)
    ledger.fix_seed(1)
    fixed = ledger.records()[-1]
    assert {fixed.block_hash} == {validator.block(seed_block).hash for validator in chain.all}
    assert keccak(network.headers(seed_block, seed_block)[0]) != fixed.block_hash
    with pytest.raises(BadHistory, match="cannot be recomputed"):
        capture(network, deployment)
    with connect(chain.urls, CHAIN_ID) as proving, pytest.raises(BadHistory):
        Ledger(proving, deployment).records()


def test_a_federation_trains_on_while_validators_fail(chain, network, tmp_path):
    federation = Federation.found(network, tmp_path, rounds=2, ledger=WINDOWS)
    federation.register()
    first, second, third, _ = chain.all
    with ExitStack() as stack:
        training = stack.enter_context(ThreadPoolExecutor(1)).submit(train, federation)
        # Whatever happens here, the training can come to its end.
        stack.callback(chain.start)
        watch = Watch(federation, stack.enter_context(connect(chain.urls[3], CHAIN_ID, proofs="endpoints")), training)

        watch.until(4, Drawn, 1)
        first.kill()  # the one that all roles ask
        watch.until(1, Closed, 1)
        first.start()

        watch.until(4, Shared, 2)
        chain.wait(network.block_number())
        second.kill()
        third.kill()
        waits_for_them(chain, watch)
        training.result(PATIENCE_SECONDS)

    assert len(watch.found(Committed, 1)) == len(watch.found(Committed, 2)) == 4, federation.log
    agree(chain, federation)


def train(federation: Federation) -> None:
    """Run the federation to its end; the coordinator sees to it that the ledger has the blocks' hashes it needs."""
    network = federation.network

    class FeedingLedger(Ledger):
        def seal(self, number, tickets, order_block):
            network.feeder.feed(order_block)
            return super().seal(number, tickets, order_block)

    class FeedingCoordinator(Coordinator):
        def step(self):
            step = super().step()
            opened = [record for record in ledger.records() if isinstance(record, RoundOpened)]
            if opened and opened[-1].seed_block not in fed:
                fed.add(opened[-1].seed_block)
                network.feeder.feed(opened[-1].seed_block)
            return step

    fed: set[int] = set()
    ledger = FeedingLedger(network, federation.deployment, federation.coordinator_keys.account)
    federation.run(federation.coordinator(lambda _, *parts: FeedingCoordinator(ledger, *parts)))


class Watch:
    """Follows a training's records through a connection of its own."""

    def __init__(self, federation: Federation, network: RpcNetwork, training: Future) -> None:
        self._ledger = Ledger(network, federation.deployment)
        self._log = federation.log
        self.training = training

    def found(self, kind: type, number: int) -> list:
        """A round's records of a kind."""
        return [record for record in self._ledger.records() if isinstance(record, kind) and record.round == number]

    def until(self, count: int, kind: type, number: int) -> None:
        """Wait until the round has so many records of this kind."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.found(kind, number)) < count:
            assert time.monotonic() < deadline and not self.training.done(), self._log[-5:]
            time.sleep(0.1)


def waits_for_them(chain: Validators, watch: Watch) -> None:
    """With half of the validators there is no block, whoever waits for one is told, and nothing sent is lost."""
    head = chain.wait_until_halted()
    poor, amount = Keys.generate().address, 10**15
    with PaidNetwork(chain) as other:
        sender = sender_of(other, chain.rich)
        with pytest.raises(ChainError, match="check that the chain makes blocks"):
            sender.transact(poor, b"", TRANSFER_GAS, timeout=2, value=amount)
        with pytest.raises(ChainError, match=f"to reach block {head + 1}, but it is at {head}"):
            other.advance_to(head + 1, timeout=1)
        assert chain.wait_until_halted() == head
        assert not watch.training.done()
        chain.start()
        # The same call again waits for what was sent before.
        sender.transact(poor, b"", TRANSFER_GAS, value=amount)
        assert other.balance(poor) == amount


def agree(chain: Validators, federation: Federation) -> None:
    """All validators have the same blocks, state and records, and an auditor accepts what each of them tells."""
    head = federation.network.block_number()
    chain.wait(head)
    assert len({validator.block(head) for validator in chain.all}) == 1
    model = federation.ledger(federation.coordinator_keys).current_model()
    records = federation.ledger(federation.coordinator_keys).records()
    assert federation.store.has(model)
    for url in chain.urls:
        with connect(url, CHAIN_ID, proofs="endpoints") as own:
            reader = Ledger(own, federation.deployment)
            assert (reader.current_model(), reader.records()) == (model, records)
            facts = chain_facts(LedgerHistory(federation.deployment, ()))
            facts = replace(facts, head_block=head, block_hash=reader.block_hash, randomness=reader.block_randomness)
            verdict = Auditor(facts, reader.records(), federation.store).run()
            assert (verdict.verdict, verdict.rounds) == ("verified", 2), verdict


def test_validators_end_with_a_killed_parent(chain, tmp_path):
    code = (
        "import os, sys, time; from pathlib import Path; from fedgrove.chain.crypto.account import Account\n"
        "from validators import Validators\n"
        "with Validators(Path(sys.argv[1]), Account(os.urandom(32)), count=1) as chain:\n"
        "    print(chain.all[0].pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **paths}) as parent:
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
