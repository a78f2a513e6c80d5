"""A client's notebook: replaced as a whole, never behind what others have seen, and without what was taken back."""

from types import SimpleNamespace

import numpy as np
import pytest

from chain.records import Position, Withdrawn
from ipfs.disk import DiskStore
from node.config import FederationConfig
from node.journal import Journal, JournalDamaged
from node.kmeans.client import UnknownPoint
from node.kmeans.counts import BinCounts
from node.kmeans.settings import ClusteringSettings
from node.kmeans.state import Contribution, State
from node.local_work import CannotTakePart
from node.unlearning.local_clustering import LocalClustering
from node.unlearning.notebook import Notebook, read_notebook
from node.unlearning.request import Request

ME = 3
SETTINGS = ClusteringSettings(k=3, dimensions=2, step=0.05)
POINTS = np.random.default_rng(0).uniform(-1, 1, (12, 2))


class Place:
    """Journal, store and ledger of one client, whose process can be started anew."""

    def __init__(self, directory):
        self.journal = Journal(directory / "journal", bytes(32))
        self.store = DiskStore(directory / "store")
        self.rounds = SimpleNamespace(withdrawals=[], rounds={})
        self.work = self.restart()

    def restart(self, points=POINTS) -> LocalClustering:
        config = FederationConfig(clustering=SETTINGS)
        self.work = LocalClustering(self.store, config, points, self.journal, lambda: self.rounds)
        return self.work

    def open(self, number: int, before: State):
        """A round that starts from a state, opened in block 10 times its number."""
        digest = self.store.put(before.to_bytes()).digest
        opened = SimpleNamespace(opened_at=10 * number, model_digest=digest, round=number)
        self.rounds.rounds[number] = SimpleNamespace(number=number, opened=opened)
        return self.rounds.rounds[number]

    def ask(self, rows, block: int, keep: bool = True) -> Request:
        request = Request.new(rows)
        if keep:
            self.journal.keep(request.name, request.to_bytes())
        place = Position(block, bytes(32), 0)
        self.rounds.withdrawals.append(Withdrawn(place, "0x", ME, request.points, request.digest))
        return request


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def after(number: int, vector: BinCounts) -> State:
    """The state that a round leaves in which this client alone was summed."""
    centres = np.zeros((min(SETTINGS.k, len(vector)), 2))
    return State(vector, {ME: Contribution(number, vector.total)}, centres)


def test_the_first_upload_is_the_whole_vector_whatever_happens_to_the_process(place):
    entry = place.open(1, State.empty(2))
    first = place.work.result(entry, ME)
    assert first.total == 12 and len(first) <= 3 and place.work.samples(entry, ME) == 12
    assert place.restart(points=np.empty((0, 2))).result(entry, ME) == first


def test_later_uploads_are_differences_and_nothing_without_a_request(place):
    first = place.work.result(place.open(1, State.empty(2)), ME)
    assert len(place.work.result(place.open(2, after(1, first)), ME)) == 0
    place.ask([0, 1], block=25)
    change = place.work.result(place.open(3, after(1, first)), ME)
    assert change.total == -2
    assert first + change == read_notebook(place.journal).vectors[3]


def test_a_request_counts_from_the_next_round_on(place):
    entry = place.open(2, State.empty(2))
    place.ask([0], block=21)
    assert place.work.samples(entry, ME) == 12
    assert place.work.samples(place.open(3, State.empty(2)), ME) == 11


def test_a_round_that_came_to_nothing_is_not_subtracted(place):
    first = place.work.result(place.open(1, State.empty(2)), ME)
    assert place.work.result(place.open(2, State.empty(2)), ME) == first


def test_points_that_were_taken_back_are_in_no_file_any_more(place):
    place.work.result(place.open(1, State.empty(2)), ME)
    request = place.ask([4, 7], block=15)
    place.work.result(place.open(2, State.empty(2)), ME)
    notebook = read_notebook(place.journal)
    assert np.isnan(notebook.points[[4, 7]]).all() and np.array_equal(
        np.delete(notebook.points, [4, 7], 0), np.delete(POINTS, [4, 7], 0)
    )
    assert notebook.applied == (request.digest.hex(),)
    place.work.leave()
    assert np.isnan(read_notebook(place.journal).points).all()
    with pytest.raises(CannotTakePart):
        place.restart().samples(place.open(3, State.empty(2)), ME)


def test_a_crash_before_the_notebook_is_saved_loses_nothing(place, monkeypatch):
    place.work.result(place.open(1, State.empty(2)), ME)
    place.ask(range(6), block=15)
    entry = place.open(2, State.empty(2))
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "keep", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            place.work.samples(entry, ME)
    assert place.work.samples(entry, ME) == 6  # the same process goes on, from the file
    assert place.restart().samples(entry, ME) == 6


def test_a_request_that_the_journal_does_not_know_is_not_guessed(place):
    place.work.result(place.open(1, State.empty(2)), ME)
    place.ask([0], block=15, keep=False)
    with pytest.raises(CannotTakePart, match=r"\(block 15\) to forget 1 points, which its journal cannot name"):
        place.work.samples(place.open(2, State.empty(2)), ME)


def test_what_was_sent_and_is_lost_cannot_be_taken_back(place):
    first = place.work.result(place.open(1, State.empty(2)), ME)
    notebook = read_notebook(place.journal)
    place.journal.keep("points", Notebook(notebook.points, notebook.centroids).to_bytes())
    place.ask([0], block=15)
    with pytest.raises(CannotTakePart, match="lost what it sent in round 1"):
        place.restart().result(place.open(2, after(1, first)), ME)


def test_only_the_last_two_vectors_that_were_summed_are_kept(place):
    state = State.empty(2)
    for number in range(1, 6):
        place.work.result(place.open(number, state), ME)
        state = after(number, read_notebook(place.journal).vectors[number])
        place.ask([number], block=10 * number + 5)
    assert sorted(read_notebook(place.journal).vectors) == [3, 4, 5]


def test_a_notebook_that_was_changed_is_damaged(place):
    place.journal.keep("points", b"\xff" * 64)
    with pytest.raises(JournalDamaged):
        read_notebook(place.journal)


@pytest.mark.parametrize(("rows", "asked", "sentence"), [([12], [], "no point 12"), ([2], [2], "taken back before")])
def test_rows_that_are_not_there_cannot_be_asked_for(rows, asked, sentence):
    notebook = Notebook(POINTS, np.array([0, 1]))
    with pytest.raises(UnknownPoint, match=sentence):
        notebook.left_after(rows, asked)
    assert notebook.left_after([0, 1], [2]) == 9
