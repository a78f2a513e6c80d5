"""The index says what the ledger says, is made once, follows the chain where it is replaced, and never raises."""

import json
import os
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from fedgrove.chain import records as kinds
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed, Drawn, Judged, Phase, Position, Registered, RoundOpened, Sealed
from fedgrove.chain.records.deployment import Deployment
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.placing import DIGESTS, entry_of, place
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.protocol.rounds import Rounds
from tests.node.explorer.conftest import exploring

FILES = Path("/proc/self/fd")


@pytest.fixture
def index(run, tmp_path):
    made = Index(tmp_path / "index.sqlite", run.history.deployment)
    yield made
    made.close()


def contents(index: Index) -> dict[str, list[tuple]]:
    tables = ("blocks", "transactions", "records", "named", "members", "rounds", "parts")
    return {table: [tuple(row) for row in index.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3")] for table in tables}


def piece(history: LedgerHistory, first: int, last: int) -> LedgerHistory:
    """Blocks first to last as a history of its own."""
    start = history.first_block
    deployment = replace(history.deployment, block=first)
    return LedgerHistory(deployment, history.blocks[first - start : last + 1 - start])


def test_every_kind_of_record_has_a_name_and_its_digests_are_fields():
    for kind in kinds.KINDS:
        assert kind.TITLE and kind.FIELD
        assert set(DIGESTS[kind.__name__]) <= set(kind.__dataclass_fields__)


def test_rounds_members_and_orders_are_those_of_the_ledger(run, explorer):
    ledger = Rounds()
    for record in run.records:
        ledger.add(record)
    rows = explorer.index.rows("SELECT * FROM rounds ORDER BY number")
    assert [row["number"] for row in rows] == list(ledger.rounds)
    for row, entry in zip(rows, ledger.rounds.values(), strict=True):
        figures = json.loads(row["figures"])
        assert (figures["drawn"], figures["committed"]) == (len(entry.draws), len(entry.commits))
        assert row["model"] == entry.end.model_digest and json.loads(row["able"]) == list(entry.able)
        query = "SELECT client FROM parts WHERE round = ? AND position IS NOT NULL ORDER BY position"
        assert tuple(part["client"] for part in explorer.index.rows(query, entry.number)) == entry.order
    accounts = {row["client"]: row["account"] for row in explorer.index.rows("SELECT * FROM members")}
    assert accounts == {client: member.account for client, member in ledger.members.items()}


def test_figures_are_those_of_the_report(run, explorer):
    for stated in run.report["rounds"]:
        text = explorer.index.value("SELECT figures FROM rounds WHERE number = ?", stated["round"])
        assert json.loads(text) == stated | {"seconds": None}
        assert stated["bytes"] == sum(run.report["bytes"][str(stated["round"])].values())


def test_cids_are_those_of_the_report(run, explorer):
    query = "SELECT cid FROM blobs JOIN rounds ON model = digest ORDER BY number"
    cids = [row["cid"] for row in explorer.index.rows(query)]
    assert cids == [stated["model_cid"] for stated in run.report["rounds"]]


def test_a_history_read_in_pieces_gives_the_same_index(run, tmp_path, index):
    whole = Index(tmp_path / "whole.sqlite", run.history.deployment)
    whole.add(run.history)
    first, last = run.history.first_block, run.history.head_block
    for start in range(first, last + 1, 17):
        index.add(piece(run.history, max(first, start - 1), min(last, start + 16)))
    assert contents(index) == contents(whole)
    whole.close()


def test_blocks_that_the_chain_replaced_leave_no_trace(run, index):
    index.add(run.history)
    before = contents(index)
    middle = (run.history.first_block + run.history.head_block) // 2
    index.forget_after(middle)
    assert index.head() == middle
    assert not index.rows("SELECT 1 FROM records WHERE block > ?", middle)
    index.add(piece(run.history, middle, run.history.head_block))
    after = contents(index)
    for table in before.keys() - {"transactions", "records"}:
        assert after[table] == before[table], table


def test_what_was_indexed_once_is_not_read_again(run, tmp_path, monkeypatch):
    with exploring(DirectorySource(run.directory), tmp_path) as first:
        before = contents(first.index)
    source = DirectorySource(run.directory)
    with monkeypatch.context() as patch:
        patch.setattr(Index, "add", lambda *_: pytest.fail("it was read again"))
        with exploring(source, tmp_path) as second:
            assert contents(second.index) == before


def test_another_federation_gets_an_index_of_its_own(run, tmp_path, index):
    index.add(run.history)
    index.close()
    other = replace(run.history.deployment, chain_id=run.history.chain_id + 1)
    reopened = Index(tmp_path / "index.sqlite", other)
    assert reopened.head() == other.block - 1
    reopened.close()


HUGE = (1 << 64) - 1
AT = Position(1, bytes(32), 0)


@pytest.mark.parametrize(
    "record",
    [
        RoundOpened(AT, HUGE, bytes(32), bytes(32), 1, HUGE, HUGE, HUGE),
        RoundOpened(AT, 1, bytes(32), bytes(32), 1, HUGE, HUGE, HUGE),
        Drawn(AT, 7, 1, 1, bytes(32), bytes(32), bytes(81)),
        Sealed(AT, 7, 3, bytes(32), bytes(32)),
        Closed(AT, HUGE, bytes(32), bytes(32)),
        Registered(AT, "0x" + "0" * 40, (1 << 32) - 1, (1 << 256) - 1, 0, bytes(32), HUGE, bytes(81)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_that_follow_from_nothing_are_kept_out_of_the_rounds(index, record):
    with index.changes() as database:
        place(database, entry_of(1, record))
    assert index.value("SELECT count(*) FROM rounds") == 0


def test_a_member_says_of_a_closing_what_it_said_last(run, index):
    """A judgement is taken back for another's result; what stays says it as the ledger's own view does."""
    opened = next(record for record in run.records if isinstance(record, RoundOpened))
    said = [Judged(AT, opened.round, 1, Phase.CLOSED, *2 * (digest,)) for digest in (bytes(32), b"l" * 32, b"m" * 32)]
    ledger = Rounds()
    with index.changes() as database:
        for number, record in enumerate((opened, *said), 1):
            ledger.add(record)
            place(database, entry_of(number, record))
    part = index.row("SELECT judged, judged_model FROM parts")
    assert tuple(part) == (4, ledger.last.judgements(Phase.CLOSED)[1].model_digest)


def test_a_draw_with_a_proof_that_is_none_gives_no_tree(run, index):
    opened = next(record for record in run.records if isinstance(record, RoundOpened))
    drawn = Drawn(AT, opened.round, 1, 5, bytes(32), bytes(32), bytes(81))
    with index.changes() as database:
        for number, record in enumerate((opened, drawn, Sealed(AT, opened.round, 1, bytes(32), bytes(32))), 1):
            place(database, entry_of(number, record))
    assert index.row("SELECT position FROM parts")["position"] is None


def test_a_deployment_survives_its_round_trip(index):
    assert Deployment.from_json(index.value("SELECT value FROM meta WHERE key = 'deployment'")) == index.deployment


@pytest.mark.skipif(not FILES.is_dir(), reason="needs Linux's list of a process's files")
def test_no_more_files_are_open_than_were_read_at_once(index, tmp_path):
    """However many threads have read, of servers that begin and end some as they are asked."""

    def files() -> int:
        places = [os.readlink(each) for each in FILES.iterdir() if each.is_symlink()]
        return sum(place.startswith(str(tmp_path)) for place in places)

    def read_in_threads() -> None:
        for _ in range(20):
            reader = Thread(target=index.head)
            reader.start()
            reader.join()

    read_in_threads()
    before = files()
    read_in_threads()
    assert files() == before <= 3, "one connection: the file, its log, and their shared memory"
    with index.connection(), index.connection():
        read_in_threads()
    assert len({id(each) for each in index._idle}) == len(index._idle) == 3
    index.close()
    assert files() == 0
