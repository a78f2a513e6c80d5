"""The same folder has the same CID, and what may not be in a bundle is refused in a sentence."""

import os
import socket
import sys

import pytest

from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.tasks import names
from fedgrove.node.tasks.bundle import Bundle, pack, publish
from fedgrove.node.tasks.fetching import fetch_bundle
from fedgrove.node.tasks.folder import read_folder
from fedgrove.node.tasks.lock import LOCK_NAME
from fedgrove.node.tasks.names import MAX_DEPTH, MAX_FILES, InvalidBundle
from tests.node.tasks.folders import FILES, write

CID = "bafybeic255teqai7yisxkttf7nfr4d4qyhyifnf4tlpz43rkmzcecujbii"


def test_the_cid_of_a_folder_never_changes(tmp_path):
    assert str(pack(write(tmp_path, FILES)).cid) == CID


def test_times_modes_hidden_files_and_caches_do_not_count(tmp_path):
    folder = write(tmp_path / "one", FILES)
    other = write(tmp_path / "other", dict(reversed(FILES.items())))
    os.utime(other / "task.py", (1, 1))
    (other / "task.py").chmod(0o700)
    write(other, {".git/config": b"x", ".env": b"secret", "layers/__pycache__/block.pyc": b"\0"})
    (other / ".venv").symlink_to("/")
    assert pack(other).cid == pack(folder).cid


def test_every_byte_and_every_name_counts(tmp_path):
    cids = {pack(write(tmp_path / "0", FILES)).cid}
    cids.add(pack(write(tmp_path / "1", {**FILES, "task.py": FILES["task.py"] + b"\n"})).cid)
    cids.add(pack(write(tmp_path / "2", {**FILES, "more.txt": b""})).cid)
    moved = {path.replace("layers/", "other/"): data for path, data in FILES.items()}
    cids.add(pack(write(tmp_path / "3", moved)).cid)
    assert len(cids) == 4


def test_the_lock_is_written_once_and_then_belongs_to_the_sources(tmp_path, monkeypatch):
    folder = write(tmp_path, {"task.py": b"import numpy\n"})
    first = pack(folder)
    assert (folder / LOCK_NAME).read_bytes() == first.contents[LOCK_NAME]
    monkeypatch.setattr("fedgrove.node.tasks.lock.version", lambda package: "0.0")
    assert pack(folder).cid == first.cid
    assert pack(folder, relock=True).lock.packages == {"numpy": "0.0"}
    assert pack(folder).cid != first.cid


def test_one_file_is_a_bundle_with_a_lock_beside_it(tmp_path):
    write(tmp_path, {"mine.py": b"import numpy\n", "other.py": b"raise SystemExit\n"})
    bundle = pack(tmp_path / "mine.py")
    assert [*bundle.contents] == ["mine.py", LOCK_NAME]
    assert (tmp_path / "mine.lock").read_bytes() == bundle.contents[LOCK_NAME]
    folder = write(tmp_path / "folder", bundle.contents)
    assert pack(folder).cid == bundle.cid == pack(tmp_path / "mine.py").cid


def test_what_is_published_is_fetched(tmp_path):
    store = DiskStore(tmp_path / "store")
    packed = pack(write(tmp_path / "mine", {**FILES, "big.bin": bytes(range(256)) * 9000}))
    assert publish(packed, store) == packed.cid
    store.collect_garbage()
    assert fetch_bundle(store, packed.cid) == packed


def refused(folder, sentence):
    with pytest.raises(InvalidBundle, match=sentence) as caught:
        pack(folder)
    assert "\n" not in str(caught.value)


def test_links_are_refused_wherever_they_lead(tmp_path):
    write(tmp_path / "away", {"secret.py": b""})
    for number, target in enumerate([tmp_path / "away" / "secret.py", "task.py", "/dev/zero", "nowhere"]):
        folder = write(tmp_path / str(number), FILES)
        (folder / "link.py").symlink_to(target)
        refused(folder, "link.py is a link or no regular file")
    folder = write(tmp_path / "folders", FILES)
    (folder / "away").symlink_to(tmp_path / "away")
    refused(folder, "away is a link or no regular file")


