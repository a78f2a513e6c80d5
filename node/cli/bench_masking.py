"""Figures of masking and unmasking, beside raw AES-CTR of the same bytes and, where installed, Flower's SecAgg+."""

import json
import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from chain import tree
from node.masking.aggregate import Aggregate
from node.masking.client import RoundSecrets, mask_update, seal_shares
from node.masking.context import Participant, RoundContext
from node.masking.graph import MaskGraph, build_graph
from node.masking.prg import keystream
from node.masking.recovery import RecoveryRecord, recover
from node.masking.release import held_shares, release
from node.tensors import Layout

FLOWER_VARIABLE = "FEDGROVE_FLOWER_PYTHON"

_CLIENTS, _DROPOUTS, _PARTNERS, _BOUND, _REPEATS = 100, 10, 7, 8.0, 5
_PIECE = 1 << 20  # bytes, as the store streams its blocks
_FLOWER_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_flower_secagg.py"
_FLOWER_SECONDS = 900


@dataclass(frozen=True)
class MaskingRound:
    """One round up to recovery: 100 clients, of whom the last 10 share but do not commit."""

    graph: MaskGraph
    secrets: list[RoundSecrets]
    layout: Layout
    vector: np.ndarray
    blobs: dict[int, bytes]

    @classmethod
    def make(cls, parameters: int) -> "MaskingRound":
        random = Random(0).randbytes
        secrets = [RoundSecrets.generate(random) for _ in range(_CLIENTS)]
        participants = [Participant(p, p + 1, 100, own.mask_key, own.seal_key) for p, own in enumerate(secrets)]
        partners = [tree.partners(position, _CLIENTS) for position in range(_CLIENTS)]
        graph = build_graph(RoundContext(1, "0x" + "11" * 20, 1), participants, partners, seed=bytes(32))
        blobs = {p: seal_shares(graph, p, own, random) for p, own in enumerate(secrets)}
        vector = np.random.default_rng(0).normal(0, 0.1, parameters).astype(np.float32)
        return cls(graph, secrets, Layout(("model",), ((parameters,),)), vector, blobs)

    @property
    def typical(self) -> int:
        """The position of a client with seven partners."""
        return next(p for p, own in enumerate(self.graph.neighbours) if len(own) == _PARTNERS)

    @property
    def survivors(self) -> range:
        return range(_CLIENTS - _DROPOUTS)

    def masked(self, position: int) -> np.ndarray:
        return mask_update(
            self.graph, position, self.secrets[position], self.blobs, self.vector, self.layout, bound=_BOUND
        )

    def releases(self) -> dict[int, bytes]:
        held = {p: held_shares(self.graph, p, self.secrets[p], self.blobs) for p in self.survivors}
        return {p: release(self.graph, p, held[p], self.blobs, self.survivors, committed=True) for p in self.survivors}

    def recovered(self, releases: dict[int, bytes]) -> RecoveryRecord:
        hashes = {p: self.secrets[p].seed_hash for p in self.survivors}
        return recover(self.graph, self.blobs, self.survivors, hashes, releases)

    def aggregate(self, record: RecoveryRecord) -> Aggregate:
        return Aggregate(self.graph, self.blobs, self.survivors, record, self.layout, _BOUND)


def run(parameters: int = 1_600_000) -> dict:
    """Measure and return ``{"parameters", "rows": [{"name", "value", "unit", …}, ...]}``.

    Parameters
    ----------
    parameters : int
        d, of the model.

    Client figures are the best of five runs on one core, with seven partners. The server's are one run of a round of
    100 clients, 10 of whom drop out after they shared: recovery of all secrets, the sum, and taking the masks off.
    """
    bench = MaskingRound.make(parameters)
    position = bench.typical
    client, raw = _best(lambda: bench.masked(position), lambda: _raw_aes_ctr(4 * parameters, _PARTNERS + 1))
    releases = bench.releases()
    recovery, record = _timed(lambda: bench.recovered(releases))
    summing = _server_seconds(bench, record)
    peak = _peak_bytes(bench, record)
    upload = 4 * parameters + len(bench.blobs[position]) + len(releases[position])
    rows = [
        _row("client: mask, 7 partners", client, "s", raw, "raw AES-CTR of the same bytes"),
        {"name": "client: goal", "value": 0.25, "unit": "s", "beside": "met" if client <= 0.25 else "missed"},
        _row("client: upload", upload, "bytes", 4 * parameters, "4 bytes a parameter"),
        {"name": "server: recover secrets", "value": recovery, "unit": "s", "beside": "100 clients, 10 dropouts"},
        {"name": "server: sum and unmask", "value": summing, "unit": "s", "beside": "100 clients, 10 dropouts"},
        {"name": "server: goal", "value": 6.0, "unit": "s", "beside": "met" if recovery + summing <= 6 else "missed"},
        _row("server: peak memory", peak, "bytes", 4 * parameters, "one model"),
    ]
    return {"parameters": parameters, "rows": rows + _flower_rows(bench, position, client, recovery + summing)}


