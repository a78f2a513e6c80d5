"""Members and a block producer that tamper with releases of shares: to burn budgets, or to read sums for nothing.

A round costs ε when somebody could read its sum. Whoever lists junk as its release wants everybody's budget spent where
nobody read anything: in a round that honest holders keep shut, since so much noise was lost that it would exceed
budgets. The opposite attackers read a sum and see to it that the round does not count: a holder that keeps its shares
to itself until the others have released theirs, and a block producer that keeps releases off the ledger and takes them
from the store. What stops them: a listed release counts, unless honest holders had to refuse; then it takes as many as
open a sum; and a holder publishes its shares only when its release is listed.
"""

import os

import numpy as np
import pytest

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Drawn, Failed, Released
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.tensors import Layout, flatten, load
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.recovery import TooFewShares, recover
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training import client_level
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.aggregation import seed_hashes
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.step import Step
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.concluding import ReleaseShares
from fedgrove.node.roles.client.role import Duty
from fedgrove.node.roles.disclosure import Disclosure
from tests.node.federation import Federation, with_phase

TWO_ROUNDS = ClientLevelSettings(epsilon=5.0, delta=1e-3)
"""Two rounds of σ = 1 cost 4.85, a third would make it 6.28."""
ONE_ROUND = epsilon_of([GaussianRelease(1.0)], TWO_ROUNDS.delta)
SILENT, LIAR = 5, 4


@pytest.fixture
def found(tmp_path, monkeypatch):
    """``found(clients, rounds)``: a federation of registered members with a budget for two rounds."""
    # The coins of rounds after a spoilt one may leave so few of these members that there is no sum to read.
    monkeypatch.setattr(client_level, "in_half", lambda current, clients: list(clients))
    with embedded() as network:

        def make(clients: int, rounds: int, repeats: int = 20, store: type[DiskStore] = DiskStore) -> Federation:
            terms = {
                "training": TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05),
                "masking": MaskingSettings(masked="delta"),
                "privacy": TWO_ROUNDS,
            }
            made = Federation.found(network, tmp_path, clients, rounds, repeats, **terms)
            made.store = store(tmp_path / "store")
            made.register()
            return made

        yield make


def rounds_of(federation):
    view = federation.coordinator().view
    view.refresh()
    return view.rounds


def spending(federation) -> Spending:
    rounds = rounds_of(federation)
    first = load(federation.store.fetch(rounds.rounds[1].opened.model_digest, 1 << 24))
    return Spending(method_of(federation.config), federation.store, rounds, Layout.of(first).length)


# --- junk -------------------------------------------------------------------------------------------------------------


class ListsJunk(Client):
    """Lists as its release what the test says, where honest holders list none."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        honestly = self.context.disclosure.released
        self.context.disclosure.released = lambda *rest: self.junk if rest[0].number == 2 else honestly(*rest)

    junk = b""


class ListsItsShares(ListsJunk):
    """Releases its shares although it must not: what it lists is valid."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        release = Disclosure.released

        def regardless(current, *rest):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("fedgrove.node.roles.disclosure.overspent", lambda method, number: "")
                return release(self.context.disclosure, current, *rest)

        self.context.disclosure.released = regardless


def with_a_liar(federation, liar: type[Client], junk: bytes) -> None:
    """In round 2 a client drops out with its noise, so that honest holders release nothing; one lists all the same."""
    coordinator, clients = federation.coordinator(), federation.clients()
    clients[LIAR] = federation.client(LIAR, liar)
    clients[LIAR].junk = junk
    while federation.turn(coordinator, clients):
        clients[LIAR].step()  # before the coordinator records that the round has failed
        if coordinator.round == 2 and federation.said(f"client {SILENT}")[-1:] == ["shared"]:
            clients.pop(SILENT, None)


LIES = {"32 random bytes": (ListsJunk, os.urandom(32)), "nothing": (ListsJunk, b""), "shares": (ListsItsShares, b"")}


@pytest.mark.parametrize("lie", LIES)
def test_a_release_that_nobody_else_makes_spends_nobodys_budget(found, lie):
    federation = found(5, 2)
    with_a_liar(federation, *LIES[lie])
    assert {record.client for record in federation.of(Released) if record.round == 2} == {LIAR}
    for client in range(1, 6):
        assert spending(federation).epsilon(client, 2) == pytest.approx(ONE_ROUND)
    first, other = federation.of(Closed)  # the budget affords another
    assert first.round == 1 and other.round > 2
    verdict = federation.audit()
    assert verdict.verdict == "verified" and verdict.privacy.epsilon < TWO_ROUNDS.epsilon


@pytest.mark.mutants
def test_if_any_listed_release_counted_junk_would_end_the_training(found, monkeypatch):
    monkeypatch.setattr(Spending, "_enough", lambda self, current: 1)
    federation = found(5, 2)
    with_a_liar(federation, *LIES["32 random bytes"])
    assert [record.round for record in federation.of(Closed)] == [1]
    assert spending(federation).epsilon(1, 2) > TWO_ROUNDS.epsilon
    assert {record.round for record in federation.of(Drawn)} == {1, 2}


