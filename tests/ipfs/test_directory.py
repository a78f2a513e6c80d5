import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubo_defaults import DEFAULTS, Name, by_default
from kubo_nodes import asked, needs_kubo, needs_library, quiet

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.directory import DirectoryEntry, decode_directory, encode_directory, folder_nodes
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.unixfs import build, chunks, cid_of, decode_root, field, varint
from fedgrove.node.devnet.kubo.local_node import LocalKubo

pytestmark = quiet

# Of Kubo's test suite (test/sharness/t0123-gateway-json-cbor), by `ipfs add -Qr --cid-version 1`.
KUBO_FOLDER = {
    "ą/ę/t.json": b'{ "test": "i am a plain json file" }\n',
    "ą/ę/file-źł.txt": b"I am a txt file on path with utf8\n",
    **{f"{name}/file.txt": f"I am a txt file in confusing /{name} dir\n".encode() for name in ("api", "ipfs", "ipns")},
}
KUBO_CID = "bafybeiafyvqlazbbbtjnn6how5d6h6l6rxbqc4qgpbmteaiskjrffmyy4a"


def root_of(files):
    return list(folder_nodes(files))[-1].entry


def test_a_published_folder_of_kubo_has_its_cid():
    assert str(root_of(KUBO_FOLDER).cid) == KUBO_CID
    nodes = {node.entry.name: node.entry for node in folder_nodes(KUBO_FOLDER)}
    assert str(nodes["t.json"].cid) == "bafkreibrppizs3g7axs2jdlnjua6vgpmltv7k72l7v7sa6mmht6mne3qqe"
    assert nodes["file-źł.txt"].total_size == 34


def test_the_empty_directory_has_kubos_two_names():
    block = encode_directory([])
    assert str(Name(block)) == "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"
    assert str(CID.of_block(block, DAG_PB)) == "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354"


def test_the_order_in_which_files_are_given_does_not_count():
    paths = list(KUBO_FOLDER)
    for seed in range(5):
        random.Random(seed).shuffle(paths)
        assert str(root_of({path: KUBO_FOLDER[path] for path in paths}).cid) == KUBO_CID


def test_the_total_size_is_that_of_all_blocks_of_large_files_too():
    data = bytes((2 << 20) + 5)
    entry = next(folder_nodes({"zeros": data})).entry
    assert entry.total_size == sum(len(block.data) for block in build(chunks(data))) and entry.cid == cid_of(data)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
entries = st.builds(
    DirectoryEntry,
    names,
    st.builds(CID.from_digest, st.binary(min_size=32, max_size=32), st.sampled_from([RAW, DAG_PB])),
    st.integers(0, (1 << 63) - 1),
)


@given(st.lists(entries, max_size=8, unique_by=lambda entry: entry.name))
def test_what_is_encoded_is_decoded(given_entries):
    block = encode_directory(given_entries)
    assert sorted(decode_directory(block), key=lambda entry: entry.name) == sorted(
        given_entries, key=lambda entry: entry.name
    )
    assert decode_root(block) is None  # never read as a file


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_one_exception(data):
    with pytest.raises(InvalidContent):
        decode_directory(b"\x12" + data)


def test_two_entries_of_one_name_are_refused():
    with pytest.raises(ValueError, match="one name"):
        encode_directory([entry("a"), entry("a", fill=9)])


def entry(name, fill=7):
    return DirectoryEntry(name, CID.from_digest(bytes([fill]) * 32, RAW), 3)


SEVENS = bytes(CID.from_digest(bytes([7]) * 32, RAW))


def link(name, cid=SEVENS, size=b"\x18\x03"):
    return field(0x12, field(0x0A, cid) + field(0x12, name) + size)


DATA = b"\x0a\x02\x08\x01"


def test_the_handmade_directory_is_read():
    assert decode_directory(link(b"a") + link(b"b") + DATA) == (entry("a"), entry("b"))


