"""Over a live ledger: the index follows the chain step by step, says what ``fedgrove status`` says, and is mended."""

import threading

import pytest
from fastapi.testclient import TestClient

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Shared
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.node.devnet.keeping import mirror
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.export import export
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.server import make_app
from fedgrove.node.explorer.sources import LiveSource
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.standing import standing
from tests.ipfs.kubo_nodes import needs_kubo
from tests.node.explorer.conftest import HOME
from tests.node.explorer.test_export import links
from tests.node.explorer.test_index import contents
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


def snapshot(federation, directory):
    """Export what is there now."""
    source = LiveSource(federation.network, federation.deployment, federation.store, "embedded", "fedgrove audit …")
    with open_index(source, directory / "cache") as index:
        with IndexWatch(source, index) as watch:
            watch.settle()
        export(watch, directory / "site", 1 << 30)


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """A federation of one round, followed by an index from its first block on; and every sight of it on the way."""
    directory = tmp_path_factory.mktemp("live")
    with embedded() as network:
        federation = Federation.found(network, directory, training=QUICK)
        source = LiveSource(network, federation.deployment, federation.store, "embedded", "fedgrove audit …")
        index = Index(directory / "index.sqlite", federation.deployment)
        sights = []

        def look():
            source.read(index)
            records = index.value("SELECT count(*) FROM records")
            sights.append((source.standing(), records, source.audit(lambda _: None)))

        look()  # at a ledger on which nothing is but that it was founded
        federation.register()
        look()
        coordinator, clients = federation.coordinator(), federation.clients()
        while True:
            # These two alone, so that phases are seen that end with the last client.
            for role, actor in (("coordinator", coordinator), ("client 1", clients[1])):
                step = actor.step()
                if step.acted:
                    federation.log.append((role, step))
                    look()
            if not federation.turn(coordinator, clients):
                break
            look()
            if "committed" in federation.said("client 1") and not (directory / "site").exists():
                snapshot(federation, directory)
        look()
        yield federation, source, index, sights
        index.close()


def test_the_index_has_every_record_of_the_chain(life):
    federation, _, index, sights = life
    records = federation.history().records()
    assert index.value("SELECT count(*) FROM records") == len(records)
    ledger = Rounds()
    for record in records:
        ledger.add(record)
    query = "SELECT client FROM parts WHERE round = 1 AND position IS NOT NULL ORDER BY position"
    assert tuple(row["client"] for row in index.rows(query)) == ledger.rounds[1].order
    counts = [count for _, count, _ in sights]
    assert counts == sorted(counts) and len(set(counts)) > 5


def test_it_stands_where_status_says(life):
    federation, source, _, sights = life
    assert source.standing() == standing(federation.ledger(federation.keys[0]))
    phases = [where.phase for where, _, _ in sights]
    for phase in ("draw", "share", "commit", "recover", "closed"):
        assert phase in phases


def test_the_audit_speaks_when_all_rounds_have_ended(life):
    federation, _, _, sights = life
    (_, founded, first), *_, (_, records, verdict) = sights
    assert verdict.verdict == "verified" and verdict.records == records
    assert founded == 2 + len(federation.keys) and first is None  # the contracts, and who the terms name


def test_an_index_that_departs_from_the_chain_is_mended(life):
    federation, source, index, _ = life
    before = contents(index)
    middle = (federation.deployment.block + index.head()) // 2
    with index.changes() as database:
        database.execute("UPDATE blocks SET hash = zeroblob(32) WHERE number >= ?", (middle,))
        database.execute("UPDATE records SET fields = '{}', kind = 'Skipped' WHERE block > ?", (middle,))
    assert source.read(index)
    after = contents(index)
    for table in before.keys() - {"transactions", "records"}:
        assert after[table] == before[table], table
    assert not source.read(index)


