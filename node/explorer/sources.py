"""Where a history is: each source reads it into the index and audits it, with the code that ``fedgrove audit`` runs."""

import hashlib
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent
from fedgrove.common.text import command_line
from fedgrove.ipfs.disk import DiskReader
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.audit.archive import LEDGER, STORE, audit_car, audit_directory, no_run, opened_car
from fedgrove.node.audit.auditor import Progress
from fedgrove.node.audit.follow import Follower
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.explorer.index import Index
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.status.standing import Standing, standing


class _Archive:
    """A history at rest.

    Attributes
    ----------
    name : str
        What people call it: a path; of a live ledger the chain's URL.
    command : str
        The command that checks the same, from anywhere.
    key : str
        Tells this source from all others, for the index's file name.
    live : bool
        It may grow.
    deployment : Deployment or None
        None where the history is too damaged to say.
    audit_waiting : str
        Why the audit of a live history can tell nothing new; empty when it can.
    """

    live = False
    audit_waiting = ""

    def __init__(self, ledger: Path, store: ContentReader, name: str, command: str) -> None:
        self.name = name
        self.command = command
        self.store = store
        self._ledger = ledger
        place = f"{Path(name).resolve()}\n{_sha256(self._ledger)}"
        self.key = hashlib.sha256(place.encode()).hexdigest()[:32]
        try:
            self.deployment: Deployment | None = LedgerHistory.peek(self._ledger)
        except BadHistory:
            self.deployment = None

    def read(self, index: Index) -> bool:
        """Bring the index up to date; whether anything changed. Raises ChainError when a chain does not answer."""
        if index.head() >= index.deployment.block:
            return False  # it was read from this very file, whose digest is in the key
        try:
            history = LedgerHistory.load(self._ledger)
            history.verify()
            return index.add(history)
        except BadHistory:
            return False  # the audit, which reads it again, says what is wrong

    def so_far(self) -> None:
        """What a verdict says of a live history up to now."""

    def standing(self) -> None:
        """Where a live federation stands, as ``fedgrove status`` tells it."""


class DirectorySource(_Archive):
    """A run's directory, as ``demo --out`` leaves it. Raises InvalidInput."""

    def __init__(self, directory: Path) -> None:
        ledger = directory / LEDGER
        if not (ledger.is_file() and not ledger.is_symlink()):
            raise no_run(directory)
        super().__init__(ledger, DiskReader(directory / STORE), str(directory), command_line("audit", directory))
        self._directory = directory

    def audit(self, progress: Progress) -> Verdict:
        return audit_directory(self._directory, progress)


class CarSource(_Archive):
    """A CAR file of ``audit export``. Raises InvalidInput."""

    def __init__(self, file: Path) -> None:
        self._open = ExitStack()
        try:
            ledger, store = self._open.enter_context(opened_car(file))
        except (InvalidContent, StoreError):  # the audit says what is wrong with the file
            scratch = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
            ledger, store = scratch / LEDGER, DiskReader(scratch / STORE)
            ledger.touch()
        super().__init__(ledger, store, str(file), command_line("audit", "verify", file))
        self._file = file

    def close(self) -> None:
        """Close the file, and remove what was written for a while; done at the latest when the process ends."""
        self._open.close()

    def audit(self, progress: Progress) -> Verdict:
        return audit_car(self._file, progress)


class LiveSource:
    """A ledger on a chain, and its store; the contracts' code is verified already."""

    live = True

    def __init__(self, network: Network, deployment: Deployment, store: ContentReader, name: str, command: str) -> None:
        self._network = network
        self.deployment = deployment
        self.store = store
        self.name = name
        self.command = command
        first = network.block_hash(deployment.block).hex()
        self.key = hashlib.sha256(f"{deployment.to_json()}\n{first}".encode()).hexdigest()[:32]
        self._follower = Follower(network, deployment, store)
        self._view: LedgerView | None = None

    def read(self, index: Index) -> bool:
        standing = self._common(index)
        changed = standing < index.head()
        index.forget_after(standing)
        if self._network.block_number() <= standing:
            return changed
        # One block of overlap links what is new to what is known.
        start = max(standing, self.deployment.block)
        piece = capture(self._network, replace(self.deployment, block=start))
        if standing >= start and piece.block_hash(start) != index.block_hash(start):
            raise BadHistory(start, "it was replaced while the blocks after it were read")
        return index.add(piece) or changed

    def audit(self, progress: Progress) -> Verdict | None:
        return self._follower.look()

    def so_far(self) -> Verdict | None:
        return self._follower.so_far()

    @property
    def audit_waiting(self) -> str:
        return self._follower.waiting

    def standing(self) -> Standing:
        ledger = Ledger(self._network, self.deployment)
        self._view = self._view or LedgerView(ledger)
        return standing(ledger, view=self._view)

    def _common(self, index: Index) -> int:
        """The last block of the index that the chain has, too."""
        number = min(index.head(), self._network.block_number())
        if number < index.head() and self._stands(index, number):
            return index.head()  # the node is merely behind
        while not self._stands(index, number):
            number -= 1
        return number

    def _stands(self, index: Index, number: int) -> bool:
        return number < self.deployment.block or self._network.block_hash(number) == index.block_hash(number)


Source = DirectorySource | CarSource | LiveSource
"""A history and its store; ``audit`` gives the verdict, or None while a live history goes on and nothing is wrong."""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
