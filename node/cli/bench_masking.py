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
from statistics import median_low
from typing import TypeVar

import numpy as np
from fedgrove.chain import tree
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate
from fedgrove.node.masking.client import RoundSecrets, mask_update, seal_shares
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import MaskGraph, build_graph
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, partners_of_all
from fedgrove.node.masking.prg import keystream
from fedgrove.node.masking.recovery import RecoveryRecord, recover
from fedgrove.node.masking.release import held_shares, release
from fedgrove.node.masking.sealing import shares_bytes
from fedgrove.node.masking.survivors import needed_secrets

FLOWER_VARIABLE = "FEDGROVE_FLOWER_PYTHON"

_CLIENTS, _DROPOUTS, _BOUND, _REPEATS = 100, 10, 8.0, 5
_MANY = 1000
_SERVED = f"{_CLIENTS} clients, {_DROPOUTS} dropouts"
_PIECE = 1 << 20  # bytes, as the store streams its blocks
_FLOWER_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_flower_secagg.py"
_FLOWER_SECONDS = 900

Result = TypeVar("Result")


@dataclass(frozen=True)
class DrawnClients:
    """Clients of a round, who masks with whom, and one of them with a typical number of partners."""

    graph: MaskGraph
    secrets: list[RoundSecrets]
    typical: int

    @classmethod
    def make(cls, clients: int = _CLIENTS, degree: int = 0) -> "DrawnClients":
        """Partners of the cooperation tree, and ``degree`` random ones; holders and threshold by the default terms."""
        random = Random(0).randbytes
        secrets = [RoundSecrets.generate(random) for _ in range(clients)]
        participants = [Participant(p, p + 1, 100, own.mask_key, own.seal_key) for p, own in enumerate(secrets)]
        tree_partners = [tree.partners(position, clients) for position in range(clients)]
        context = RoundContext(1, "0x" + "11" * 20, 1)
        graph = build_graph(context, participants, tree_partners, degree=degree, seed=bytes(32))
        usual = median_low(len(own) for own in graph.neighbours)
        return cls(graph, secrets, next(p for p, own in enumerate(graph.neighbours) if len(own) == usual))

    @property
    def partners(self) -> int:
        """Of the typical client."""
        return len(self.graph.neighbours[self.typical])

    def masked(self, position: int, vector: np.ndarray, layout: Layout) -> np.ndarray:
        everybody = range(self.graph.n)
        return mask_update(self.graph, position, self.secrets[position], everybody, vector, layout, bound=_BOUND)


@dataclass(frozen=True)
class MaskingRound:
    """One round up to recovery: 100 clients, of whom the last 10 share but do not commit.

    ``blobs`` are the clients' sealed shares, where they are needed.
    """

    drawn: DrawnClients
    layout: Layout
    vector: np.ndarray
    blobs: dict[int, bytes]

    @classmethod
    def make(cls, parameters: int) -> "MaskingRound":
        """With the partners that the cooperation tree gives, seven each."""
        drawn, random = DrawnClients.make(), Random(1).randbytes
        blobs = {p: seal_shares(drawn.graph, p, own, random) for p, own in enumerate(drawn.secrets)}
        return cls(drawn, *model(parameters), blobs)

    @property
    def graph(self) -> MaskGraph:
        return self.drawn.graph

    @property
    def secrets(self) -> list[RoundSecrets]:
        return self.drawn.secrets

    @property
    def typical(self) -> int:
        return self.drawn.typical

    @property
    def survivors(self) -> range:
        return range(_CLIENTS - _DROPOUTS)

    def masked(self, position: int) -> np.ndarray:
        return self.drawn.masked(position, self.vector, self.layout)

    def releases(self) -> dict[int, bytes]:
        held = {p: held_shares(self.graph, p, self.secrets[p], self.blobs) for p in self.survivors}
        return {p: release(self.graph, p, held[p], self.blobs, self.survivors, committed=True) for p in self.survivors}

    def recovered(self, releases: dict[int, bytes]) -> RecoveryRecord:
        hashes = {p: self.secrets[p].seed_hash for p in self.survivors}
        return recover(self.graph, self.blobs, self.survivors, hashes, releases, self.blobs)

    def true_record(self) -> RecoveryRecord:
        """What ``recovered`` would return, from the secrets themselves."""
        needed = needed_secrets(self.graph, range(_CLIENTS), self.survivors)
        seeds = {p: self.secrets[p].self_seed for p in needed.seeds}
        return RecoveryRecord(needed.transcript, seeds, {p: self.secrets[p].mask_secret for p in needed.keys})

    def aggregate(self, record: RecoveryRecord) -> Aggregate:
        return Aggregate(self.graph, range(_CLIENTS), self.survivors, record, self.layout, _BOUND)


