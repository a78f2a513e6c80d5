"""Masking and unmasking, compared with raw AES-CTR of the same bytes and, where installed, Flower's SecAgg+."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from statistics import median_low

import numpy as np

from fedgrove.common.errors import RunFailed
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate
from fedgrove.node.masking.client import seal_shares
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, partners_of_all
from fedgrove.node.masking.prg import keystream
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.sealing import shares_bytes
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove_lab.bench.flower import FLOWER_VARIABLE, ask_flower
from fedgrove_lab.bench.rows import BenchResult, BenchRow, least, timed
from fedgrove_lab.masked_round import MaskedRound

CLIENTS, DROPOUTS = 100, 10
SURVIVORS = range(CLIENTS - DROPOUTS)
BOUND = 8.0

_REPEATS = 5
_MANY = 1000
_SERVED = f"{CLIENTS} clients, {DROPOUTS} dropouts"
_PIECE = 1 << 20  # bytes, as the store streams its blocks
_FLOWER = "Flower SecAgg+"
_FLOWER_SCRIPT = "bench_flower_secagg.py"
_FLOWER_SECONDS = 900


@dataclass(frozen=True)
class MeasuredRound(MaskedRound):
    """A round up to recovery; of 100 clients the last 10 share and do not commit."""

    @classmethod
    def make(cls, clients: int = CLIENTS, degree: int = 0) -> "MeasuredRound":
        """Partners of the cooperation tree, and ``degree`` random ones; holders and threshold by the default terms."""
        return cls.draw([100] * clients, Random(0).randbytes, degree=degree)

    @cached_property
    def typical(self) -> int:
        """A client with a typical number of partners."""
        usual = median_low(len(own) for own in self.graph.neighbours)
        return next(p for p, own in enumerate(self.graph.neighbours) if len(own) == usual)

    @property
    def partners(self) -> int:
        """Of the typical client."""
        return len(self.graph.neighbours[self.typical])

    @cached_property
    def blobs(self) -> dict[int, bytes]:
        """The clients' sealed shares."""
        return self.sealed(Random(1).randbytes)

    def true_record(self) -> RecoveryRecord:
        """What ``recovered`` would return, from the secrets themselves."""
        needed = needed_secrets(self.graph, range(self.graph.n), SURVIVORS)
        seeds = {p: self.secrets[p].self_seed for p in needed.seeds}
        return RecoveryRecord(needed.transcript, seeds, {p: self.secrets[p].mask_secret for p in needed.keys})

    def aggregate(self, record: RecoveryRecord, layout: Layout) -> Aggregate:
        """The server's sum of the survivors' uploads."""
        return Aggregate(self.graph, range(self.graph.n), SURVIVORS, record, layout, BOUND)


def model(parameters: int) -> tuple[Layout, np.ndarray]:
    """A model of one tensor, and weights of it."""
    vector = np.random.default_rng(0).normal(0, 0.1, parameters).astype(np.float32)
    return Layout(("model",), ((parameters,),)), vector


