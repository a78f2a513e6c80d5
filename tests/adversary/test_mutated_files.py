"""Files that came from elsewhere, or from a bad disk, changed at random: their readers raise what they declare.

Two hundred mutations of each in the default run, three thousand with ``-m statistics``; none may hang, take memory
beyond its bound, or raise anything else. What is authenticated is also mutated behind its seal, as its author could.
"""

import json
import shutil

import pytest

from fedgrove.chain.crypto.keys import Keys, load, save
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs import car
from fedgrove.ipfs.car_reader import CarReader
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.disk import DiskReader, DiskStore
from fedgrove.ipfs.store import StoreError
from fedgrove.ipfs.unixfs import DagBlock, build, decode_node, decode_root, encode_node
from fedgrove.node.audit import archive
from fedgrove.node.audit.archive import MANIFEST, REPORT, STORE, audit_car, audit_directory, export_car
from fedgrove.node.audit.run_files import run_files
from fedgrove.node.audit.verdict import BadRecord
from fedgrove.node.base.key_slots import SLOT_BYTES
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.terms import load_config, parse_config
from fedgrove.node.protocol.journal import Journal, JournalDamaged, RoundNote
from tests.adversary.mutation import COUNTS, faults

TERMS = """
[federation]
name = "fuzzed"
rounds = 3
sampling_rate = 0.5
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10
[strategy]
name = "fedaom"
[strategy.options]
mu = 0.1
[privacy]
mechanism = "client"
epsilon = 8.0
noise_multipliers = [1.0]
[masking]
masked = "delta"
[ledger]
quorum = 3
[network]
rpc = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
ledger = "0x000000000000000000000000000000000000dEaD"
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An archive of two blobs, one of them of many chunks, whose root is the first."""
    place = tmp_path_factory.mktemp("small")
    store = DiskStore(place / "store")
    root = store.put(b"a ledger that is none\n" * 10)
    store.put(bytes(range(256)) * (1 << 13))
    (place / "small.car").write_bytes(b"".join(car.write(root, store.export())))
    return place


@pytest.mark.parametrize("count", COUNTS)
def test_archives(small, tmp_path, count):
    path = tmp_path / "changed.car"
    data = (small / "small.car").read_bytes()

    def read(changed):
        path.write_bytes(changed)
        assert audit_car(path).exit_code == 1

    assert faults(read, data, count, (InvalidInput,)) == []


@pytest.mark.parametrize("count", COUNTS)
def test_archives_whose_blocks_have_the_digests_that_they_claim(small, tmp_path, count):
    """Nodes are mutated, named by their new digests, and read as their author's archive would have them read."""
    blocks = list({block.cid: block for block in build([bytes(1 << 20)] * 3 + [b"tail"])}.values())
    path = tmp_path / "changed.car"

    def read(changed):
        root = DagBlock(CID.of_block(changed[: 1 << 20], DAG_PB), changed[: 1 << 20])
        path.write_bytes(b"".join(car.write(root.cid, [*blocks[:-1], root])))
        with path.open("rb") as stream:
            reader = CarReader(stream, 1 << 30)
            reader.has(root.cid.digest)
            reader.available(root.cid.digest)
            reader.fetch(root.cid.digest, 1 << 26)

    assert faults(read, bytes(blocks[-1].data), count, (StoreError, InvalidContent)) == []


@pytest.mark.parametrize("count", COUNTS)
def test_nodes_and_names(count):
    leaves = [block for block in build([bytes([number]) * (1 << 20) for number in range(5)])]
    node = bytes(leaves[-1].data)

    def read(changed):
        decode_root(changed)
        decode_node(changed, 5 << 20, 1)

    def name(changed):
        CID.from_bytes(changed)

    def text(changed):
        CID.parse(changed.decode("utf-8", "replace"))

    assert faults(read, node, count, (InvalidContent,)) == []
    assert faults(name, bytes(leaves[-1].cid), count, (InvalidContent,)) == []
    assert faults(text, str(leaves[-1].cid).encode(), count, (InvalidContent,)) == []


@pytest.mark.parametrize("count", COUNTS)
def test_blocks_of_a_directory(small, tmp_path, count):
    shutil.copytree(small / "store", tmp_path / "store")
    block = min((tmp_path / "store" / "blocks").iterdir(), key=lambda path: path.stat().st_size)
    digest = bytes.fromhex(block.name)

    def read(changed):
        block.write_bytes(changed)
        reader = DiskReader(tmp_path / "store")
        reader.has(digest)
        reader.fetch(digest, 1 << 26)

    assert faults(read, block.read_bytes(), count, (StoreError,)) == []


@pytest.mark.parametrize("count", COUNTS)
def test_keystores(tmp_path, count):
    path = tmp_path / "alice.json"
    save(path, Keys.generate(), "secret", cost=2)
    data = path.read_bytes()

    def read(changed):
        path.write_bytes(changed)
        load(path, "secret")

    assert faults(read, data, count, (InvalidInput,)) == []


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["00000001-note.sealed", "points.sealed", "uploads.sealed", "keys"])
def test_journals(tmp_path, name, count):
    directory, key = tmp_path / "journal", bytes(32)
    journal = Journal(directory, key)
    journal.save(RoundNote(1, secrets="ab" * 100))
    journal.keep("points", b"points")
    journal.count_upload(1)
    kept = {path.name: path.read_bytes() for path in directory.iterdir()}

    def read(changed):
        for each, data in kept.items():
            (directory / each).write_bytes(changed if each == name else data)
        opened = Journal(directory, key)
        for look in (lambda: opened.note(1), lambda: opened.kept("points"), opened.uploads):
            try:
                look()
            except JournalDamaged:
                continue
        opened.destroy(before=1)

    assert faults(read, kept[name][: 8 * SLOT_BYTES], count, (JournalDamaged,)) == []