@pytest.mark.parametrize(
    "block",
    {
        "nothing": b"",
        "unsorted": link(b"b") + link(b"a") + DATA,
        "a name twice": link(b"a") + link(b"a") + DATA,
        "no data": link(b"a"),
        "data first": DATA + link(b"a"),
        "a file": link(b"a") + b"\x0a\x02\x08\x02",
        "a sharded directory": link(b"a") + b"\x0a\x02\x08\x05",
        "a mode": b"\x0a\x05\x08\x01\x38\xa4\x03",
        "a time": b"\x0a\x06\x08\x01\x42\x02\x08\x01",
        "trailing bytes": link(b"a") + DATA + b"\0",
        "cut": (link(b"a") + DATA)[:-1],
        "a CID of version 0": link(b"a", b"\x12\x20" + bytes(32)) + DATA,
        "no UTF-8": link(b"\xff") + DATA,
        "no size": link(b"a", size=b"") + DATA,
        "a long varint": link(b"a", size=b"\x18\x83\x00") + DATA,
        "a huge size": link(b"a", size=b"\x18" + varint(1 << 63)) + DATA,
        "a length beyond the end": b"\x12\xff\xff\xff\x7f" + link(b"a") + DATA,
    }.items(),
    ids=lambda item: item[0],
)
def test_a_block_in_another_form_is_no_directory(block):
    with pytest.raises(InvalidContent):
        decode_directory(block[1])


@needs_kubo
def test_a_real_node_keeps_a_folder_whose_parts_are_pinned_and_reads_its_files(tmp_path):
    with LocalKubo(tmp_path / "node") as node:
        store = KuboStore(node.url, timeout=5.0)
        for part in folder_nodes(KUBO_FOLDER):
            store.put(part.data)
        store.put(b"not part of it")
        store.unpin(cid_of(b"not part of it").digest)
        assert store.collect_garbage() >= 1
        root = CID.parse(KUBO_CID)
        assert json.loads(asked(node, "block/stat", arg=root))["Size"] == len(store.root(root.digest).data)
        found = {each.name for each in decode_directory(store.root(root.digest).data)}
        assert found == {"ą", "api", "ipfs", "ipns"}
        assert asked(node, "cat", arg=cid_of(KUBO_FOLDER["api/file.txt"])) == KUBO_FOLDER["api/file.txt"]


def as_kubo_names_it(folder: Path) -> DirectoryEntry:
    """The entry of a folder under Kubo's defaults, whose leaves are dag-pb and whose CIDs have version 0."""
    entries = []
    for path in folder.iterdir():
        if path.is_dir():
            entries.append(as_kubo_names_it(path))
            continue
        root = by_default(chunks(path.read_bytes(), DEFAULTS))
        entries.append(DirectoryEntry(path.name, root.cid, root.total_size))
    block = encode_directory(entries)
    size = len(block) + sum(entry.total_size for entry in entries)
    return DirectoryEntry(folder.name, Name(block), size)


@needs_library
def test_kubo_writes_the_folder_out_of_its_blocks_and_names_one_alike(tmp_path):
    files = {**KUBO_FOLDER, "a.py": b"", "B.py": b"x", "b/c/d.bin": random.Random(1).randbytes(3 << 20)}
    for path, data in files.items():
        (tmp_path / "folder" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / path).write_bytes(data)
    store = DiskStore(tmp_path / "store")
    for node in folder_nodes(files):
        store.put(node.data)
    with LocalKubo(tmp_path / "repo"):
        pass  # its repository remains
    names = ("repo", "store/blocks", "folder", "written")
    repo, blocks, folder, target = (str(tmp_path / name) for name in names)
    command = [sys.executable, Path(__file__).with_name("kubo_folder.py"), repo, blocks, str(node.entry.cid)]
    done = subprocess.run([*command, folder, target], cwd=repo, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    written = {path.relative_to(target).as_posix(): path for path in Path(target).rglob("*") if path.is_file()}
    assert {path: place.read_bytes() for path, place in written.items()} == files
    assert done.stdout.split()[-1] == str(as_kubo_names_it(tmp_path / "folder").cid)
