"""Work behind the pages: one thread reads, one surveys, one audits; the pages see what was found by now.

A store may take half a minute to say that it does not find a blob, and an audit many: neither holds up the others.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from fedgrove.chain.errors import ChainError
from fedgrove.ipfs.store import StoreError
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.sources import Source
from fedgrove.node.explorer.survey import ask_again, survey
from fedgrove.node.protocol.bad_record import BadRecord
from fedgrove.node.status.standing import Standing

INTERVAL_SECONDS = 1.0
MISSING_SECONDS = 20.0
TELL_SECONDS = 0.5
STOP_SECONDS = 5.0
BLOBS_AT_ONCE = 200
# What an audit finds wrong with the history as a whole, or with a run's files, rather than with one record.
_NOT_OF_A_RECORD = ("chain", "ledger", "archive", "manifest.json", "report.json", "file ")


@dataclass(frozen=True)
class Snapshot:
    """State of knowledge at this moment.

    Attributes
    ----------
    surveyed : bool
        The store was asked about all that the history named then.
    verdict : Verdict or None
        The last word of the audit, or what a live history's audit says by now; None before the first.
    waiting, store_waiting, audit_waiting : str
        Why chain, store, or audit, tell nothing new; empty when all is well.
    """

    version: int = 0
    read: bool = False
    surveyed: bool = False
    verdict: Verdict | None = None
    checked: int = 0
    auditing: bool = True
    standing: Standing | None = None
    waiting: str = ""
    store_waiting: str = ""
    audit_waiting: str = ""

    @property
    def indexed(self) -> bool:
        """All that history and store had at the start is known."""
        return self.read and self.surveyed

    def settled(self, live: bool) -> bool:
        """Whether pages that are made now stay as they are, or, of a live history, change with it only."""
        return self.indexed and (live or not self.auditing)

    @property
    def bad(self) -> BadRecord | None:
        """The first bad record that was found."""
        return self.verdict.first_bad_record if self.verdict else None

    @property
    def bad_place(self) -> int | None:
        """Place (from 1) in the history of the bad record, if it is a record that is bad."""
        if self.bad is None or self.bad.field.startswith(_NOT_OF_A_RECORD):
            return None
        return self.checked + 1


class IndexWatch:
    """Keeps an index up to date and the audit going while it is entered.

    Parameters
    ----------
    index : Index or None
        None where the source does not even say which federation it is of.
    """

    def __init__(self, source: Source, index: Index | None, interval: float = INTERVAL_SECONDS) -> None:
        self.source = source
        self.index = index
        self.changed = threading.Condition()
        self.sight = Snapshot()
        self._interval = interval
        self._ended = threading.Event()
        self._reported_at = 0.0
        # The lowest number that no earlier process has used, so that all blobs are asked for anew.
        used = index.value("SELECT coalesce(max(survey), 0) FROM blobs") if index else 0
        self._survey = used + 1
        self._was_read, self._was_surveyed, self._was_audited = (threading.Event() for _ in range(3))
        self._threads = [
            threading.Thread(target=self._work, args=(work, looked), daemon=True)
            for work, looked in (
                (self._reading, self._was_read),
                (self._surveying, self._was_surveyed),
                (self._auditing, self._was_audited),
            )
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the work; what was found stays."""
        self._ended.set()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:  # one that waits for a store ends with the process
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def known(self) -> bool:
        """Whether the index has the history, up to some block: before, it has no figure to show."""
        return self.index is not None and self.index.head() >= self.index.deployment.block

    def settle(self) -> Snapshot:
        """Return when what was there was read, surveyed and audited once, or could not be; for an export."""
        for looked in (self._was_read, self._was_surveyed, self._was_audited):
            looked.wait()
        return self.sight

    def _work(self, work: Callable[[], None], looked: threading.Event) -> None:
        """Run a thread's work; however it ends, nobody waits for it any more."""
        try:
            work()
        except Exception as fault:  # a mistake of fedgrove's: the pages must not go on saying that more will come
            self._say(waiting=f"the explorer stopped with an error: {fault!r}")
            raise
        finally:
            looked.set()

    # --- reading ----------------------------------------------------------------------------------------------------

    def _reading(self) -> None:
        """Follow the chain; an archive needs one look."""
        if self.index is None:
            self._say(read=True)
        while self.index is not None and not self._ended.is_set():
            try:
                if self.source.read(self.index) or not self.sight.read:
                    self._say(read=True, waiting="")
                standing = self.source.standing()
                if standing != self.sight.standing or self.sight.waiting:
                    self._say(standing=standing, waiting="")
            except (ChainError, sqlite3.Error) as fault:
                self._say(waiting=str(fault))
            self._was_read.set()
            if not self.source.live:
                return
            self._ended.wait(self._interval)

    # --- surveying --------------------------------------------------------------------------------------------------

    def _surveying(self) -> None:
        """Ask the store about what the chain names, and a live one again about what it did not have."""
        self._was_read.wait()
        asked = time.monotonic()
        while self.index is not None and not self._ended.is_set():
            if self._survey_on():
                continue
            if not self.sight.surveyed:
                self._say(surveyed=True)
            self._was_surveyed.set()
            if not self.source.live:
                return
            if time.monotonic() - asked > MISSING_SECONDS:
                ask_again(self.index, self._survey)
                asked = time.monotonic()
            self._ended.wait(self._interval)

    def _survey_on(self) -> bool:
        """One look into the store; whether there is more to do at once."""
        if self.index is None:
            return False
        try:
            busy = survey(self.index, self.source.store, self._survey, BLOBS_AT_ONCE, TELL_SECONDS)
        except (StoreError, sqlite3.Error) as fault:
            self._say(store_waiting=str(fault))
            return False
        if busy or self.sight.store_waiting:
            self._say(store_waiting="")
        return busy

    # --- auditing ---------------------------------------------------------------------------------------------------

    def _auditing(self) -> None:
        """Audit until the last word, or until this is left."""
        try:
            while not self._ended.is_set() and not self._audit_on():
                self._was_audited.set()
                self._ended.wait(self._interval)
        except Exception as fault:  # a mistake of fedgrove's: the pages must not go on saying that it is being checked
            self._say(
                verdict=Verdict("cannot tell", reason=(f"the audit stopped with an error: {fault!r}")), auditing=False
            )
            raise

    def _audit_on(self) -> bool:
        """One look; whether that was the last word."""
        try:
            verdict = self.source.audit(self._progress)
        except (ChainError, StoreError, OSError) as fault:
            verdict = Verdict("cannot tell", reason=str(fault))
        if verdict is not None:
            verdict = self._on_what_is_shown(verdict)
            self._say(verdict=verdict, checked=verdict.records, auditing=False)
            return True
        now, waiting = self.source.so_far(), self.source.audit_waiting
        if now is not None and (now, waiting) != (self.sight.verdict, self.sight.audit_waiting):
            self._say(verdict=now, checked=now.records, audit_waiting=waiting)
        return False

    def _on_what_is_shown(self, verdict: Verdict) -> Verdict:
        """The verdict on an archive, which is read once for the pages and once for the audit: both must be the same.

        The hash of the last block stands for all before it.
        """
        self._was_read.wait()
        if self.source.live or self.index is None or verdict.verdict != "verified":
            return verdict
        shown = self.index.block_hash(verdict.head_block)
        if self.index.head() == verdict.head_block and shown is not None and f"0x{shown.hex()}" == verdict.head_hash:
            return verdict
        self.index.forget_after(self.index.deployment.block - 1)
        return Verdict("cannot tell", reason="the history was replaced while it was read: start the explorer again")

    def _progress(self, done: int, of_all: int) -> None:
        if self._ended.is_set():
            raise SystemExit  # ends this thread: an audit of a long history takes minutes
        if time.monotonic() - self._reported_at > TELL_SECONDS:
            self._reported_at = time.monotonic()
            self._say(checked=done)

    def _say(self, **news: object) -> None:
        with self.changed:
            self.sight = replace(self.sight, version=self.sight.version + 1, **news)
            self.changed.notify_all()
