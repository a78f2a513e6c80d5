"""What the attacker of ``test_canaries`` shows of a broken mechanism's ε is above what is accounted."""

import os
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.base.tensors import flatten
from fedgrove.node.methods.training.client_level import ClientLevelAccounting, ClientLevelUploads
from fedgrove.node.methods.training.metric_sums import rates_of
from fedgrove.node.privacy import client_level, local, signds
from fedgrove.node.privacy.client_level import quantise, rate_words
from fedgrove.node.privacy.grid import Grid, RoundTerms
from tests.node.privacy.canaries import Lots
from tests.node.privacy.test_canaries import (
    FEW,
    FIXED,
    LOCAL,
    MANY,
    PLAYS,
    QUANTILE,
    SECRET,
    SIGNDS,
    Scene,
    shown_and_accounted,
)


def half_the_noise(patch):
    variance = Grid.share_variance.fget
    patch.setattr(Grid, "share_variance", property(lambda grid: variance(grid) / 4))


def no_clipping(patch):
    patch.setattr(client_level, "clip_factor", lambda norm, clip: 1.0)
    patch.setattr(client_level, "_exact_squares", lambda units: 0)


def clipping_by_tensor(patch):
    """Each of the four has a norm of S."""
    patch.setattr(client_level, "clip_factor", lambda norm, clip: min(1.0, 2 * clip / norm) if norm else 1.0)
    patch.setattr(client_level, "_exact_squares", lambda units: 0)


def a_member_without_noise(patch):
    """Client 2 leaves out its share, and its share is counted."""
    encode = ClientLevelUploads.encode

    def encoded(self, number, client, secrets, own):
        if client == 1:
            return encode(self, number, client, secrets, own)
        return quantise(self._round(number).grid, flatten(own.tensors), os.urandom).tobytes()

    patch.setattr(ClientLevelUploads, "encode", encoded)


def votes_counted_once(patch):
    patch.setattr(Grid, "max_squares", property(lambda grid: grid.sensitivity**2 - grid.vote**2))
    patch.setattr("fedgrove.node.privacy.grid._MOST_VOTE", 2)


def rates_beside_the_sensitivity(patch):
    """As if they were another round's, which nobody counts."""
    patch.setattr("fedgrove.node.privacy.grid._OF_RATES", 1)
    patch.setattr(Grid, "max_squares", property(lambda grid: grid.sensitivity**2))


def each_rate_with_the_whole_sensitivity(patch):
    built = RoundTerms.grid.func

    def wide(planned):
        own = built(planned)
        return replace(own, rate=own.sensitivity)

    patch.setattr(RoundTerms, "grid", property(wide))


def rates_without_noise(patch):
    encode = ClientLevelUploads.encode

    def encoded(self, inputs, client, secrets, own):
        words = np.frombuffer(encode(self, inputs, client, secrets, own), np.uint32).copy()
        grid, rates = self._round(inputs).grid, rates_of(own.metrics, self.config.evaluation.metrics)
        words[-grid.rates :] = rate_words(grid, rates, os.urandom)
        return words.tobytes()

    patch.setattr(ClientLevelUploads, "encode", encoded)