# --- shares that a holder keeps to itself -----------------------------------------------------------------------------


class Withholds(ReleaseShares):
    """Makes its release and keeps it; with those of the others it reads the sum of every round, which then fails."""

    def __init__(self, context):
        super().__init__(context)
        self.read: dict[int, np.ndarray] = {}

    def act(self, turn):
        current, waiting = turn.current, Step.wait("recover", "nobody", turn.deadlines.recover_end)
        if turn.block < turn.deadlines.commit_end or len(current.releases) < 2 or current.number in self.read:
            return waiting
        inputs = self.context.inputs(current)
        blobs = {current.order.index(client): self._published_by(record) for client, record in current.releases.items()}
        blobs[current.order.index(turn.client)] = self.context.disclosure.released(current, turn.client, [])
        try:
            shares = {
                current.order.index(client): self._published_by(record) for client, record in current.shares.items()
            }
            record = recover(inputs.graph, inputs.sharers, inputs.survivors, seed_hashes(current), blobs, shares)
        except TooFewShares:
            return waiting
        change = flatten(self.context.method.codec.outcome(inputs, record).model) - flatten(inputs.previous)
        self.read[current.number] = change
        return waiting

    def _published_by(self, record):
        has = self.context.store.has(record.digest)
        return self.context.store.fetch(record.digest, 1 << 24) if has else b""


def withheld(federation) -> Withholds:
    villain = federation.client(3, with_phase(Client, Duty.RELEASE, Withholds))
    federation.run(clients=federation.clients() | {3: villain})
    return villain.units[Duty.RELEASE]


def test_a_sum_that_one_holder_alone_could_open_is_counted(found):
    federation = found(3, 5)
    villain = withheld(federation)
    assert federation.of(Failed) and not federation.of(Closed)
    assert set(villain.read) == {record.round for record in federation.of(Released)} and len(villain.read) == 2
    assert all(change.any() for change in villain.read.values())
    last = max(villain.read)
    assert spending(federation).epsilon(1, last) == pytest.approx(epsilon_of([GaussianRelease(1.0, count=2)], 1e-3))
    assert max(record.round for record in federation.of(Drawn)) == last  # then nobody draws any more


@pytest.mark.mutants
def test_if_only_what_all_could_read_counted_it_would_read_every_round_for_nothing(found, monkeypatch):
    monkeypatch.setattr(Spending, "_enough", lambda self, current: 1 << 32)
    federation = found(3, 5)
    villain = withheld(federation)
    assert len(villain.read) >= 5 and spending(federation).epsilon(1, max(villain.read)) == 0
    assert epsilon_of([GaussianRelease(1.0, count=5)], 1e-3) > TWO_ROUNDS.epsilon


# --- releases that a block producer keeps off the ledger --------------------------------------------------------------


class Watched(DiskStore):
    """The attacker sees whatever is put here."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.seen: list[bytes] = []

    def put(self, data):
        self.seen.append(data)
        return super().put(data)


def censored(federation) -> None:
    """No release ever comes on the ledger."""

    def censor(*arguments):
        raise ContractRevert("the block producer left it out")

    clients = federation.clients()
    for client in clients.values():
        client.context.ledger.release = censor
    federation.run(clients=clients)


def readable(federation, number: int) -> bool:
    """Whether what is in the store, listed or not, opens a round's sum."""
    rounds = rounds_of(federation)
    current = rounds.rounds[number]
    ledger = (federation.deployment.chain_id, federation.deployment.ledger)
    inputs = method_of(federation.config).inputs(rounds, current, ledger, federation.store)
    blobs = {int.from_bytes(data[36:40]): data for data in federation.store.seen if data[:4] == b"FGR2"}
    shares = {
        owner: federation.store.fetch(current.shares[client].digest, 1 << 24)
        for owner, client in enumerate(current.order)
    }
    try:
        record = recover(inputs.graph, inputs.sharers, inputs.survivors, seed_hashes(current), blobs, shares)
    except TooFewShares:
        return False
    return method_of(federation.config).codec.outcome(inputs, record).model is not None


def test_what_the_ledger_does_not_list_is_not_published_and_costs_nothing(found):
    federation = found(3, 1, 0, Watched)
    censored(federation)
    assert len(federation.of(Failed)) == 1 and not federation.of(Released)
    assert not readable(federation, 1) and spending(federation).epsilon(1, 1) == 0
    assert federation.audit().holds


@pytest.mark.mutants
def test_shares_that_were_published_first_would_be_read_for_nothing(found, monkeypatch):
    honestly = Disclosure.released

    def published(self, *arguments):
        blob = honestly(self, *arguments)
        self.store.put(blob)
        return blob

    monkeypatch.setattr(Disclosure, "released", published)
    federation = found(3, 1, 0, Watched)
    censored(federation)
    assert not federation.of(Released)
    assert readable(federation, 1) and spending(federation).epsilon(1, 1) == 0