def test_pipes_sockets_and_devices_are_refused_without_waiting(tmp_path):
    os.mkfifo(write(tmp_path / "pipe", FILES) / "fifo")
    refused(tmp_path / "pipe", "fifo is a link or no regular file")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(write(tmp_path / "s", FILES) / "sock"))
        refused(tmp_path / "s", "sock is a link or no regular file")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a b.py", "cannot name a bundle"),
        ("é.py", "cannot name a bundle"),
        ("a\x1b[2J.py", "cannot name a bundle"),
        ("-rf", "cannot name a bundle"),
        ("a" * 101, "cannot name a bundle"),
        ("end.", "cannot name a bundle"),
        ("fast.cpython-311-x86_64-linux-gnu.so", "is compiled"),
        ("task.PYC", "is compiled"),
        ("TASK.py", "differ only in case"),
        ("LAYERS/other.py", "differ only in case"),
        ("/".join(["deep"] * (MAX_DEPTH + 1)) + "/x", "more than 8 folders"),
    ],
)
def test_odd_names_are_refused(tmp_path, name, sentence):
    refused(write(tmp_path, {**FILES, name: b""}), sentence)


def test_as_many_files_and_folders_as_allowed_and_no_more(tmp_path):
    folder = write(tmp_path, {"task.py": b"", **{f"f/{number}": b"" for number in range(MAX_FILES - 2)}})
    assert len(pack(folder).contents) == MAX_FILES
    write(folder, {"one-more": b""})
    refused(folder, "more than 256 files")


def test_as_many_bytes_as_allowed_and_no_more(tmp_path, monkeypatch):
    for module in ("folder", "bundle"):
        monkeypatch.setattr(f"fedgrove.node.tasks.{module}.MAX_FILE_BYTES", 200)
        monkeypatch.setattr(f"fedgrove.node.tasks.{module}.MAX_BUNDLE_BYTES", 500)
    room = 500 - sum(map(len, FILES.values())) - 200
    folder = write(tmp_path, {**FILES, "a.bin": bytes(200), "b.bin": bytes(room)})
    assert pack(folder).size == 500
    (folder / "b.bin").write_bytes(bytes(room + 1))
    refused(folder, "too large")
    (folder / "b.bin").unlink()
    (folder / "a.bin").write_bytes(bytes(201))
    refused(folder, "too large")


def test_the_bounds_are_those_of_the_specification():
    assert (names.MAX_FILES, names.MAX_FILE_BYTES, names.MAX_BUNDLE_BYTES) == (256, 8 << 20, 32 << 20)


def test_what_is_no_task_is_refused(tmp_path):
    refused(tmp_path / "missing", "neither a folder nor a Python file")
    refused(write(tmp_path / "empty", {"README.md": b""}), "no Python file")
    refused(write(tmp_path / "broken", {"task.py": b"def f(:\n"}), "task.py, line 1: invalid syntax")
    refused(write(tmp_path / "missing.py", {"x": b""}), "no Python file")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../up.py", "a/../../up.py", "a//b", "./a.py", "a/", "", "a\\b", ".env"]
)
def test_a_bundle_cannot_be_made_of_paths_that_lead_elsewhere(path):
    with pytest.raises(InvalidBundle, match="cannot name a bundle"):
        Bundle.of({**FILES, path: b""})


def test_a_file_cannot_also_be_a_folder():
    with pytest.raises(InvalidBundle, match="both a file and a folder"):
        Bundle.of({**FILES, "layers": b""})


def test_packing_imports_nothing(tmp_path):
    packed = pack(write(tmp_path, {"evil_task.py": b"raise SystemExit(3)\n", "conftest.py": b"raise SystemExit(3)\n"}))
    assert len(packed.contents) == 3 and "evil_task" not in sys.modules


def test_a_folder_is_read_within_its_bounds_even_where_it_is_huge(tmp_path):
    folder = write(tmp_path, {f"{number}.txt": b"" for number in range(MAX_FILES + 1)})
    with pytest.raises(InvalidBundle, match="more than 256 files"):
        read_folder(folder)
