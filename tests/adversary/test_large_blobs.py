"""Members that publish blobs of megabytes where kilobytes belong.

They want holders, or whoever recovers a round, out of memory: the ledger lists digests only, and in a round of a
thousand everybody would have to read a thousand such blobs. What stops them: how long a blob must be follows from the
round, and no more of it is read; holders read only what they hold of; so the sum is bounded, too.
"""

import threading
import tracemalloc
from dataclasses import dataclass

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed, Released, Shared
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.verdict import BadRecord
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, Sharing, sharing
from fedgrove.node.masking.release import most_release_bytes
from fedgrove.node.masking.sealing import ENTRY_BYTES, shares_bytes
from fedgrove.node.protocol.content import fetch_available
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.concluding import ReleaseShares
from fedgrove.node.roles.client.contributing import Commit, PublishShares
from fedgrove.node.roles.client.role import Duty
from tests.node.federation import Federation, with_phase

QUICK = TrainingSettings(epochs=1, batch_size=30, learning_rate=0.05)
MEMBERS, FEW = 16, Sharing(6, 4)
"""As in a large round, each holds shares of some others only."""
LARGE = 16 << 20
HEAVY = (3, 5, 8, 11)


class Metered(DiskStore):
    """A store that notes what is asked of it, and how many bytes each fetch reads, of several at the same time."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._here, self._counting = threading.local(), threading.Lock()
        self.read = 0
        self.asked: dict[bytes, int] = {}

    def fetch(self, digest: bytes, max_bytes: int) -> bytes:
        self._here.read = 0
        try:
            return super().fetch(digest, max_bytes)
        finally:
            self.asked[digest] = self.asked.get(digest, 0) + self._here.read

    def _read_block(self, cid: CID, limit: int) -> bytes:
        data = super()._read_block(cid, limit)
        self._here.read = getattr(self._here, "read", 0) + len(data)
        with self._counting:
            self.read += len(data)
        return data


def large(number: int) -> bytes:
    return number.to_bytes(4) + bytes(LARGE - 4)


class HeavyShare(PublishShares):
    """Lists sixteen mebibytes as its sealed shares."""

    def act(self, turn):
        self.context.disclosure.shares(turn.current, turn.client)
        self.context.ledger.share(turn.current.number, self.context.store.put(large(turn.client)).digest)
        return Step.act("share", "shared")


class HeavyRelease(ReleaseShares):
    """Lists sixteen mebibytes as the shares that it releases."""

    def act(self, turn):
        deadlines = turn.deadlines
        if turn.client not in turn.current.releases and deadlines.commit_end <= turn.block < deadlines.recover_end:
            self.context.ledger.release(turn.current.number, self.context.store.put(large(turn.client)).digest)
            return Step.act("recover", "released shares")
        return Step.wait("recover", "nobody", deadlines.recover_end)


class HeavyUpload(Commit):
    """Commits to sixteen mebibytes, and publishes them."""

    def act(self, turn):
        if turn.block < turn.deadlines.share_end:
            return Step.wait("share", "nobody", turn.deadlines.share_end)
        number, digest = turn.current.number, self.context.store.put(large(turn.client)).digest
        self.context.ledger.commit(number, digest, self.context.disclosure.secrets(number).seed_hash)
        return Step.act("commit", "committed")


HeavySharer = with_phase(Client, Duty.SHARE, HeavyShare)
HeavyReleaser = with_phase(Client, Duty.RELEASE, HeavyRelease)
HeavyUploader = with_phase(Client, Duty.COMMIT, HeavyUpload)


@dataclass
class Played:
    """A first round, with stores that tell what each honest role read."""

    records: list
    round: RoundInputs
    stores: dict[int, Metered]
    coordinator: Metered
    heavy: tuple[int, ...]
    peaks: dict[int, int]
    remarks: list[BadRecord]

    def of(self, kind: type) -> list:
        return [record for record in self.records if isinstance(record, kind)]

    def is_heavy(self, position: int) -> bool:
        return self.round.current.order[position] in self.heavy

    def digests(self, kind: type) -> dict[bytes, int]:
        """Position of whoever lists it in the first round, by digest."""
        order = self.round.current.order
        return {each.digest: order.index(each.client) for each in self.of(kind) if each.round == 1}


def played(directory, heavy: type[Client], monkeypatch, numbers=HEAVY) -> Played:
    """The first round of a federation of sixteen, in which some members are heavy."""
    monkeypatch.setattr("fedgrove.node.protocol.rounds.sharing", lambda n, assumed: FEW)
    with embedded() as network:
        made = Federation.found(network, directory, MEMBERS, rounds=1, training=QUICK)
        made.register()
        stores = {number: Metered(directory / "store") for number in range(1, MEMBERS + 1)}
        clients = {
            number: made.client(number, heavy if number in numbers else Client, store=stores[number])
            for number in stores
        }
        metered = Metered(directory / "store")
        coordinator = made.coordinator(store=metered)
        peaks = {}
        watch(clients[1], peaks)
        while coordinator.round <= 1 and made.turn(coordinator, clients):
            pass
        records = made.history().records()
        clients[1].view.refresh()
        first = clients[1].view.rounds.rounds[1]
        honest = {number: store for number, store in stores.items() if number not in numbers}
        return Played(records, clients[1].context.inputs(first), honest, metered, numbers, peaks, made.audit().remarks)


def watch(client: Client, peaks: dict[int, int]) -> None:
    """Note the most memory that a client takes while it makes its release."""
    honestly = client.context.disclosure._release

    def release(inputs, number, *rest):
        tracemalloc.start()
        try:
            return honestly(inputs, number, *rest)
        finally:
            peaks[number] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()

    client.context.disclosure._release = release


# --- shares -----------------------------------------------------------------------------------------------------------


def test_holders_read_what_they_hold_and_no_more_than_belongs_there(tmp_path, monkeypatch):
    found = played(tmp_path, HeavySharer, monkeypatch)
    graph, shared = found.round.graph, found.digests(Shared)
    assert len(shared) == MEMBERS
    for number, store in found.stores.items():
        position = found.round.current.order.index(number)
        asked = {shared[digest]: read for digest, read in store.asked.items() if digest in shared}
        assert set(asked) == set(graph.held_by[position])
        assert all(read <= shares_bytes(graph, owner) == 40 + 190 * 6 for owner, read in asked.items())
    assert found.peaks[1] < LARGE  # what it holds, and what the program itself takes meanwhile


def test_what_is_too_large_is_bad_and_its_owner_named(tmp_path, monkeypatch):
    found = played(tmp_path, HeavySharer, monkeypatch)
    (failed,) = [failed for failed in found.of(Failed) if failed.round == 1]
    assert failed and not found.of(Closed)
    assert {remark.client for remark in found.remarks if remark.field == "share.content"} == set(HEAVY)


@pytest.mark.mutants
def test_a_holder_that_loaded_all_blobs_of_any_size_would_need_the_memory_of_all(tmp_path, monkeypatch):
    """The mend taken out, as holders did it: everybody's blob, and up to 16 MiB of it."""

    def everything(inputs, owners):
        order = inputs.current.order
        digests = {order.index(client): share.digest for client, share in inputs.current.shares.items()}
        return fetch_available(inputs.store, digests, LARGE)

    monkeypatch.setattr("fedgrove.node.roles.disclosure.sealed_shares", everything)
    found = played(tmp_path, HeavySharer, monkeypatch)
    shared = found.digests(Shared)
    for store in found.stores.values():
        assert set(shared) <= set(store.asked)
        assert sum(store.asked[digest] for digest in shared) > len(HEAVY) * LARGE
    assert found.peaks[1] > len(HEAVY) * LARGE


