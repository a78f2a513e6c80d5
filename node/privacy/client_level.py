"""Client-level differential privacy as a step between training and masking (Geyer et al. 2017).

A client clips its update Δw to the norm S, rounds it to integers, adds its share of the noise and hands the integers
to the masks. The ledger's sum decodes to Σ Δw̄ + N(0, σ²S²), and nobody has seen it without noise. The unit
of privacy is the client, so all clients weigh the same.

``grid`` says which integers these are, how much noise is in them, and why the sum is as private as the continuous
mechanism that the accountant knows.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedgrove.node.base.tensors import Layout, add
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.ring import WORD
from fedgrove.node.privacy.clipping import check_update, clip_factor, l2_norm, next_clip
from fedgrove.node.privacy.discrete import add_noise
from fedgrove.node.privacy.grid import Grid, RoundTerms
from fedgrove.node.privacy.mechanism import Mechanism, Rates, Start, Weight
from fedgrove.node.privacy.records import ClientLevelRecord
from fedgrove.node.privacy.repeatable import add_repeatable_noise

QUANTILE_TENSOR = "privacy.below"
"""Name of the coordinate behind the parameters when a quantile is tracked."""

_SIGNED = np.dtype("<i4")
_CHUNK = 1 << 16  # parameters at a time: few calls, and temporaries that stay near the processor
_ROW = 1 << 10
_SURE = 1 + 2.0**-13
_SAFE = 1e-20  # squares that float32 has lost are nothing compared with a sum of that size


def upload_layout(layout: Layout, grid: Grid) -> Layout:
    """Tensors of an upload: the model's, and the vote's where a quantile is tracked."""
    if not grid.vote:
        return layout
    return Layout((*layout.names, QUANTILE_TENSOR), (*layout.shapes, (1,)))


def quantise(grid: Grid, update: np.ndarray, random: Random, rates: Rates = ()) -> np.ndarray:
    """Clip an update and round it to the grid, at random and without bias; no noise yet.

    Parameters
    ----------
    update : float32 array of shape (d,)
        Δw. One that is not finite counts as zero.
    random : Random
        Of the rounding. The sensitivity holds for any outcome, so nothing depends on its quality but the bias.
    rates : sequence of (float or None)
        What the client measured, ``grid.rates`` of them; none at all: it measured nothing.

    Returns
    -------
    uint32 array of shape (grid.length,), little-endian
        Modulo 2³², at most Δ from the words of an update of zeros with nothing measured, and from no words at all,
        whatever the update and the rates.
    """
    check_update(update, grid.parameters)
    norm = _norm(update)
    words = np.empty(grid.length, WORD)
    units, scale = words.view(_SIGNED)[: grid.parameters], clip_factor(norm, grid.clip) / grid.unit
    if not scale:
        units[:] = 0
    while scale and _round(update, scale, random, units) * _SURE > grid.max_squares < _exact_squares(units):
        scale *= 0.99  # the reserve makes this rarer than one in a million
    if grid.vote:
        words.view(_SIGNED)[grid.parameters] = grid.vote if norm <= grid.clip else -grid.vote
    if grid.rates:
        words[-grid.rates :] = rate_words(grid, rates, random)
    return words


def rate_words(grid: Grid, rates: Rates, random: Random) -> np.ndarray:
    """Rates as words, rounded at random and without bias; no noise yet.

    Parameters
    ----------
    rates : sequence of (float or None)
        ``grid.rates`` of them, or none at all. Rates beyond [0, 1] count as its end; None, and anything that is no
        number, as nothing measured.

    Returns
    -------
    uint32 array of shape (grid.rates,)
        Modulo 2³², from −e to e; 0 where nothing was measured.
    """
    if rates and len(rates) != grid.rates:
        raise ValueError(f"there are {len(rates)} rates, but an upload tells {grid.rates}")
    words = np.zeros(grid.rates, WORD)
    for place, rate in enumerate(rates):
        offset = (int.from_bytes(random(2), "little") + 0.5) / 2**16
        if rate is not None and not math.isnan(rate):
            words.view(_SIGNED)[place] = math.floor(grid.rate * (2 * min(max(rate, 0.0), 1.0) - 1) + offset)
    return words


def fill_up(grid: Grid, words: np.ndarray, survivors: int, key: bytes) -> None:
    """Add the noise of those who dropped out, so that the noise of a sum does not reveal how many were to upload.

    Parameters
    ----------
    words : uint32 array of shape (grid.length,)
        The sum of the survivors' uploads; changed in place, the same on every machine.
    key : bytes
        32 bytes that follow from the ledger's records and from nothing else. Whoever can read them takes this noise off
        again, and knows who took part anyway.
    """
    missing = (grid.sharers - survivors) * grid.share_variance
    if missing:
        add_repeatable_noise(words, missing, key)


def decode_rates(grid: Grid, words: np.ndarray, divisor: float) -> tuple[float, ...]:
    """The mean of each rate, with its noise, maybe not in [0, 1]; who measured nothing, or is missing, counts as 1/2.

    Parameters
    ----------
    words : uint32 array of shape (grid.rates,)
        The rates' words of a sum modulo 2³².
    """
    return tuple(0.5 + word / (2 * grid.rate) / divisor for word in words.view(_SIGNED).tolist())


def decode_sum(grid: Grid, words: np.ndarray, divisor: float) -> tuple[np.ndarray, float | None]:
    """Decoded sum of uploads.

    Parameters
    ----------
    words : uint32 array of shape (grid.length,), or without the rates
        The sum modulo 2³².
    divisor : float
        m: see ``ClientLevelRound.divisor``.

    Returns
    -------
    float32 array of shape (d,)
        The mean update, with its noise; the same bytes on every machine.
    float or None
        b̃, the noisy fraction of updates with a norm of at most S, where a quantile is tracked; maybe not in [0, 1].
    """
    units = words.view(_SIGNED)
    mean = (units[: grid.parameters] * (grid.unit / divisor)).astype(np.float32)
    below = 0.5 + int(units[grid.parameters]) / (2 * grid.vote) / divisor if grid.vote else None
    return mean, below


@dataclass(frozen=True)
class ClientLevelRound(RoundTerms):
    """One round, and what its sums say."""

    def divisor(self, survivors: int) -> float:
        """m_t of algorithm 1.

        Where everybody knows who took part it is the number of survivors. Where that is to stay secret it is the number
        of clients that are expected, as the real one depends on who was drawn (McMahan et al. 2018).
        """
        return float(survivors) if self.settings.participation == "public" else self.clients * self.rate

    def rate_deviation(self, survivors: int) -> float:
        """The standard deviation of a decoded rate from the mean of the clients' rates, at most.

        Where participation is secret, it counts in that more or fewer may be drawn than are expected, as the divisor is
        not their number.
        """
        divisor, secret = self.divisor(survivors), self.settings.participation == "secret"
        shares = self.sharers if secret else survivors  # what dropped out is filled up
        noise = math.sqrt(shares * self.grid.share_variance) / (2 * self.grid.rate * divisor)
        return math.hypot(noise, math.sqrt((1 - self.rate) / divisor) / 2) if secret else noise

    def decode(self, words: np.ndarray, survivors: int) -> tuple[np.ndarray, ClientLevelRecord]:
        """The mean update, float32 (d,), of a sum of this many uploads, and what was released; ε is left open."""
        mean, below = decode_sum(self.grid, words, self.divisor(survivors))
        return mean, self.record(survivors, below)

    def record(self, survivors: int, below: float | None) -> ClientLevelRecord:
        """What was released by a sum in which the fraction ``below`` of the norms, if any, was at most S."""
        grid = self.grid
        return ClientLevelRecord(
            epsilon=None,
            ledger_epsilon=None,
            delta=self.settings.delta,
            noise_multiplier=grid.noise_multiplier,
            clip=grid.clip,
            clients=self.clients,
            rate=self.rate,
            sharers=grid.sharers,
            needed=grid.needed,
            survivors=survivors,
            effective_multiplier=grid.multiplier_of(survivors),
            below=below,
            next_clip=grid.clip if below is None else next_clip(grid.clip, below, self.settings),
        )


@dataclass(frozen=True)
class ClientLevelSum(Mechanism):
    """The uploads of one round, and the mean update behind their sum.

    What ``encode`` gives has no noise yet: in a federation each client adds its share, in a simulation the sum gets
    those of all at once.
    """

    layout: Layout
    round: ClientLevelRound

    @property
    def length(self) -> int:
        return self.round.grid.length

    def encode(
        self, trained: np.ndarray, start: Start, weight: Weight, random: Random, rates: Rates = ()
    ) -> np.ndarray:
        if not self.round.trains:
            return rate_words(self.round.grid, rates, random)
        return quantise(self.round.grid, self.change(trained, start), random, rates)

    def add_noise(self, words: np.ndarray, random: Random, shares: int = 1) -> None:
        """Add this many clients' shares of the noise to words, in place.

        Each call draws new noise; who sees an upload twice, with other noise, sees it with half the variance. So a
        client keeps the bytes of its upload.
        """
        add_noise(words, shares * self.round.grid.share_variance, random)

    def mean(self, words: np.ndarray, start: Start, weight: Weight) -> np.ndarray:
        return self.close(words, start, weight.samples)[0]

    def close(self, words: np.ndarray, start: Start, survivors: int) -> tuple[np.ndarray, ClientLevelRecord]:
        """The next model, float32 (d,), of a sum of this many uploads, and what was released; ε is left open."""
        vector, stated = self.round.decode(words, survivors)
        add(vector, start())
        return vector, stated


def between_clients_variance(total: np.ndarray, squares: float, clients: int) -> float:
    """V_c: the variance of a parameter's update over the clients, averaged over the parameters.

    Parameters
    ----------
    total : float64 array
        Σ Δw_k, of one tensor or the whole update.
    squares : float
        Σ ‖Δw_k‖².
    clients : int
        How many were summed.
    """
    return squares / clients / total.size - update_scale(total, clients)


def update_scale(total: np.ndarray, clients: int) -> float:
    """U_s: the square of a parameter's mean update, averaged over the parameters."""
    mean = total.ravel() / clients
    return float(np.square(mean).sum()) / mean.size  # with BLAS the last digits follow its threads


