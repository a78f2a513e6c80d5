"""Attack: whoever can write to a run's directory swaps its history while the explorer starts.

The explorer reads the history once for its pages and once for its audit. A history without its end was shown under the
verdict on the whole one, and again at every later start, as the pages' index is kept by the digest of the whole one.
"""

import shutil
import threading

from fedgrove.node.audit.archive import LEDGER
from fedgrove.node.explorer.sources import DirectorySource
from tests.adversary.forging import Tape
from tests.node.explorer.conftest import exploring


class Swapped(DirectorySource):
    """The pages are made from another file than the one that is there before and afterwards."""

    def __init__(self, directory, other):
        super().__init__(directory)
        self._other, self._back = other, threading.Event()

    def audit(self, progress):
        self._back.wait(60)
        return super().audit(progress)

    def read(self, index):
        path = self._directory / LEDGER
        right = path.read_bytes()
        path.write_bytes(self._other)
        try:
            return super().read(index)
        finally:
            path.write_bytes(right)
            self._back.set()


def test_pages_of_another_history_are_not_shown_as_verified(run, tmp_path):
    kept = tmp_path / "kept"
    shutil.copytree(run.directory, kept)
    tape = Tape.of(run.history)
    tape.cut(run.history.head_block - 1)
    tape.encode().save(tmp_path / "cut.jsonl")
    with exploring(Swapped(kept, (tmp_path / "cut.jsonl").read_bytes()), tmp_path / "cache") as swapped:
        assert swapped.watch.sight.verdict.verdict == "cannot tell"
        assert "replaced while it was read" in swapped.page()
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        assert explorer.watch.sight.verdict.verdict == "verified"
        assert explorer.index.head() == run.history.head_block