def encoded_twice(patch):
    """As after a crash without a journal: two uploads of one update are told, and their mean has half the variance."""
    encode = ClientLevelUploads.encode

    def encoded(self, *arguments):
        first, second = (np.frombuffer(encode(self, *arguments), np.int32) for _ in range(2))
        return ((first.astype(np.int64) + second) // 2).astype(np.int32).tobytes()

    patch.setattr(ClientLevelUploads, "encode", encoded)


def lost_noise_not_counted(patch):
    def full(self, current, parameters):
        return self._round(current, parameters).grid.release(len(current.shares), 1.0)

    patch.setattr(ClientLevelAccounting, "release", full)


def counted_as_drawn_in_secret(patch):
    patch.setattr(ClientLevelAccounting, "release_to_readers", lambda self, current, d: self.release(current, d))


def nothing(patch):
    """The machines are broken, not the code."""


def local_half_the_noise(patch):
    patch.setattr(local, "VARIANCE", local.VARIANCE / 4)


def local_neighbours_at_half_their_distance(patch):
    """MindSpore's: the sensitivity is that of a client that is there or not, not of any two updates."""
    sigma = local.gaussian_sigma
    patch.setattr(local, "gaussian_sigma", lambda epsilon, delta, sensitivity: sigma(epsilon, delta, sensitivity / 2))


def local_no_clipping(patch):
    patch.setattr(local, "on_grid", lambda mechanism, own: np.rint(own / mechanism.unit).astype(np.int32))


def twice_the_boost(patch):
    exponential = signds.boost_of
    patch.setattr(signds, "boost_of", lambda epsilon: exponential(2 * epsilon))


def always_from_the_top(patch):
    patch.setattr(signds, "draw_index", lambda weights, random: len(weights) - 1)


BROKEN = {
    "half the noise": (half_the_noise, Scene(FIXED)),
    "no clipping": (no_clipping, Scene(FIXED)),
    "clipping tensor by tensor": (clipping_by_tensor, Scene(FIXED)),
    "the same noise in two rounds": (nothing, Scene(FIXED, rounds=2, same_lots=True)),
    "a member without noise": (a_member_without_noise, Scene(FIXED)),
    "votes of neighbours counted once": (votes_counted_once, Scene(QUANTILE)),
    "rates beside the sensitivity": (rates_beside_the_sensitivity, Scene(FIXED, rates=1)),
    "each rate with the whole sensitivity": (
        each_rate_with_the_whole_sensitivity,
        Scene(FIXED, rates=3, only=True),
    ),
    "rates without noise": (rates_without_noise, Scene(FIXED, rates=1, only=True)),
    "encoded twice": (encoded_twice, Scene(FIXED)),
    "lost noise not counted": (lost_noise_not_counted, Scene(FIXED, 4, 2)),
    "readers counted as if they knew nothing": (counted_as_drawn_in_secret, Scene(SECRET, readers=True)),
    "local, half the noise": (local_half_the_noise, Scene(LOCAL)),
    "local, half the distance": (local_neighbours_at_half_their_distance, Scene(LOCAL)),
    "local, no clipping": (local_no_clipping, Scene(LOCAL)),
    "SignDS, twice the boost": (twice_the_boost, Scene(SIGNDS)),
    "SignDS, always from the top": (always_from_the_top, Scene(SIGNDS)),
}
QUICK = (
    "half the noise",
    "rates beside the sensitivity",
    "each rate with the whole sensitivity",
    "rates without noise",
    "the same noise in two rounds",
    "local, half the noise",
    "local, no clipping",
    "SignDS, twice the boost",
    "SignDS, always from the top",
)


def caught(name: str, lots: Lots, patch: pytest.MonkeyPatch, trials: int) -> None:
    broken, scene = BROKEN[name]
    accounted = PLAYS[scene.settings.mechanism][1]
    honest = accounted(scene)
    local.mechanism_for.cache_clear()
    signds.mechanism_for.cache_clear()
    broken(patch)
    shown, stated = shown_and_accounted(scene, lots, trials)
    local.mechanism_for.cache_clear()
    signds.mechanism_for.cache_clear()
    claimed = stated if broken in (lost_noise_not_counted, counted_as_drawn_in_secret) else honest
    assert shown > claimed


@pytest.mark.parametrize("name", QUICK)
def test_a_broken_mechanism_is_caught(lots, monkeypatch, name):
    caught(name, lots, monkeypatch, FEW)


@pytest.mark.statistics
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_mechanism_is_caught_in_many_trials(lots, monkeypatch, name):
    caught(name, lots, monkeypatch, MANY)
