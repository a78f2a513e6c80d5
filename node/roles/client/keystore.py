"""A client whose keystore changes while it runs goes on with the new keys, as after a restart, or says why it cannot.

``fedgrove keys rotate`` writes a fresh key to the keystore first and then to the ledger. A process that kept the old
one would be refused in every later round.
"""

import os
from collections.abc import Callable
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys, load
from fedgrove.common.errors import InvalidInput
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.roles.client.context import holds_key_of
from fedgrove.node.roles.client.role import Client


class WatchedKeystore:
    """The keys in a keystore, read again when the file has changed.

    Parameters
    ----------
    path : Path
        The keystore.
    password : str
        That opens it now, and must open it later.

    Attributes
    ----------
    keys : Keys
        Those that it had when they were last read.
    sound : bool
        The file, as it was last found, holds them.

    Raises
    ------
    InvalidInput
        It cannot be read.
    """

    def __init__(self, path: Path, password: str) -> None:
        self._path, self._password = path, password
        self._known = _identity(path)
        self.keys = load(path, password)
        self.sound = True

    def changed(self) -> Keys | None:
        """The same member's other keys; None where the file is as it was, or is not there.

        Raises
        ------
        InvalidInput
            Once for each change: the file cannot be read, or holds other keys than a rotation leaves.
        """
        found = _identity(self._path)
        if found is None or found == self._known:
            return None
        self._known, self.sound = found, False
        fresh = load(self._path, self._password)
        if fresh.address != self.keys.address:
            raise InvalidInput(f"{self._path} now holds the keys of account {fresh.address}")
        if fresh.storage != self.keys.storage:
            raise InvalidInput(f"{self._path} now has a storage key that does not open the journal")
        different = (fresh.vrf, fresh.mailbox) != (self.keys.vrf, self.keys.mailbox)
        self.keys, self.sound = fresh, True
        return fresh if different else None


class ReloadingClient:
    """A client, made anew on the same journal once its rotated VRF key is on the ledger and no training runs.

    Parameters
    ----------
    keystore : WatchedKeystore
        Its keys.
    make : callable
        Makes the client with some keys.
    """

    def __init__(self, keystore: WatchedKeystore, make: Callable[[Keys], Client]) -> None:
        self._keystore, self._make = keystore, make
        self._client = make(keystore.keys)
        self._fresh: Keys | None = None
        self._training = False
        self._fault = ""

    @property
    def view(self) -> LedgerView:
        return self._client.view

    @property
    def account(self) -> str:
        return self._client.account

    @property
    def finished(self) -> bool:
        return self._client.finished

    @property
    def members_metrics(self) -> MembersStatement | None:
        """As of the client."""
        return self._client.members_metrics

    @property
    def answered(self) -> int:
        """As of the client."""
        return self._client.answered

    def spent(self) -> float:
        """As of the client."""
        return self._client.spent()

    @property
    def alarm(self) -> str:
        """Alarm for people, in one sentence; empty if there is none."""
        if self._fresh is not None:  # the ledger may have the new key already
            return ""
        return self._fault or self._client.alarm

    def step(self) -> Step:
        """Do what is due now; first of all, go on with other keys."""
        try:
            self._fresh = self._keystore.changed() or self._fresh
            self._fault = self._fault if not self._keystore.sound else ""
        except InvalidInput as fault:
            reason = str(fault).rstrip(".")
            self._fault = f"the keystore was changed, and this client goes on with its old keys: {reason}; restart it"
        if self._fresh is not None and not self._training and self._is_registered(self._fresh):
            self._client, self._fresh, self._fault = self._make(self._fresh), None, ""
            self.view.refresh()
            return Step.act("keys", "loaded its keystore again, which has other keys")
        step = self._client.step()
        self._training = step.kind is Kind.WORKS
        return step

    def _is_registered(self, keys: Keys) -> bool:
        """Whether the ledger, as far as the client has read it, has this VRF key for its account."""
        member = self.view.rounds.member(self.account)
        return member is not None and holds_key_of(keys, member)


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What differs after a file was replaced or written; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
