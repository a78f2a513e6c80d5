"""A client's part of a round: forgotten once, durably, before anybody sees what follows; each vector drawn afresh."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from fedgrove.chain.records import Position, Withdrawn
from fedgrove.common.errors import InvalidInput
from fedgrove.node.methods.kmeans import client_work as local_clustering
from fedgrove.node.methods.kmeans.client_work import LocalClustering
from fedgrove.node.methods.kmeans.notebook import Notebook, read_notebook
from fedgrove.node.methods.kmeans.request import Request
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.terms import FederationConfig

ME = 3
SETTINGS = KMeansTerms(k=3, dimensions=2, step=0.05)
POINTS = np.random.default_rng(0).uniform(-1, 1, (12, 2))


class Place:
    """Journal and ledger of one client, whose process can be started anew; ``summed``: whether rounds sum it."""

    def __init__(self, directory, patched):
        self.journal = Journal(directory / "journal", bytes(32))
        self.rounds = SimpleNamespace(withdrawals=[])
        self.summed = True
        patched.setattr(local_clustering, "exchange_of", lambda place: SimpleNamespace(sum_of=self._sum_of))
        self.work = self.restart()

    def _sum_of(self, client: int):
        return object() if self.summed and client == ME else None

    def restart(self, points=POINTS, settings=SETTINGS) -> LocalClustering:
        config = FederationConfig(settings)
        self.work = LocalClustering(config, points, self.journal, lambda: self.rounds, lambda current: current)
        return self.work

    def open(self, number: int):
        """A round, opened in block 10 times its number."""
        return SimpleNamespace(number=number, opened=SimpleNamespace(opened_at=10 * number, round=number))

    def ask(self, rows, block: int, keep: bool = True) -> Request:
        request = Request.new(rows)
        if keep:
            self.journal.keep(request.name, request.to_bytes())
        place = Position(block, bytes(32), 0)
        self.rounds.withdrawals.append(Withdrawn(place, "0x", ME, request.points, request.digest))
        return request


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_in_a_round_a_client_has_one_vector_and_in_the_next_another(place):
    first = place.work.result(place.open(1), ME)
    assert place.work.result(place.open(1), ME) == first and 0 < first.total <= 12 and len(first) <= 3
    others = [place.work.result(place.open(number), ME) for number in range(2, 12)]
    assert sum(other == first for other in others) <= 1


def test_the_points_given_are_looked_at_once(place):
    place.work.samples(place.open(1), ME)
    assert place.restart(points=np.empty((0, 2))).result(place.open(1), ME).total


def test_nothing_is_drawn_for_a_round_that_sums_nothing(place, monkeypatch):
    place.summed = False
    monkeypatch.setattr(local_clustering, "draw_vector", None)
    assert len(place.work.result(place.open(1), ME)) == 0


@pytest.mark.parametrize(("points", "stated"), [(1, 64), (64, 64), (65, 128), (1000, 1024), (1025, 2048)])
def test_a_client_states_a_power_of_two_and_not_how_many_points_it_has(place, points, stated):
    work = place.restart(np.zeros((points, 2)))
    assert work.samples(place.open(1), ME) == stated


def test_a_client_with_more_points_than_the_terms_allow_takes_no_part(place):
    many = np.zeros(((1 << 24) + 1, 2))
    with pytest.raises(CannotTakePart, match=r"ledger\.max_samples"):
        place.restart(many).samples(place.open(1), ME)


def test_a_request_counts_from_the_next_round_on(place):
    place.work.result(place.open(1), ME)
    place.ask([0], block=21)
    place.work.result(place.open(2), ME)
    assert len(read_notebook(place.journal).left) == 12
    place.work.result(place.open(3), ME)
    assert len(read_notebook(place.journal).left) == 11


def test_points_that_were_taken_back_are_in_no_file_any_more(place):
    place.work.result(place.open(1), ME)
    request = place.ask([4, 7], block=15)
    place.work.result(place.open(2), ME)
    notebook = read_notebook(place.journal)
    assert np.isnan(notebook.points[[4, 7]]).all() and np.array_equal(notebook.left, np.delete(POINTS, [4, 7], 0))
    assert notebook.applied == (request.digest.hex(),)
    place.work.leave()
    assert np.isnan(read_notebook(place.journal).points).all()
    with pytest.raises(CannotTakePart):
        place.restart().samples(place.open(3), ME)


def test_a_vector_that_was_drawn_before_a_request_is_not_sent_after_it(place):
    """The chain abandoned the block in which the round was opened, and opens it after the request."""
    place.restart(np.array([[0.0, 0.0], [1.0, 1.0]]), KMeansTerms(k=2, dimensions=2, step=0.05, least_share=1))
    assert place.work.result(place.open(1), ME).total == 2
    place.ask([1], block=10)
    assert place.work.result(place.open(1), ME).levels.tolist() == [[0, 0]]


def test_a_crash_before_the_notebook_is_saved_loses_nothing(place, monkeypatch):
    place.work.result(place.open(1), ME)
    place.ask(range(6), block=15)
    current = place.open(2)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "keep", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            place.work.samples(current, ME)
    place.work.samples(current, ME)  # the same process goes on, from the file
    assert len(read_notebook(place.journal).left) == 6
    place.restart().samples(current, ME)
    assert len(read_notebook(place.journal).left) == 6


def test_a_request_that_the_journal_does_not_know_is_not_guessed(place):
    place.work.result(place.open(1), ME)
    place.ask([0], block=15, keep=False)
    with pytest.raises(CannotTakePart, match=r"\(block 15\) to forget 1 points, which its journal cannot name"):
        place.work.samples(place.open(2), ME)


def test_a_notebook_that_was_changed_is_damaged(place):
    place.journal.keep("points", b"\xff" * 64)
    with pytest.raises(JournalDamaged):
        read_notebook(place.journal)


@pytest.mark.parametrize(
    ("rows", "asked", "sentence"), [([12], [], "no point 12"), ([2], [2], "already been withdrawn")]
)
def test_rows_that_are_not_there_cannot_be_asked_for(rows, asked, sentence):
    notebook = Notebook(POINTS)
    with pytest.raises(InvalidInput, match=sentence):
        notebook.left_after(rows, asked)
    assert notebook.left_after([0, 1], [2]) == 9


@pytest.mark.parametrize("samples", [600, pytest.param(10_000, marks=pytest.mark.statistics)])
def test_what_is_left_is_summed_as_if_the_rest_had_never_been_there(place, tmp_path, monkeypatch, samples):
    """χ² over the vectors of a client that forgot two of six points, and of one that never had them."""
    points = np.array([[0.0, 0.0], [0.1, 0.0], [0.5, 0.5], [-0.5, 0.5], [0.9, -0.9], [-0.9, -0.9]])
    settings = KMeansTerms(k=2, dimensions=2, step=0.05, least_share=0.8)
    work = place.restart(points, settings)
    work.result(place.open(1), ME)
    place.ask([1, 4], block=15)
    forgot = Counter(_name(work.result(place.open(2 + number), ME)) for number in range(samples))
    never = Place(tmp_path / "never", monkeypatch).restart(points[[0, 2, 3, 5]], settings)
    fresh = Counter(_name(never.result(place.open(2 + number), ME)) for number in range(samples))
    names = [name for name in forgot | fresh if forgot[name] + fresh[name] >= 10]
    table = [[found[name] for name in names] for found in (forgot, fresh)]
    assert len(names) > 8 and chi2_contingency(table).pvalue > 1e-4


def _name(vector) -> bytes:
    return vector.levels.tobytes() + vector.counts.tobytes()