def _round(update: np.ndarray, scale: float, random: Random, out: np.ndarray) -> float:
    """Write ⌊scale·w + u⌋ with u uniform in (0, 1); return ``_squares`` of it.

    The u of neighbours depend on each other, and all the less do sums of many.
    """
    squares, factor, size = 0.0, np.float32(scale), min(_CHUNK, len(update))
    buffer, offsets = np.empty(size, np.float32), np.frombuffer(random(2 * -(-len(update) // _CHUNK)), "<u2")
    for offset, start in zip(offsets.tolist(), range(0, len(update), _CHUNK), strict=True):
        part = update[start : start + _CHUNK]
        value = buffer[: len(part)]
        np.multiply(part, factor, out=value)
        np.add(value, _dither()[offset : offset + len(part)], out=value)
        np.floor(value, out=value)
        squares += _squares(value)
        out[start : start + len(part)] = value
    return squares


@lru_cache(maxsize=1)
def _dither() -> np.ndarray:
    """Uniform numbers to be read from a place drawn at random: float32 (2¹⁷,), with a period of 2¹⁶.

    A period has the middle of each 2¹⁶th of (0, 1) once, in the order of multiples of 40503/2¹⁶, which is near the
    golden ratio, so that any run of them is spread evenly.
    """
    return ((np.arange(2 * _CHUNK) * 40503 % 2**16 + 0.5) / 2**16).astype(np.float32)


def _norm(update: np.ndarray) -> float:
    """‖w‖₂ to within 2⁻¹³, infinite when a value is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = sum(_squares(update[start : start + _CHUNK]) for start in range(0, len(update), _CHUNK))
    return math.sqrt(squares) if _SAFE < squares < math.inf else l2_norm(update)


def _squares(values: np.ndarray) -> float:
    """Σ v² of float32 values, to within 2⁻¹³: rows of 1024 are summed in float32, which errs by 1024·2⁻²⁴ at most."""
    rows = values[: len(values) // _ROW * _ROW].reshape(-1, _ROW)
    rest = values[rows.size :]
    return float(np.vecdot(rows, rows).sum(dtype=np.float64)) + float(np.vecdot(rest, rest))


def _exact_squares(units: np.ndarray) -> float:
    """Σ z², exact below 2⁵³ and too large for every limit above."""
    parts = (units[start : start + _ROW].astype(np.float64) for start in range(0, len(units), _ROW))
    return sum(float(part @ part) for part in parts)