# --- releases and updates ---------------------------------------------------------------------------------------------


def test_whoever_recovers_reads_no_more_of_a_release_than_its_holder_may_release(tmp_path, monkeypatch):
    """Two of six holders may be missing: the round closes without what was too large."""
    found = played(tmp_path, HeavyReleaser, monkeypatch, HEAVY[:2])
    assert [closed.round for closed in found.of(Closed)] == [1]
    released = found.digests(Released)
    assert len(released) == MEMBERS
    for digest, holder in released.items():
        most = most_release_bytes(found.round.graph, holder)
        assert most == 52 + (8 + 54) * 6
        read = found.coordinator.asked[digest]
        assert read <= 2 * MEMBERS * most  # it looks again while it waits for others
        assert (read == 0) == found.is_heavy(holder)


@pytest.mark.mutants
def test_a_release_of_any_size_would_be_loaded_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.protocol.aggregation.most_release_bytes", lambda graph, holder: LARGE)
    found = played(tmp_path, HeavyReleaser, monkeypatch, HEAVY[:2])
    heavy = [digest for digest, holder in found.digests(Released).items() if found.is_heavy(holder)]
    assert len(heavy) == 2 and all(found.coordinator.asked[digest] >= LARGE for digest in heavy)


def test_nobody_reads_an_update_that_is_too_large(tmp_path, monkeypatch):
    """The round fails, before anything of it is summed; neither witnesses nor others load it."""
    found = played(tmp_path, HeavyUploader, monkeypatch, HEAVY[:1])
    (failed,) = [failed for failed in found.of(Failed) if failed.round == 1]
    assert failed and not found.coordinator.asked.get(cid_of(large(HEAVY[0])).digest)
    assert all(store.read < 4 << 20 for store in found.stores.values())


# --- the sum ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "holder", "coordinator"), [(32, 0.18, 0.18), (100, 1.78, 1.80), (1000, 12.26, 47.15), (10_000, 19.86, 600.15)]
)
def test_the_sum_of_all_that_a_round_makes_a_role_read_of_shares(n, holder, coordinator):
    """Mebibytes: a holder's follow from the number of holders, which hardly grows; only who recovers reads all."""
    holders = sharing(n, DEFAULT_ASSUMED).holders
    blob = 40 + ENTRY_BYTES * holders
    assert holders * blob / 2**20 == pytest.approx(holder, abs=0.006)
    assert n * blob / 2**20 == pytest.approx(coordinator, abs=0.006)
