"""Only the member's own signature, over this bundle, lets it run; everything else stops with a sentence."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.signatures import sign_message
from fedgrove.common.errors import InvalidInput
from fedgrove.common.wire import Malformed
from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import NotFound
from fedgrove.node.tasks.approval import (
    Approvals,
    NotApproved,
    TaskApproval,
    sound_approvals,
)
from fedgrove.node.tasks.bundle import publish
from tests.node.tasks.folders import bundle

ALICE, STRANGER = (Account(bytes([byte]) * 32) for byte in (1, 2))
FIRST, SECOND, THIRD = bundle(), bundle(task=b"rate = 0.2\n"), bundle(task=b"rate = 0.3\n")


@pytest.fixture
def approvals(tmp_path) -> Approvals:
    found = Approvals(tmp_path / "client", ALICE.address)
    found.approve(ALICE, FIRST)
    return found


def file_of(approvals, approved=FIRST):
    return approvals.folder / f"{approved.cid}.json"


def refused(approvals, sentence, approved=FIRST):
    with pytest.raises(NotApproved, match=sentence) as caught:
        approvals.check(approved.cid)
    assert "\n" not in str(caught.value) and f"fedgrove task approve {approved.cid}" in str(caught.value)


def test_an_approved_bundle_is_opened_and_no_other(approvals, tmp_path):
    store = DiskStore(tmp_path / "store")
    assert approvals.check(FIRST.cid) == TaskApproval.sign(ALICE, bundle=str(FIRST.cid), number=1)
    assert (approvals.open(FIRST.cid, store) / "task.py").read_bytes() == FIRST.contents["task.py"]
    publish(SECOND, store)
    refused(approvals, "has not approved the task", SECOND)
    with pytest.raises(NotApproved):
        approvals.open(SECOND.cid, store)
    assert not (approvals.folder / str(SECOND.cid)).exists()


def test_approvals_are_the_owners_alone_to_read(approvals):
    assert file_of(approvals).stat().st_mode & 0o077 == approvals.folder.stat().st_mode & 0o077 == 0


def test_an_approval_of_another_account_does_not_count(approvals, tmp_path):
    other = Approvals(tmp_path / "other", STRANGER.address)
    other.approve(STRANGER, SECOND)
    file_of(approvals, SECOND).write_bytes(file_of(other, SECOND).read_bytes())
    refused(approvals, f"it is signed by {STRANGER.address}, not by {ALICE.address}", SECOND)
    refused(Approvals(tmp_path / "client", STRANGER.address), f"it is signed by {ALICE.address}")
    assert approvals.previous(THIRD.cid).bundle == str(FIRST.cid)


def test_a_strangers_approval_under_the_members_name_does_not_count(approvals):
    bare = TaskApproval(account=ALICE.address, signature="", bundle=str(SECOND.cid), number=1)
    file_of(approvals, SECOND).write_bytes(
        bare.replace(signature=sign_message(STRANGER, bare.message()).hex()).to_bytes()
    )
    refused(approvals, "its signature is not that of the account it names", SECOND)


def test_an_approval_of_another_bundle_does_not_count(approvals):
    file_of(approvals, SECOND).write_bytes(file_of(approvals).read_bytes())
    refused(approvals, f"approves another bundle .{FIRST.cid}", SECOND)
    assert [each.bundle for each in sound_approvals(approvals.folder.parent)] == [str(FIRST.cid)]


@given(st.data())
def test_an_altered_approval_is_none(data):
    good = TaskApproval.sign(ALICE, bundle=str(FIRST.cid), number=1).to_bytes()
    position, change = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(1, 255))
    altered = bytearray(good)
    altered[position] ^= change
    with pytest.raises(Malformed):
        TaskApproval.from_bytes(bytes(altered))


def table(**changed) -> bytes:
    good = json.loads(TaskApproval.sign(ALICE, bundle=str(FIRST.cid), number=1).to_bytes())
    return (json.dumps({**good, **changed}, sort_keys=True, separators=(",", ":")) + "\n").encode()


def test_the_handmade_approval_is_one():
    assert TaskApproval.from_bytes(table()) == TaskApproval.sign(ALICE, bundle=str(FIRST.cid), number=1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{" * 5000,
        b"\xff",
        table(more=1),
        table(number=True),
        table(number="1"),
        table(number=0),
        table(number=2),
        table(number=1 << 300),
        table(bundle=str(SECOND.cid)),
        table(bundle="../../etc"),
        table(account=ALICE.address.lower()),
        table(signature=""),
        table(signature=TaskApproval.sign(ALICE, bundle=str(FIRST.cid), number=1).signature.upper()),
        table(signature=None),
        table(format="fedgrove-head-1"),
        table() + b"\n",
        b" " * (TaskApproval.max_bytes + 1),
    ],
)
def test_other_files_are_none(approvals, data):
    file_of(approvals).write_bytes(data)
    refused(approvals, "is not an approval that counts")
    assert list(sound_approvals(approvals.folder.parent)) == []


def test_what_is_no_regular_file_does_not_count(approvals, tmp_path):
    good = file_of(approvals).rename(tmp_path / "elsewhere")
    file_of(approvals).symlink_to(good)
    refused(approvals, "cannot be read")
    file_of(approvals).unlink()
    os.mkfifo(file_of(approvals))
    refused(approvals, "cannot be read")
    assert list(sound_approvals(approvals.folder.parent)) == []


def test_a_removed_approval_is_withdrawn(approvals):
    file_of(approvals).unlink()
    refused(approvals, "has not approved")


def test_the_previous_version_is_the_newest_other_one(approvals):
    assert approvals.previous(FIRST.cid) is None
    for each in (SECOND, THIRD):
        approvals.approve(ALICE, each)
    assert [approvals.previous(each.cid).bundle for each in (FIRST, THIRD)] == [str(THIRD.cid), str(SECOND.cid)]
    approvals.approve(ALICE, FIRST)  # back to the first
    assert approvals.previous(THIRD.cid).bundle == str(FIRST.cid)


def test_only_the_account_itself_approves(approvals):
    with pytest.raises(ValueError, match="another account's"):
        approvals.approve(STRANGER, SECOND)


@pytest.mark.parametrize("harm", ["altered", "added", "cache", "removed", "gone", "a link"])
def test_files_that_were_touched_since_are_not_used(approvals, tmp_path, harm):
    store, folder = DiskStore(tmp_path / "store"), approvals.folder / str(FIRST.cid)
    for place in (folder, folder / "layers", folder / "task.py"):
        place.chmod(0o700)
    harms = {
        "altered": lambda: (folder / "task.py").write_bytes(b"import os\n"),
        "added": lambda: (folder / "numpy.py").write_bytes(b""),
        "cache": lambda: (folder / "__pycache__").mkdir() or (folder / "__pycache__" / "task.pyc").write_bytes(b""),
        "removed": lambda: (folder / "task.py").unlink(),
        "gone": lambda: folder.rename(tmp_path / "moved"),
        "a link": lambda: folder.symlink_to(folder.rename(tmp_path / "moved")),
    }
    harms[harm]()
    with pytest.raises(NotFound):
        approvals.open(FIRST.cid, store)
    publish(FIRST, store)
    again = approvals.open(FIRST.cid, store)
    assert again == folder and not folder.is_symlink() and approvals.kept(FIRST.cid) == FIRST


def test_a_directory_that_takes_no_file_is_one_sentence(tmp_path):
    (tmp_path / "client").write_text("a file")
    with pytest.raises(InvalidInput, match="give another --directory"):
        Approvals(tmp_path / "client", ALICE.address).approve(ALICE, FIRST)


def test_the_signed_message_is_of_no_other_kind():
    approval = TaskApproval.sign(ALICE, bundle=str(CID.of_block(b"", RAW)), number=7)
    assert approval.message().startswith(b"fedgrove task approval 1\nbundle ")
    assert approval.replace(number=8).message() != approval.message()
