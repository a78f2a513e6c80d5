"""Masking and unmasking, compared with raw AES-CTR of the same bytes and, where installed, Flower's SecAgg+."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

import numpy as np

from fedgrove.common.errors import RunFailed
from fedgrove.node.masking.client import seal_shares
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, partners_of_all
from fedgrove.node.masking.prg import keystream
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.sealing import shares_bytes
from fedgrove_lab.bench.flower import FLOWER_VARIABLE, ask_flower
from fedgrove_lab.bench.masking_round import CLIENTS, DROPOUTS, DrawnClients, MaskingRound, model
from fedgrove_lab.bench.rows import BenchResult, BenchRow

_REPEATS = 5
_MANY = 1000
_SERVED = f"{CLIENTS} clients, {DROPOUTS} dropouts"
_PIECE = 1 << 20  # bytes, as the store streams its blocks
_FLOWER = "Flower SecAgg+"
_FLOWER_SCRIPT = "bench_flower_secagg.py"
_FLOWER_SECONDS = 900

Result = TypeVar("Result")


def run(parameters: int = 1_600_000) -> BenchResult:
    """Measure.

    Parameters
    ----------
    parameters : int
        d, of the model.

    Client figures are the best of five runs on one core: with the seven partners that the cooperation tree gives one of
    100 clients, as Flower's are, and with the partners of the default terms at 100 and at 1,000 clients. The server's
    are one run of a round of 100 clients, 10 of whom drop out after they shared: recovery of all secrets, the sum, and
    taking the masks off.
    """
    thin = MaskingRound.make(parameters)
    client, raw = _mask_seconds(thin.drawn, parameters)
    rows = [
        _row("client: mask, 7 partners", client, "s", raw, "raw AES-CTR of the same bytes"),
        _goal("client: goal", 0.25, client),
    ]
    for clients in (CLIENTS, _MANY):
        rows += _default_rows(clients, parameters)
    releases = thin.releases()
    recovery, record = _timed(lambda: thin.recovered(releases))
    summing = _server_seconds(thin, record)
    usual = MaskingRound(DrawnClients.make(CLIENTS, partners_of_all(CLIENTS, DEFAULT_ASSUMED)), *model(parameters), {})
    usual_summing = _server_seconds(usual, usual.true_record())
    published = 4 * parameters + len(thin.blobs[thin.typical]) + len(releases[thin.typical])
    rows += [
        _row("client: upload", published, "bytes", 4 * parameters, "4 bytes a parameter"),
        BenchRow("server: recover secrets", recovery, "s", _SERVED),
        BenchRow("server: sum and unmask, 7 partners", summing, "s", _SERVED),
        BenchRow("server: sum and unmask, default terms", usual_summing, "s", _SERVED),
        _goal("server: goal", 6.0, recovery + usual_summing),
        _row("server: peak memory", _peak_bytes(thin, record), "bytes", 4 * parameters, "one model"),
    ]
    flower = flower_rows(thin, thin.typical, client, recovery + summing)
    return BenchResult((*rows, *flower), {"parameters": parameters})


def _default_rows(clients: int, parameters: int) -> list[BenchRow]:
    """Cost of the default terms to a client in a round of this many: its masks, and the shares of its secrets."""
    drawn = DrawnClients.make(clients, partners_of_all(clients, DEFAULT_ASSUMED))
    masking, raw = _mask_seconds(drawn, parameters)
    graph, position = drawn.graph, drawn.typical
    (sealing,) = _best(lambda: seal_shares(graph, position, drawn.secrets[position], Random(0).randbytes))
    note = f"default terms, {clients:,} clients"
    holders = f"{len(graph.holders[position])} holders"
    recovering = f"{graph.threshold} of them recover a secret"
    return [
        _row(f"client: mask, {drawn.partners} partners", masking, "s", raw, f"raw AES-CTR; {note}"),
        BenchRow(f"client: seal shares, {holders}", sealing, "s", note),
        BenchRow(f"client: shares, {holders}", shares_bytes(graph, position), "bytes", recovering),
    ]


def _mask_seconds(drawn: DrawnClients, parameters: int) -> tuple[float, ...]:
    """Seconds to mask an update, and of raw AES-CTR of the same bytes."""
    layout, vector = model(parameters)
    return _best(
        lambda: drawn.masked(drawn.typical, vector, layout), lambda: _raw_aes_ctr(4 * parameters, drawn.partners + 1)
    )


def _server_seconds(bench: MaskingRound, record: RecoveryRecord) -> float:
    """Seconds to sum 90 updates and unmask the sum; making the updates is not counted. Checks the result."""
    seconds, aggregate = _timed(lambda: bench.aggregate(record))
    for position in bench.survivors:
        data = bench.masked(position).tobytes()
        seconds += _timed(lambda position=position, data=data: aggregate.add(position, _chunks(data)))[0]
    closing, mean = _timed(aggregate.close)
    if np.abs(mean - bench.vector).max() > 1e-6:
        raise AssertionError("the unmasked mean of equal models is not that model")
    return seconds + closing


def _peak_bytes(bench: MaskingRound, record: RecoveryRecord) -> int:
    """Most memory that the server holds while it sums and unmasks, in addition to the chunks it is fed."""
    data = bytes(4 * len(bench.vector))
    tracemalloc.start()
    try:
        aggregate = bench.aggregate(record)
        for position in bench.survivors:
            aggregate.add(position, _chunks(data))
        aggregate.close()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _chunks(data: bytes) -> Iterator[bytes]:
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


def _raw_aes_ctr(size: int, streams: int) -> None:
    """AES-256-CTR key streams of ``size`` bytes, in chunks that stay in the cache, and nothing else."""
    zeros = memoryview(bytes(1 << 16))
    out = bytearray(len(zeros) + 15)
    for number in range(streams):
        cipher = keystream(number.to_bytes(32))
        for start in range(0, size, len(zeros)):
            cipher.update_into(zeros[: min(len(zeros), size - start)], out)


def flower_rows(bench: MaskingRound, position: int, client: float, server: float) -> list[BenchRow]:
    """Flower's figures for the same neighbours and dropouts, or how to get them."""
    shape = {
        "parameters": len(bench.vector),
        "neighbours": bench.graph.neighbours,
        "dropouts": [p for p in range(CLIENTS) if p not in bench.survivors],
        "client": position,
        "repeats": _REPEATS,
    }
    try:
        figures = ask_flower(_FLOWER_SCRIPT, shape, _FLOWER_SECONDS)
    except RunFailed as fault:
        return [BenchRow(_FLOWER, "failed", note=f"check {FLOWER_VARIABLE}: {fault}")]
    if figures is None:
        hint = f"pip install flwr in an environment of its own, then set {FLOWER_VARIABLE} to its python"
        return [BenchRow(_FLOWER, "not measured", note=hint)]
    name = f"{_FLOWER} {figures['version']}"
    return [
        _flower_row(f"{name}: client", figures["client"], client),
        _flower_row(f"{name}: server", figures["server"], server),
        BenchRow(f"{name}: upload", figures["upload"], "bytes", "the masked vector as sent"),
    ]


def _flower_row(name: str, theirs: float, ours: float) -> BenchRow:
    return BenchRow(name, theirs, "s", f"{theirs / ours:.1f} times fedgrove's")


def _goal(name: str, goal: float, value: float) -> BenchRow:
    return BenchRow(name, goal, "s", "met" if value <= goal else "missed")


def _row(name: str, value: float, unit: str, limit: float, limit_name: str) -> BenchRow:
    return BenchRow(name, value, unit, limit=limit, limit_name=limit_name, ratio=round(value / limit, 3))


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _best(*works: Callable[[], object]) -> tuple[float, ...]:
    """Shortest time of each, in turns, so that all see the same machine."""
    runs = [[_timed(work)[0] for work in works] for _ in range(_REPEATS)]
    return tuple(map(min, zip(*runs, strict=True)))
