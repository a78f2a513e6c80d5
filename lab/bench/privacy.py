"""What client-level privacy costs a client in the ring, compared with its masks of the same run."""

import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.client import RoundSecrets, mask_words, seal_shares
from fedgrove.node.masking.graph import build_graph
from fedgrove.node.masking.release import held_shares, release
from fedgrove.node.masking.ring import encode
from fedgrove.node.privacy.client_level import quantise
from fedgrove.node.privacy.discrete import add_noise, discrete_gaussian
from fedgrove.node.privacy.grid import Grid, RoundTerms
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove_lab.bench.masking import BOUND, SURVIVORS, MeasuredRound, model
from fedgrove_lab.bench.rows import BenchResult, BenchRow, least, timed

_REPEATS = 9
_MEMBERS, _RATE = 1000, 0.1
_GOAL = 0.2


def run(parameters: int = 1_600_000) -> BenchResult:
    """Measure with a model of this many parameters.

    A round of 100 clients, seven partners each. CPU seconds of one client, the least of nine runs in turns, so that
    all see the same machine: what the round's masks cost it without privacy, and what clipping, rounding and noise add
    to the plain encoding that they replace. The noise's table is made once a round when the number of clients changes.
    """
    bench, (layout, vector) = MeasuredRound.make(), model(parameters)
    clients = bench.graph.n
    settings = ClientLevelSettings()
    grid = RoundTerms(settings, 1, parameters, 1.0, clients=_MEMBERS, rate=_RATE, sharers=clients).grid

    def plainly() -> np.ndarray:
        return encode(vector, layout, 100, 100 * clients, BOUND)

    def privately() -> None:
        add_noise(quantise(grid, vector, os.urandom), grid.share_variance, os.urandom)

    works = (plainly, privately, _masks(bench, plainly(), layout), _shared(bench))
    plain, private, streams, secrets = least(*works, repeats=_REPEATS, clock=time.process_time)
    extra, masking = private - plain, plain + streams + secrets
    rows = (
        _row("client: encoding without privacy", plain, "scaled and rounded to integers"),
        _row("client: masks, 7 partners", streams, "key agreement and AES-CTR streams"),
        _row("client: secrets of the round", secrets, "made, shared, opened, released; the mask graph"),
        _row("client: clipping, rounding, noise", private, "in place of the encoding"),
        _ratio("overhead over encoding and masks", extra, plain + streams),
        _ratio("overhead over all of a round's masking", extra, masking),
        BenchRow.goal("goal", _GOAL, extra / masking),
        _row("table of the noise", _table_seconds(grid), "once for each number of clients"),
    )
    return BenchResult(rows, {"parameters": parameters})


def _masks(bench: MeasuredRound, words: np.ndarray, layout: Layout) -> Callable[[], None]:
    """Lay the masks over one vector again and again: what it holds does not matter."""
    own = bench.secrets[bench.typical]
    return lambda: mask_words(bench.graph, bench.typical, own, bench.blobs, words, layout)


def _shared(bench: MeasuredRound) -> Callable[[], None]:
    """What else a round's masks ask of a client: make and share secrets, open and release those of others."""
    graph, position, blobs = bench.graph, bench.typical, bench.blobs
    own, context, participants = bench.secrets[position], graph.context, graph.participants

    def work() -> None:
        RoundSecrets.generate(os.urandom)
        build_graph(context, participants, graph.neighbours, seed=bytes(32))
        seal_shares(graph, position, own, os.urandom)
        release(graph, position, held_shares(graph, position, own, blobs), blobs, SURVIVORS, committed=True)

    return work


def _table_seconds(grid: Grid) -> float:
    others = (grid.share_variance + place for place in range(1, _REPEATS))  # tables that nobody has made before
    return min(timed(partial(discrete_gaussian, variance), time.process_time)[0] for variance in others)


def _row(name: str, value: float, note: str) -> BenchRow:
    return BenchRow(name, value, "s", note)


def _ratio(name: str, extra: float, whole: float) -> BenchRow:
    return BenchRow(name, round(extra / whole, 3), note=f"{extra:.4f} s of {whole:.4f} s")