def run(parameters: int = 1_600_000) -> dict:
    """Measure and return ``{"parameters", "rows": [{"name", "value", "unit", …}, ...]}``.

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
    for clients in (_CLIENTS, _MANY):
        rows += _default_rows(clients, parameters)
    releases = thin.releases()
    recovery, record = _timed(lambda: thin.recovered(releases))
    summing = _server_seconds(thin, record)
    usual = MaskingRound(
        DrawnClients.make(_CLIENTS, partners_of_all(_CLIENTS, DEFAULT_ASSUMED)), *model(parameters), {}
    )
    usual_summing = _server_seconds(usual, usual.true_record())
    published = 4 * parameters + len(thin.blobs[thin.typical]) + len(releases[thin.typical])
    rows += [
        _row("client: upload", published, "bytes", 4 * parameters, "4 bytes a parameter"),
        {"name": "server: recover secrets", "value": recovery, "unit": "s", "beside": _SERVED},
        {"name": "server: sum and unmask, 7 partners", "value": summing, "unit": "s", "beside": _SERVED},
        {"name": "server: sum and unmask, default terms", "value": usual_summing, "unit": "s", "beside": _SERVED},
        _goal("server: goal", 6.0, recovery + usual_summing),
        _row("server: peak memory", _peak_bytes(thin, record), "bytes", 4 * parameters, "one model"),
    ]
    flower = flower_rows(thin, thin.typical, client, recovery + summing)
    return {"parameters": parameters, "rows": rows + flower}


def _default_rows(clients: int, parameters: int) -> list[dict]:
    """What the default terms cost a client of a round of so many: its masks, and the shares of its secrets."""
    drawn = DrawnClients.make(clients, partners_of_all(clients, DEFAULT_ASSUMED))
    masking, raw = _mask_seconds(drawn, parameters)
    graph, position = drawn.graph, drawn.typical
    (sealing,) = _best(lambda: seal_shares(graph, position, drawn.secrets[position], Random(0).randbytes))
    beside = f"default terms, {clients:,} clients"
    holders = f"{len(graph.holders[position])} holders"
    return [
        _row(f"client: mask, {drawn.partners} partners", masking, "s", raw, f"raw AES-CTR; {beside}"),
        {"name": f"client: seal shares, {holders}", "value": sealing, "unit": "s", "beside": beside},
        {
            "name": f"client: shares, {holders}",
            "value": shares_bytes(graph, position),
            "unit": "bytes",
            "beside": f"{graph.threshold} of them recover a secret",
        },
    ]


def _mask_seconds(drawn: DrawnClients, parameters: int) -> tuple[float, ...]:
    """Seconds to mask an update, and of raw AES-CTR of the same bytes."""
    layout, vector = model(parameters)
    return _best(
        lambda: drawn.masked(drawn.typical, vector, layout), lambda: _raw_aes_ctr(4 * parameters, drawn.partners + 1)
    )


def model(parameters: int) -> tuple[Layout, np.ndarray]:
    """A model of one tensor, and weights of it."""
    vector = np.random.default_rng(0).normal(0, 0.1, parameters).astype(np.float32)
    return Layout(("model",), ((parameters,),)), vector


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


def flower_rows(bench: MaskingRound, position: int, client: float, server: float) -> list[dict]:
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


def _goal(name: str, goal: float, value: float) -> dict:
    return {"name": name, "value": goal, "unit": "s", "beside": "met" if value <= goal else "missed"}


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


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _best(*works: Callable[[], object]) -> tuple[float, ...]:
    """Shortest time of each, in turns, so that all see the same machine."""
    runs = [[_timed(work)[0] for work in works] for _ in range(_REPEATS)]
    return tuple(map(min, zip(*runs, strict=True)))
