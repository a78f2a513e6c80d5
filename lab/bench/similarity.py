"""Private comparisons of all pairs of clients, compared with the arithmetic that they cannot avoid."""

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from gmpy2 import invert, mpz, powmod_sec

from fedgrove.node.learning.partition import partition
from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.methods.procfl.sets import label_counts
from fedgrove.node.methods.procfl.similarity import in_the_clear, pairs
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.simulation.clustered.all_pairs import Psi
from fedgrove.node.simulation.clustered.paper_intersection import EXPONENT, RsaKey, asker_of
from fedgrove.node.simulation.clustered.similarity import compare_all
from fedgrove.node.simulation.clustered.work import RSA_BITS
from fedgrove.node.simulation.executors import open_executor
from fedgrove_lab.bench.rows import BenchResult, BenchRow, least

# Wall-clock seconds that 4,950 comparisons of 600 elements may take on two cores.
GOALS = {"ecdh": 240.0, "rsa": 1500.0}
PROTOCOLS: tuple[Psi, ...] = ("ecdh", "rsa")
_ALPHA = 0.3
_SEED = 7
_REPEATS = 200

Progress = Callable[[str, int, int], None]
"""Called with a protocol, and how many of how many comparisons are done."""


def run(
    labels: np.ndarray, clients: int, protocols: Sequence[Psi], workers: int, keep: Path | None, progress: Progress
) -> BenchResult:
    """Compare all pairs by their real messages.

    Parameters
    ----------
    labels : int64 array of shape (samples,)
        Split among the clients by Dirichlet(0.3).
    keep : Path or None
        Where comparisons stand, so that a second call goes on; then its times are only of what was left.
    """
    parts = partition(labels, clients, PartitionSettings(alpha=_ALPHA), _SEED)
    counts = np.array([label_counts(labels[part], int(labels.max()) + 1) for part in parts])
    rows = [BenchRow("elements of a client, mean", float(counts.sum(axis=1).mean()), "", "")]
    for psi in protocols:
        rows += _measured(counts, psi, workers, keep, progress)
    return BenchResult(tuple(rows), {"pairs": clients * (clients - 1) // 2})


def _measured(counts: np.ndarray, psi: Psi, workers: int, keep: Path | None, progress: Progress) -> list[BenchRow]:
    with _folder(keep, psi) as folder:
        wall, processor = time.perf_counter(), _seconds_of_all()
        with open_executor("processes", workers) as (executor, running):
            found = compare_all(counts, SimulatedProCfl(psi=psi), executor, running, folder, partial(progress, psi))
        wall, processor = time.perf_counter() - wall, _seconds_of_all() - processor
    floor = {"ecdh": _ecdh_floor, "rsa": _rsa_floor}[psi](counts)
    name = {"ecdh": "Diffie–Hellman", "rsa": f"RSA-{RSA_BITS}"}[psi]
    goal = f"goal for 4,950 on two cores {GOALS[psi]:.0f} s"
    equal = np.array_equal(found.overlaps, in_the_clear(counts).overlaps)
    return [
        BenchRow(f"{name}: all pairs", wall, "s", f"on {running} processes; {goal}"),
        BenchRow(f"{name}: processor time", processor, "s", f"{processor / floor:.2f} × the floor of {floor:.4g} s"),
        BenchRow(f"{name}: equal to the formula", "every pair" if equal else "NO", "", ""),
    ]


@contextmanager
def _folder(keep: Path | None, psi: str) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="fedgrove-") as made:
            yield Path(made)
        return
    folder = keep / psi
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _ecdh_floor(counts: np.ndarray) -> float:
    """Seconds of the multiplications alone: each element blinded once, and once by each partner."""
    key, point = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    elements = int(counts.sum())
    return elements * len(counts) * _each(lambda: key.exchange(point))


def _rsa_floor(counts: np.ndarray) -> float:
    """Seconds of the signatures alone: each element by its signer, and each that is asked for."""
    key = RsaKey.generate(os.urandom, RSA_BITS)
    number = mpz(int.from_bytes(os.urandom(RSA_BITS // 8 - 1)))
    powers = [(number % prime, invert(EXPONENT, prime - 1), prime) for prime in key.primes]
    sizes = counts.sum(axis=1)
    asked = sum(int(sizes[asker_of(*pair)]) for pair in pairs(len(counts)))
    return (int(sizes.sum()) + asked) * _each(lambda: [powmod_sec(*power) for power in powers])


def _each(work: Callable[[], object]) -> float:
    """Processor seconds of one call: the least of five means."""
    (many,) = least(lambda: [work() for _ in range(_REPEATS)], repeats=5, clock=time.process_time)
    return many / _REPEATS


def _seconds_of_all() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