@needs_kubo
def test_over_a_kubo_node_it_sees_the_same_and_what_the_node_does_not_find(life, tmp_path):
    federation, _, _, _ = life
    records = federation.history().records()
    lost = next(record for record in records if isinstance(record, Shared))
    with LocalKubo(tmp_path / "kubo") as node:
        store = KuboStore(node.url, timeout=1.0)
        mirror(federation.store, store, (record for record in records if record is not lost))
        source = LiveSource(federation.network, federation.deployment, store, "embedded", "fedgrove audit …")
        with open_index(source, tmp_path / "cache") as index, IndexWatch(source, index) as watch:
            sight = watch.settle()
            blobs = index.rows("SELECT * FROM blobs")
            pages = TestClient(make_app(watch), base_url=HOME)
            model = next(row["digest"].hex() for row in blobs if row["role"] == "model")
            page, raw = (pages.get(path) for path in (f"/blobs/{model}/", f"/raw/{model}"))
    assert sight.verdict.verdict == "verified" and [each.client for each in sight.verdict.remarks] == [lost.client]
    assert {row["digest"]: row["cid"] for row in blobs} == {
        row["digest"]: str(federation.store.root(row["digest"]).cid) if row["digest"] != lost.digest else None
        for row in blobs
    }
    assert [row["digest"] for row in blobs if row["state"] != "held"] == [lost.digest]
    assert "parameters, according to the file" in page.text
    assert raw.content == federation.store.fetch(bytes.fromhex(model), 1 << 24)


class Slow:
    """A store that looks for each blob until it is let go, as a networked one does for half a minute."""

    def __init__(self, store, go: threading.Event) -> None:
        self._store = store
        self._go = go

    def root(self, digest):
        assert self._go.wait(120)
        return self._store.root(digest)

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_store_that_takes_its_time_holds_up_neither_chain_nor_audit(life, tmp_path):
    federation, _, _, _ = life
    go = threading.Event()
    store = Slow(federation.store, go)
    source = LiveSource(federation.network, federation.deployment, store, "embedded", "fedgrove audit …")
    with open_index(source, tmp_path) as index, IndexWatch(source, index, interval=0.05) as watch:
        with watch.changed:
            assert watch.changed.wait_for(lambda: watch.sight.verdict and watch.sight.standing, timeout=120)
        assert watch.sight.verdict.verdict == "verified" and watch.sight.standing.phase == "closed"
        assert index.value("SELECT count(*) FROM blobs WHERE state = 'held'") == 0
        go.set()
        watch.settle()
        assert index.value("SELECT count(*) FROM blobs WHERE state != 'held'") == 0


def test_an_audit_that_breaks_off_does_not_leave_the_pages_saying_that_it_goes_on(life, tmp_path, monkeypatch):
    _, source, _, _ = life
    monkeypatch.setattr(source, "audit", lambda _: 1 / 0)
    complaints = []
    monkeypatch.setattr(threading, "excepthook", complaints.append)
    with open_index(source, tmp_path) as index, IndexWatch(source, index) as watch:
        sight = watch.settle()
    assert sight.verdict.verdict == "cannot tell" and "ZeroDivisionError" in sight.verdict.reason
    assert not sight.auditing and len(complaints) == 1


def test_an_export_of_a_round_that_goes_on_shows_what_was_there(life):
    federation, _, _, _ = life
    site = federation.directory / "site"
    overview = (site / "index.html").read_text()
    assert "Verified so far" in overview and "running" in overview
    assert "data-events" not in overview and "live</span>" not in overview
    assert "Masked update" in (site / "rounds" / "1" / "index.html").read_text()
    for page, path in links(site):
        assert (page.parent / path).is_file(), f"{page} links to {path}"


def test_a_watch_tells_when_something_is_new(life):
    federation, source, index, _ = life
    with IndexWatch(source, index, interval=0.05) as watch, watch.changed:
        assert watch.changed.wait_for(lambda: watch.sight.standing is not None, timeout=120)
        assert watch.changed.wait_for(lambda: index.latest_config() == federation.config, timeout=120)
    assert watch.sight.version > 0 and not watch.sight.waiting
