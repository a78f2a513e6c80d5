"""Over a live ledger: the index follows the chain step by step, says what ``fedgrove status`` says, and is mended."""

import pytest

from chain.networks import embedded
from node.explorer.index import Index
from node.explorer.sources import LiveSource
from node.explorer.terms import latest_config
from node.explorer.watch import Watch
from node.learning.settings import TrainingSettings
from node.rounds import Rounds
from node.standing import standing
from tests.node.explorer.test_index import contents
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


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
            sights.append((source.standing(1), records, source.audit(lambda _: None)))

        look()  # at a ledger on which there is nothing yet
        federation.register()
        look()
        coordinator, clients = federation.coordinator(), federation.clients()
        while federation.turn(coordinator, clients):
            look()
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
    assert source.standing(1) == standing(federation.ledger(federation.keys[0]), rounds=1)
    phases = [where.phase for where, _, _ in sights]
    for phase in ("draw", "share", "commit", "recover", "closed"):
        assert phase in phases


def test_the_audit_speaks_when_all_rounds_have_ended(life):
    _, _, _, sights = life
    *before, (_, records, verdict) = sights
    assert verdict.verdict == "verified" and verdict.records == records
    assert before[0][1] == 0 and before[0][2] is None


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


def test_a_watch_tells_when_something_is_new(life):
    federation, source, index, _ = life
    with Watch(source, index, interval=0.05) as watch, watch.changed:
        assert watch.changed.wait_for(lambda: watch.sight.standing is not None, timeout=120)
        assert watch.changed.wait_for(lambda: latest_config(index) == federation.config, timeout=120)
    assert watch.sight.version > 0 and not watch.sight.waiting
