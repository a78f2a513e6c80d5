"""What is under a bundle's CID in a store is somebody else's word: directories that are bombs, traps and lies.

Who attacks: whoever proposes a task, or runs the store that members fetch it from. They want files outside the folder,
a member's disk, memory or time, code that its readers did not see, or their code under an approval for another's.

What stops it: names, numbers and sizes are checked before contents are fetched, blocks are hashed, and what was fetched
must be, to the byte, what packing the same files gives. Nothing is written or shown before all of it holds.
"""

import os
from collections.abc import Iterable

import pytest

from fedgrove.chain.crypto.account import Account
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.wire import Malformed
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.directory import DirectoryEntry, decode_directory, encode_directory, folder_nodes
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import Corrupt, NotFound, TooLarge
from fedgrove.ipfs.unixfs import MAX_BLOCK_BYTES, DagBlock, Link, encode_node, field, varint
from fedgrove.node.tasks.approval import Approvals, TaskApproval
from fedgrove.node.tasks.bundle import Bundle, publish
from fedgrove.node.tasks.fetching import MAX_DIRECTORY_BYTES, FolderInStore, fetch_bundle
from fedgrove.node.tasks.folder import write_folder
from fedgrove.node.tasks.lock import PackageLock
from fedgrove.node.tasks.names import MAX_BUNDLE_BYTES, MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES, InvalidBundle
from tests.adversary.bounded import Raised, bounded
from tests.adversary.mutation import COUNTS, faults
from tests.node.tasks.folders import FILES, bundle

MIB = 1 << 20


@pytest.fixture
def store(tmp_path) -> DiskStore:
    return DiskStore(tmp_path / "store")


def published(store, files: dict[str, bytes]) -> CID:
    """The CID of a folder that was not packed by us."""
    for node in folder_nodes(files):
        store.put(node.data)
    return node.entry.cid


def put_block(store, data: bytes, codec: int = DAG_PB) -> CID:
    block = DagBlock(CID.of_block(data, codec), data)
    store.add_blocks([block])
    return block.cid


def put_directory(store, entries: Iterable[DirectoryEntry]) -> CID:
    return put_block(store, encode_directory(entries))


def entries_of(store, files: dict[str, bytes]) -> list[DirectoryEntry]:
    found = []
    for node in folder_nodes(files):
        store.put(node.data)
        found.append(node.entry)
    return found[:-1]


def refused(store, cid, sentence, mebibytes=256):
    """Refused with one sentence, in time and with little memory."""
    end = bounded(lambda: fetch_bundle(store, cid), mebibytes=mebibytes)
    assert isinstance(end, Raised) and issubclass(end.kind, InvalidInput | TooLarge | Corrupt | NotFound), end
    assert sentence in end.message and end.message.isprintable(), end.message
    return end


FLAT = {path: data for path, data in FILES.items() if "/" not in path}


@pytest.mark.parametrize(
    "name",
    [
        *("..", ".", "", "../up.py", "/etc/cron.d/x", "a/b.py", "a\\b.py", "~", ".ssh", "-rf"),
        *("a\0b", "\x1b[2J", "\u202egpj.py", "é.py", "a" * 101, "a" * 40000, "x.so", "task.pyc", "__pycache__"),
    ],
)
def test_names_that_lead_elsewhere_or_hide_something(store, name):
    entries = entries_of(store, FLAT)
    entry = DirectoryEntry(name, entries[0].cid, entries[0].total_size)
    refused(store, put_directory(store, [*entries, entry]), "not a bundle")


def test_a_folder_may_not_have_such_a_name_either(store):
    entries = entries_of(store, FLAT)
    below = put_directory(store, entries)
    refused(store, put_directory(store, [*entries, DirectoryEntry("..", below, 1)]), "cannot name a bundle")


def test_names_that_differ_in_case_and_names_that_occur_twice(store):
    refused(store, published(store, {**FLAT, "Task.py": b""}), "differ only in case")
    entries = entries_of(store, FLAT)
    ordered = sorted([*entries, entries[0]], key=lambda entry: entry.name)
    double = b"".join(
        field(0x12, field(0x0A, bytes(each.cid)) + field(0x12, each.name.encode()) + b"\x18" + varint(each.total_size))
        for each in ordered
    )
    refused(store, put_block(store, double + b"\x0a\x02\x08\x01"), "not a directory")