def _server_seconds(bench: MaskingRound, record: RecoveryRecord) -> float:
    """Seconds to sum 90 updates and unmask the sum; making the updates is not counted. Checks the result."""
    seconds, aggregate = _timed(lambda: bench.aggregate(record))
    for position in bench.survivors:
        data = bench.masked(position).tobytes()
        seconds += _timed(lambda position=position, data=data: aggregate.add(position, _pieces(data)))[0]
    closing, mean = _timed(aggregate.close)
    if np.abs(mean - bench.vector).max() > 1e-6:
        raise AssertionError("the unmasked mean of equal models is not that model")
    return seconds + closing


def _peak_bytes(bench: MaskingRound, record: RecoveryRecord) -> int:
    """Most memory that the server holds while it sums and unmasks, besides the pieces it is fed."""
    data = bytes(4 * len(bench.vector))
    tracemalloc.start()
    try:
        aggregate = bench.aggregate(record)
        for position in bench.survivors:
            aggregate.add(position, _pieces(data))
        aggregate.close()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _pieces(data: bytes):
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


def _raw_aes_ctr(size: int, streams: int) -> None:
    """AES-256-CTR key streams of ``size`` bytes, in pieces that stay in the cache, and nothing else."""
    zeros = memoryview(bytes(1 << 16))
    out = bytearray(len(zeros) + 15)
    for number in range(streams):
        cipher = keystream(number.to_bytes(32))
        for start in range(0, size, len(zeros)):
            cipher.update_into(zeros[: min(len(zeros), size - start)], out)


def _flower_rows(bench: MaskingRound, position: int, client: float, server: float) -> list[dict]:
    """Flower's figures for the same neighbours and dropouts, or how to get them."""
    python = os.environ.get(FLOWER_VARIABLE)
    name = "Flower SecAgg+"
    if not python:
        hint = f"pip install flwr in an environment of its own, then set {FLOWER_VARIABLE} to its python"
        return [{"name": name, "value": "not measured", "beside": hint}]
    shape = {
        "parameters": len(bench.vector),
        "neighbours": bench.graph.neighbours,
        "dropouts": [p for p in range(_CLIENTS) if p not in bench.survivors],
        "client": position,
        "repeats": _REPEATS,
    }
    try:
        result = subprocess.run(
            [python, str(_FLOWER_SCRIPT)],
            input=json.dumps(shape),
            capture_output=True,
            text=True,
            timeout=_FLOWER_SECONDS,
            check=True,
        )
        figures = json.loads(result.stdout)
    except subprocess.CalledProcessError as failure:
        lines = failure.stderr.strip().splitlines() or ["no message"]
        return [{"name": name, "value": "failed", "beside": f"check {FLOWER_VARIABLE}: {lines[-1]}"}]
    except (OSError, subprocess.TimeoutExpired, ValueError) as failure:
        return [{"name": name, "value": "failed", "beside": f"check {FLOWER_VARIABLE}: {failure}"}]
    name += f" {figures['version']}"
    return [
        _flower_row(f"{name}: client", figures["client"], client),
        _flower_row(f"{name}: server", figures["server"], server),
        {"name": f"{name}: upload", "value": figures["upload"], "unit": "bytes", "beside": "the masked vector as sent"},
    ]


def _flower_row(name: str, theirs: float, ours: float) -> dict:
    return {"name": name, "value": theirs, "unit": "s", "beside": f"{theirs / ours:.1f} times fedgrove's"}


def _row(name: str, value: float, unit: str, limit: float, limit_name: str) -> dict:
    rounded = round(limit, 5)
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "limit": rounded,
        "limit_name": limit_name,
        "ratio": round(value / limit, 3),
    }


def _timed(work: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _best(*works: Callable[[], object]) -> tuple[float, ...]:
    """Shortest time of each, in turns, so that all see the same machine."""
    runs = [[_timed(work)[0] for work in works] for _ in range(_REPEATS)]
    return tuple(map(min, zip(*runs, strict=True)))