def run(parameters: int = 1_600_000) -> BenchResult:
    """Measure with a model of this many parameters.

    Client figures are the best of five runs on one core: with the seven partners that the cooperation tree gives one of
    100 clients, as Flower's are, and with the partners of the default terms at 100 and at 1,000 clients. The server's
    are one run of a round of 100 clients, 10 of whom drop out after they shared: recovery of all secrets, the sum, and
    taking the masks off.
    """
    thin = MeasuredRound.make()
    client, raw = _mask_seconds(thin, parameters)
    rows = [
        BenchRow.compared("client: mask, 7 partners", client, "s", raw, "raw AES-CTR of the same bytes"),
        BenchRow.goal("client: goal", 0.25, client, "s"),
    ]
    for clients in (CLIENTS, _MANY):
        rows += _default_rows(clients, parameters)
    releases = thin.releases(thin.blobs, SURVIVORS)
    recovery, record = timed(lambda: thin.recovered(thin.blobs, SURVIVORS, releases))
    summing = _server_seconds(thin, record, parameters)
    usual = MeasuredRound.make(CLIENTS, partners_of_all(CLIENTS, DEFAULT_ASSUMED))
    usual_summing = _server_seconds(usual, usual.true_record(), parameters)
    published = 4 * parameters + len(thin.blobs[thin.typical]) + len(releases[thin.typical])
    rows += [
        BenchRow.compared("client: upload", published, "bytes", 4 * parameters, "4 bytes a parameter"),
        BenchRow("server: recover secrets", recovery, "s", _SERVED),
        BenchRow("server: sum and unmask, 7 partners", summing, "s", _SERVED),
        BenchRow("server: sum and unmask, default terms", usual_summing, "s", _SERVED),
        BenchRow.goal("server: goal", 6.0, recovery + usual_summing, "s"),
        BenchRow.compared(
            "server: peak memory", _peak_bytes(thin, record, parameters), "bytes", 4 * parameters, "one model"
        ),
    ]
    flower = flower_rows(thin, parameters, client, recovery + summing)
    return BenchResult((*rows, *flower), {"parameters": parameters})


def _default_rows(clients: int, parameters: int) -> list[BenchRow]:
    """Cost of the default terms to a client in a round of this many: its masks, and the shares of its secrets."""
    drawn = MeasuredRound.make(clients, partners_of_all(clients, DEFAULT_ASSUMED))
    masking, raw = _mask_seconds(drawn, parameters)
    graph, position = drawn.graph, drawn.typical
    (sealing,) = least(
        lambda: seal_shares(graph, position, drawn.secrets[position], Random(0).randbytes), repeats=_REPEATS
    )
    note = f"default terms, {clients:,} clients"
    holders = f"{len(graph.holders[position])} holders"
    recovering = f"{graph.threshold} of them recover a secret"
    return [
        BenchRow.compared(f"client: mask, {drawn.partners} partners", masking, "s", raw, f"raw AES-CTR; {note}"),
        BenchRow(f"client: seal shares, {holders}", sealing, "s", note),
        BenchRow(f"client: shares, {holders}", shares_bytes(graph, position), "bytes", recovering),
    ]


def _mask_seconds(drawn: MeasuredRound, parameters: int) -> tuple[float, ...]:
    """Seconds to mask an update, and of raw AES-CTR of the same bytes."""
    layout, vector = model(parameters)
    return least(
        lambda: drawn.masked(drawn.typical, vector, layout, BOUND),
        lambda: _raw_aes_ctr(4 * parameters, drawn.partners + 1),
        repeats=_REPEATS,
    )


def _server_seconds(bench: MeasuredRound, record: RecoveryRecord, parameters: int) -> float:
    """Seconds to sum 90 updates and unmask the sum; making the updates is not counted. Checks the result."""
    layout, vector = model(parameters)
    seconds, aggregate = timed(lambda: bench.aggregate(record, layout))
    for position in SURVIVORS:
        data = bench.masked(position, vector, layout, BOUND).tobytes()
        seconds += timed(lambda position=position, data=data: aggregate.add(position, _chunks(data)))[0]
    closing, mean = timed(aggregate.close)
    if np.abs(mean - vector).max() > 1e-6:
        raise AssertionError("the unmasked mean of equal models is not that model")
    return seconds + closing


def _peak_bytes(bench: MeasuredRound, record: RecoveryRecord, parameters: int) -> int:
    """Most memory that the server holds while it sums and unmasks, in addition to the chunks it is fed."""
    data, (layout, _) = bytes(4 * parameters), model(parameters)
    tracemalloc.start()
    try:
        aggregate = bench.aggregate(record, layout)
        for position in SURVIVORS:
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


def flower_rows(bench: MeasuredRound, parameters: int, client: float, server: float) -> list[BenchRow]:
    """Flower's figures for the same neighbours and dropouts, or how to get them."""
    shape = {
        "parameters": parameters,
        "neighbours": bench.graph.neighbours,
        "dropouts": [p for p in range(CLIENTS) if p not in SURVIVORS],
        "client": bench.typical,
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