def test_a_symbolic_link_of_unixfs_is_no_file(store):
    link = put_block(store, field(0x0A, b"\x08\x04" + field(0x12, b"/etc/passwd")))
    entries = [*entries_of(store, FLAT), DirectoryEntry("link.py", link, 20)]
    refused(store, put_directory(store, entries), "not a directory")


def test_a_directory_with_as_many_entries_as_a_block_holds(store):
    leaf = store.put(b"")
    block = encode_directory(DirectoryEntry(f"{number:x}", leaf, 0) for number in range(20_000))
    assert MAX_DIRECTORY_BYTES < len(block) < MAX_BLOCK_BYTES
    refused(store, put_block(store, block), "are allowed")


def test_two_hundred_thousand_entries_in_folders(store):
    """Three levels of 59 folders, each the same one: 200,000 files out of four blocks."""
    leaf = DirectoryEntry("x", store.put(b"x"), 1)
    for _ in range(3):
        names = [f"{number:02}" for number in range(59)]
        cid = put_directory(store, [DirectoryEntry(name, leaf.cid, 1) for name in names])
        leaf = DirectoryEntry("x", cid, 1)
    refused(store, put_directory(store, [*entries_of(store, FLAT), leaf]), "more than 512 files and folders")


def test_one_file_too_many(store):
    files = {**FLAT, **{f"n{number}": b"" for number in range(MAX_FILES - len(FLAT))}}
    assert len(fetch_bundle(store, published(store, files)).contents) == MAX_FILES
    refused(store, published(store, {**files, "last": b""}), "more than 256 files")


def test_folders_without_end(store):
    cid = put_directory(store, entries_of(store, FLAT))
    for _ in range(1000):
        cid = put_directory(store, [DirectoryEntry("d", cid, 1)])
    refused(store, cid, "deep")
    deepest = {**FLAT, "/".join(["d"] * MAX_DEPTH) + "/x": b""}
    assert len(fetch_bundle(store, published(store, deepest)).contents) == len(deepest)