@pytest.mark.parametrize("count", COUNTS)
def test_notes_and_lists_behind_their_seals(tmp_path, count):
    """What a journal's own key opens may still be what an older version, or a mistake, wrote."""
    journal = Journal(tmp_path / "journal", bytes(32))
    journal.save(RoundNote(1, secrets="ab" * 100))

    def read(changed):
        journal.write(1, "note", changed)
        journal.note(1)

    def read_uploads(changed):
        journal.keep("uploads", changed)
        journal.uploads()

    assert faults(read, journal.read(1, "note"), count, (JournalDamaged,)) == []
    assert faults(read_uploads, b"[1, 2, 3]", count, (JournalDamaged,)) == []


def test_a_number_that_is_none_is_damage(tmp_path):
    """Found by three thousand mutations: infinity is a number to Python's parser, and to no integer."""
    journal = Journal(tmp_path / "journal", bytes(32))
    for rounds in (b"[1, Infinity]", b"[1.5]", b'"12"', b"{}", b"[true]"):
        journal.keep("uploads", rounds)
        with pytest.raises(JournalDamaged):
            journal.uploads()


@pytest.mark.parametrize("count", COUNTS)
def test_configurations(tmp_path, count):
    path = tmp_path / "federation.toml"
    path.write_text(TERMS)
    terms, _ = load_config(path)

    def read(changed):
        path.write_bytes(changed)
        load_config(path)

    assert faults(read, TERMS.encode(), count, (InvalidConfig,)) == []
    assert faults(parse_config, terms.to_bytes(), count, (InvalidConfig,)) == []


@pytest.fixture
def kept(run, tmp_path):
    shutil.copytree(run.directory, tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize("count", COUNTS)
def test_reports(kept, monkeypatch, count):
    """The report is derived once for all: what is tried is what reads the one that is there."""
    history = LedgerHistory.load(kept / archive.LEDGER)
    data = (kept / REPORT).read_bytes()
    seconds = {each["round"]: each["seconds"] for each in json.loads(data)["rounds"]}
    derived, verdict = archive.build_report(history, DiskReader(kept / STORE), seconds), audit_directory(kept)
    once = {}

    def derive(history, store, given):
        once.update(given)
        return json.loads(json.dumps(derived))

    monkeypatch.setattr(archive, "build_report", derive)

    def read(changed):
        (kept / REPORT).write_bytes(changed)
        fault = archive._check_report(kept, history, verdict)
        assert fault is None or isinstance(fault, BadRecord)
        str(fault).encode("utf-8")

    assert faults(read, data, count, ()) == []


def test_reports_with_other_times_are_derived(kept):
    """What a report says of seconds goes into the one that is derived from the ledger."""
    history, store = LedgerHistory.load(kept / archive.LEDGER), DiskReader(kept / STORE)
    for seconds in ({}, {1: 0.5}, {"1": 0.5}, {1: float("inf"), 2: float("nan")}, {None: 1.0, True: 2.0}):
        archive.build_report(history, store, seconds)


@pytest.mark.parametrize("count", COUNTS)
def test_manifests(kept, monkeypatch, count):
    data, files = (kept / MANIFEST).read_bytes(), run_files(kept)
    digests = archive._digests(kept, [name for name in files if name != MANIFEST])
    monkeypatch.setattr(archive, "_digests", lambda directory, names: dict(digests))

    def read(changed):
        (kept / MANIFEST).write_bytes(changed)
        fault = archive._check_manifest(kept, files)
        assert fault is None or isinstance(fault, BadRecord)
        assert changed == data or fault is not None
        str(fault).encode("utf-8")

    assert faults(read, data, count, ()) == []


@pytest.mark.parametrize("count", COUNTS)
def test_archives_of_a_run(run, tmp_path, count):
    """Their last bytes: what follows the history, which others mutate, is read by the audit of its blobs."""
    export_car(run.directory, tmp_path / "run.car")
    data = (tmp_path / "run.car").read_bytes()
    path = tmp_path / "changed.car"
    head, tail = data[:-4096], data[-4096:]

    def read(changed):
        path.write_bytes(head + changed)
        with archive.opened_car(path) as (_, store):
            for digest in list(store._places)[:50]:
                store.available(digest)

    assert faults(read, tail, count, (StoreError, InvalidContent)) == []


def test_the_harness_finds_a_reader_that_declares_nothing():
    """Else these tests would test nothing."""
    found = faults(lambda data: json.loads(data), b'{"a": [1, 2, {"b": "c"}]}', 200, ())
    assert found and all("mutation" in each for each in found)
    assert encode_node([]) and CID.of_block(b"", RAW)
