"""Which bundles a member has approved: statements signed with the member's account, in the member's own directory.

Being in a store, or in somebody else's directory, approves nothing. Layout of ``DIRECTORY/tasks``: ``CID.json`` is an
approval, ``CID/`` the files as they were when it was given (read-only, and compared with the CID whenever they are
used).

An approval is for code, not for a federation: it counts in every federation of the account whose terms name the
bundle. Remove its file to withdraw it. Anyone who can write to the directory can put a removed file back, but not make
a new one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.statements import SignedStatement
from fedgrove.common.errors import InvalidInput
from fedgrove.common.regular_file import read_regular
from fedgrove.common.wire import Malformed
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.files import write_atomically
from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.fetching import fetch_bundle
from fedgrove.node.tasks.folder import read_folder, remove_folder, write_folder
from fedgrove.node.tasks.names import InvalidBundle

FOLDER = "tasks"


class NotApproved(InvalidInput):
    """The owner of this directory has not approved the bundle, or the approval does not count; ``reason`` says why."""

    def __init__(self, cid: CID, reason: str) -> None:
        super().__init__(
            f"{reason}: read the code (`fedgrove task show {cid}`), then run `fedgrove task approve {cid}` if you agree"
        )
        self.reason = reason


class TaskApproval(SignedStatement, frozen=True, tag="fedgrove-task-approval-1"):
    """A member says that its node may run a bundle.

    ``bundle`` is the CID's text. ``number`` counts the account's approvals in one directory from 1.
    """

    bundle: str
    number: Annotated[int, Meta(ge=1, lt=1 << 62)]

    def __post_init__(self) -> None:
        CID.parse(self.bundle)

    def message(self) -> bytes:
        return f"fedgrove task approval 1\nbundle {self.bundle}\nnumber {self.number}".encode()


class Approvals:
    """The approvals of one account in a member's directory.

    Parameters
    ----------
    directory : Path
        The member's own, as ``fedgrove client --directory``.
    account : str
        The member's checksummed address: approvals of other accounts do not count.
    """

    def __init__(self, directory: Path, account: str) -> None:
        self.folder = directory / FOLDER
        self.account = account

    def check(self, cid: CID) -> TaskApproval:
        """The approval of a bundle, read and verified anew; call it at each start.

        Raises
        ------
        NotApproved
            There is none, or what is there is altered, another account's or for another bundle.
        """
        path = self._path(cid)
        try:
            found = self._read(path)
        except FileNotFoundError:
            raise NotApproved(cid, f"account {self.account} has not approved the task {cid}") from None
        except OSError as fault:
            raise NotApproved(cid, f"the approval {path} cannot be read ({fault.strerror})") from None
        except Malformed as fault:
            raise NotApproved(cid, f"{path} is not an approval that counts ({fault})") from None
        if found.bundle != str(cid):
            raise NotApproved(cid, f"{path} approves another bundle ({found.bundle})")
        return found

    def previous(self, cid: CID) -> TaskApproval | None:
        """The newest approval of another bundle; files that do not count are passed over."""
        others = [each for each in self._all() if each.bundle != str(cid)]
        return max(others, key=lambda each: each.number, default=None)

    def approve(self, account: Account, bundle: Bundle) -> TaskApproval:
        """Note that the account's holder approves a bundle, and keep its files; a second time makes it the newest."""
        if account.address != self.account:
            raise ValueError("these approvals are another account's")
        number = 1 + max((each.number for each in self._all()), default=0)
        approval = TaskApproval.sign(account, bundle=str(bundle.cid), number=number)
        with self._changes():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.keep(bundle)
            write_atomically(self._path(bundle.cid), approval.to_bytes(), 0o600)
        return approval

    def keep(self, bundle: Bundle) -> Path:
        """The read-only folder of a bundle's files here, made where it is missing or was altered."""
        folder = self._folder(bundle.cid)
        if self.kept(bundle.cid) is None:
            with self._changes():
                remove_folder(folder)
                write_folder(folder, bundle.contents)
        return folder

    def open(self, cid: CID, store: ContentReader) -> Path:
        """The read-only folder of an approved bundle, checked anew; fetched again where what was kept was altered.

        Raises
        ------
        NotApproved, InvalidBundle, StoreError
        """
        self.check(cid)
        return self._folder(cid) if self.kept(cid) else self.keep(fetch_bundle(store, cid))

    def kept(self, cid: CID) -> Bundle | None:
        """The bundle as it was kept, hashed anew; None where a file is missing, altered or added."""
        if self._folder(cid).is_symlink():
            return None
        try:
            bundle = Bundle.of(read_folder(self._folder(cid), leave_out=lambda name: False))
        except InvalidBundle:
            return None
        return bundle if bundle.cid == cid else None

    @contextmanager
    def _changes(self) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            raise InvalidInput(f"cannot write to {self.folder}: {fault.strerror}; give another --directory") from None

    def _folder(self, cid: CID) -> Path:
        return self.folder / str(cid)

    def _path(self, cid: CID) -> Path:
        return self.folder / f"{cid}.json"

    def _read(self, path: Path) -> TaskApproval:
        found = _read(path)
        if found.account != self.account:
            raise Malformed(f"it is signed by {found.account}, not by {self.account}")
        return found

    def _all(self) -> Iterator[TaskApproval]:
        return (each for each in sound_approvals(self.folder.parent) if each.account == self.account)


def sound_approvals(directory: Path) -> Iterator[TaskApproval]:
    """The approvals in a member's directory, of whichever account, each in the file named after its bundle.

    Files that are none are passed over. Only ``Approvals.check`` says what may run.
    """
    for path in sorted((directory / FOLDER).glob("*.json")):
        try:
            found = _read(path)
        except (Malformed, OSError):
            continue
        if path.stem == found.bundle:
            yield found


def _read(path: Path) -> TaskApproval:
    return TaskApproval.from_bytes(read_regular(path, TaskApproval.max_bytes, follow=False))