def zeros(store, size: int) -> DirectoryEntry:
    """A file of one leaf over and over, and of a last one that is shorter."""
    leaf = store.put(bytes(MIB))
    links = [Link(leaf, MIB, MIB)] * (size // MIB)
    if size % MIB:
        links.append(Link(store.put(bytes(size % MIB)), size % MIB, size % MIB))
    node = encode_node(links)
    return DirectoryEntry("zeros.bin", put_block(store, node), len(node) + size)


def test_a_file_of_a_gibibyte_out_of_one_mebibyte(store):
    assert zeros(store, 2 * MIB + 1).cid == next(folder_nodes({"z": bytes(2 * MIB + 1)})).entry.cid
    entries = [*entries_of(store, FLAT), zeros(store, 1024 * MIB)]
    refused(store, put_directory(store, entries), f"at most {MAX_FILE_BYTES} are allowed")


def test_many_files_that_are_one(store):
    """Each is within its bound; together they are 2 GiB out of one leaf."""
    big = zeros(store, MAX_FILE_BYTES)
    entries = [DirectoryEntry(f"z{number}", big.cid, big.total_size) for number in range(250)]
    refused(store, put_directory(store, [*entries_of(store, FLAT), *entries]), "are allowed")
    few = entries[: (MAX_BUNDLE_BYTES - 1) // MAX_FILE_BYTES]
    found = fetch_bundle(store, put_directory(store, [*entries_of(store, FLAT), *few]))
    assert found.size == len(few) * MAX_FILE_BYTES + sum(map(len, FLAT.values()))


@pytest.mark.parametrize("lie", [-1, 1, 1 << 40])
def test_sizes_that_lie(store, lie):
    entries = entries_of(store, FLAT)
    entries[0] = DirectoryEntry(entries[0].name, entries[0].cid, entries[0].total_size + lie)
    refused(store, put_directory(store, entries), "not in the form")


def test_a_file_under_the_name_of_another_codec(store):
    entries = entries_of(store, FLAT)
    directory = put_directory(store, entries)
    as_file = DirectoryEntry("file.bin", CID.from_digest(directory.digest, RAW), 100)
    refused(store, put_directory(store, [*entries, as_file]), "not in the form")  # its size is another one
    chunked = zeros(store, 2 * MIB)
    as_raw = DirectoryEntry("file.bin", CID.from_digest(chunked.cid.digest, RAW), chunked.total_size)
    refused(store, put_directory(store, [*entries, as_raw]), "not the root of a file")
    task = entries[0]
    as_node = DirectoryEntry(task.name, CID.from_digest(task.cid.digest, DAG_PB), task.total_size)
    refused(store, put_directory(store, [as_node, *entries[1:]]), "not a directory")


def test_what_is_no_folder_is_no_bundle(store):
    packed = bundle()
    publish(packed, store)
    refused(store, store.put(b"class Mine: pass"), "names no folder")
    refused(store, CID.from_digest(packed.cid.digest, RAW), "names no folder")
    refused(store, zeros(store, 2 * MIB).cid, "are allowed")
    refused(store, put_block(store, b"\x0a\x04\x08\x05\x10\x00"), "not a directory")  # sharded
    refused(store, put_block(store, b""), "not a directory")
    refused(store, CID.of_block(b"nowhere", DAG_PB), "does not hold")


def test_an_empty_folder_among_the_files(store):
    empty = DirectoryEntry("empty", put_directory(store, []), 4)
    refused(store, put_directory(store, [*entries_of(store, FLAT), empty]), "not in the form")


@pytest.mark.parametrize(("missing", "sentence"), [("task.lock", "it has no task.lock"), ("task.py", "no Python file")])
def test_a_folder_without_lock_or_task(store, missing, sentence):
    refused(store, published(store, {path: data for path, data in FLAT.items() if path != missing}), sentence)


@pytest.mark.parametrize("lock", [b"", b"[" * 5000, b"{}", FLAT["task.lock"] + b"\n", bytes(2 * MIB)])
def test_a_lock_that_is_none(store, lock):
    refused(store, published(store, {**FLAT, "task.lock": lock}), "task.lock is not")


def test_every_block_altered_or_lost(store, tmp_path):
    packed = Bundle.of({**FILES, "big.bin": os.urandom(2 * MIB + 5)})
    publish(packed, store)
    blocks = sorted((tmp_path / "store" / "blocks").iterdir())
    assert len(blocks) == 10  # five files of which one has three chunks, and two folders
    for block in blocks:
        good = block.read_bytes()
        block.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        assert refused(store, packed.cid, "do not match its CID").kind is Corrupt
        block.unlink()
        assert refused(store, packed.cid, "does not hold this block").kind is NotFound
        block.write_bytes(good)
    assert fetch_bundle(store, packed.cid) == packed


def test_a_store_that_answers_with_another_bundle(store, tmp_path):
    """An approved bundle is fetched again because its files are gone, from a store that has others in its place."""
    member = Account(bytes([1]) * 32)
    good, evil = bundle(), bundle(task=b"import os\n")
    approvals = Approvals(tmp_path / "client", member.address)
    approvals.approve(member, good)
    (approvals.folder / str(good.cid)).rename(tmp_path / "gone")
    publish(evil, store)
    blocks = tmp_path / "store" / "blocks"
    (blocks / evil.cid.digest.hex()).rename(blocks / good.cid.digest.hex())
    with pytest.raises(Corrupt):
        approvals.open(good.cid, store)
    assert not (approvals.folder / str(good.cid)).exists()


def test_an_approval_swapped_onto_another_bundle(store, tmp_path):
    member = Account(bytes([1]) * 32)
    good, evil = bundle(), bundle(task=b"import os\n")
    approvals = Approvals(tmp_path / "client", member.address)
    approvals.approve(member, good)
    publish(evil, store)
    paper, files = approvals.folder / f"{good.cid}.json", approvals.folder / str(good.cid)
    (approvals.folder / f"{evil.cid}.json").write_bytes(paper.read_bytes().replace(*named(good, evil)))
    with pytest.raises(InvalidInput, match="not that of the account"):
        approvals.open(evil.cid, store)
    (approvals.folder / f"{evil.cid}.json").write_bytes(paper.read_bytes())
    with pytest.raises(InvalidInput, match="approves another bundle"):
        approvals.open(evil.cid, store)
    files.chmod(0o700)
    (files / "task.py").unlink()
    (files / "task.py").write_bytes(evil.contents["task.py"])  # other files under the approved name
    publish(good, store)
    assert (approvals.open(good.cid, store) / "task.py").read_bytes() == good.contents["task.py"]


def named(*bundles: Bundle) -> list[bytes]:
    return [str(each.cid).encode() for each in bundles]


def test_a_bundle_that_is_refused_says_so_by_its_cid(store):
    cid = published(store, {**FLAT, "Task.py": b""})
    with pytest.raises(InvalidBundle, match=str(cid)):
        fetch_bundle(store, cid)


# --- without what stops it --------------------------------------------------------------------------------------------


@pytest.mark.mutants
def test_without_checks_of_names_a_bundle_writes_outside_of_its_folder(store, tmp_path, monkeypatch):
    entries = entries_of(store, FLAT)
    cid = put_directory(store, [*entries, DirectoryEntry("../outside.py", entries[0].cid, entries[0].total_size)])
    for module, check in (("fetching", "check_name"), ("fetching", "check_paths"), ("bundle", "check_paths")):
        monkeypatch.setattr(f"fedgrove.node.tasks.{module}.{check}", lambda *_: None)
    monkeypatch.setattr(Bundle, "cid", cid)
    write_folder(tmp_path / "received", fetch_bundle(store, cid).contents)
    assert (tmp_path / "outside.py").exists()


@pytest.mark.mutants
def test_without_a_count_of_entries_few_blocks_are_read_without_end(store, monkeypatch):
    leaf = DirectoryEntry("x", store.put(b"x"), 1)
    for _ in range(3):
        leaf = DirectoryEntry("x", put_directory(store, [DirectoryEntry(f"{n:02}", leaf.cid, 1) for n in range(20)]), 1)
    cid = put_directory(store, [*entries_of(store, FLAT), leaf])
    monkeypatch.setattr("fedgrove.node.tasks.fetching.MAX_ENTRIES", 1 << 30)
    paths = list(FolderInStore(store).walk(cid))
    assert len(paths) == 20**3 + len(FLAT)


@pytest.mark.mutants
def test_without_the_last_comparison_one_bundle_has_two_names(store, monkeypatch):
    entries = entries_of(store, FLAT)
    other = [DirectoryEntry(entries[0].name, entries[0].cid, 1), *entries[1:]]
    cids = [put_directory(store, each) for each in (entries, other)]
    assert cids[0] != cids[1]
    monkeypatch.setattr(Bundle, "cid", cids[1])
    assert fetch_bundle(store, cids[1]) == Bundle.of(FLAT)


@pytest.mark.mutants
def test_without_the_account_a_stranger_approves(tmp_path, monkeypatch):
    member, stranger = (Account(bytes([byte]) * 32) for byte in (1, 2))
    Approvals(tmp_path, stranger.address).approve(stranger, bundle())
    approvals = Approvals(tmp_path, member.address)
    with pytest.raises(InvalidInput, match="is signed by"):
        approvals.check(bundle().cid)
    monkeypatch.setattr(approvals, "_read", lambda path: TaskApproval.from_bytes(path.read_bytes()))
    assert approvals.check(bundle().cid).account == stranger.address


# --- changed at random ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
def test_directories_locks_and_approvals_changed_at_random(count):
    packed = bundle()
    approval = TaskApproval.sign(Account(bytes([1]) * 32), bundle=str(packed.cid), number=1)
    readers = (
        (decode_directory, packed.nodes[-1].data, InvalidContent),
        (PackageLock.from_bytes, packed.lock.to_bytes(), InvalidBundle),
        (TaskApproval.from_bytes, approval.to_bytes(), Malformed),
    )
    for read, data, declared in readers:
        assert faults(read, data, count, (declared,)) == []


@pytest.mark.parametrize("count", COUNTS)
def test_a_root_changed_at_random_is_never_the_bundle(store, count):
    packed = bundle()
    publish(packed, store)

    def read(changed: bytes) -> None:
        assert fetch_bundle(store, put_block(store, changed)).nodes[-1].data == changed

    assert faults(read, packed.nodes[-1].data, count, (InvalidBundle, TooLarge, Corrupt, NotFound)) == []
