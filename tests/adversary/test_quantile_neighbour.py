"""A reader of the model that wants to know whether a client sent its update, or an update of zeros.

It knows the updates of all others and reads the sum with its noise. Zeros lie below S and vote so; an update that was
clipped votes against it. Whoever adds up the distance of the updates and that of one vote forgets that the votes of the
two neighbours are twice that far apart. What stops it: there is room for both votes beside the longest update.
"""

from random import Random

import numpy as np
import pytest

from fedgrove.node.privacy.accountant import epsilon_of
from fedgrove.node.privacy.client_level import quantise
from fedgrove.node.privacy.discrete import add_noise
from fedgrove.node.privacy.grid import Grid, RoundTerms
from fedgrove.node.privacy.settings import ClientLevelSettings
from tests.node.privacy.canaries import gaussian_bound
from tests.node.privacy.uploads import noisy_update

CLIENTS, DELTA, TRIALS = 10, 1e-3, 3000
TERMS = ClientLevelSettings(clipping="quantile")
ZEROS, DIVERGED = np.zeros(1, np.float32), np.full(1, np.nan, np.float32)
CLIPPED = np.full(1, 2.0, np.float32)


@pytest.fixture
def careless(monkeypatch):
    """The room as it was: that of an update beside one vote, of up to half the sensitivity."""
    monkeypatch.setattr(Grid, "max_squares", property(lambda grid: grid.sensitivity**2 - grid.vote**2))
    monkeypatch.setattr("fedgrove.node.privacy.grid._MOST_VOTE", 2)


def grid() -> Grid:
    return RoundTerms(TERMS, 1, 1, 1.0, clients=CLIENTS, rate=1.0, sharers=CLIENTS).grid


def shown(neighbour: np.ndarray | None) -> tuple[float, float]:
    """ε that the reader shows, and ε that was accounted; its neighbour None: a client that sends nothing."""
    own = grid()
    random = Random(0)

    def words(update: np.ndarray | None) -> np.ndarray:
        return np.zeros(own.length, np.uint32) if update is None else quantise(own, update, random.randbytes)

    apart = _signed(words(CLIPPED)) - _signed(words(neighbour))

    def scores(present: bool, trials: int) -> np.ndarray:
        sums = np.concatenate([words(CLIPPED if present else neighbour) for _ in range(trials)])
        for _ in range(CLIENTS):
            add_noise(sums, own.share_variance, random.randbytes)
        return _signed(sums).reshape(trials, own.length) @ apart.astype(np.float64)

    accounted = epsilon_of([own.release(CLIENTS, 1.0)], DELTA)
    return gaussian_bound(scores, TRIALS, DELTA), accounted


def _signed(words: np.ndarray) -> np.ndarray:
    return words.view(np.int32).astype(np.int64)


NEIGHBOURS = {"zeros": ZEROS, "nothing": None, "diverged": DIVERGED}


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_a_reader_shows_no_more_than_was_accounted(neighbour):
    lower, accounted = shown(NEIGHBOURS[neighbour])
    assert lower <= accounted


@pytest.mark.parametrize("update", [CLIPPED, -CLIPPED, ZEROS, DIVERGED, np.full(1, 1.0, np.float32)])
@pytest.mark.parametrize("neighbour", [ZEROS, None])
def test_no_update_is_further_from_its_neighbour_than_the_sensitivity(update, neighbour):
    own = grid()
    words = _signed(quantise(own, update, Random(1).randbytes))
    if neighbour is not None:
        words = words - _signed(quantise(own, neighbour, Random(2).randbytes))
    assert (words**2).sum() <= own.sensitivity**2


def test_a_clients_stand_in_for_a_diverged_training_is_such_a_neighbour():
    """It uploads the model unchanged: zeros, with the vote of zeros."""
    own = grid()
    assert _signed(noisy_update(own, ZEROS, Random(0).randbytes))[-1] != 0
    assert _signed(quantise(own, ZEROS, Random(0).randbytes)).tolist() == [0, own.vote]


def test_with_room_for_one_vote_only_the_reader_tells_an_update_from_zeros(careless):
    lower, accounted = shown(ZEROS)
    assert lower > accounted
