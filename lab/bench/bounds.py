"""Proofs that hidden updates are bounded, compared with the masks of the same round.

Two more figures are about protocols that commit to every parameter: what these commitments alone would cost here, and
what their authors published.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from fedgrove.common.curve import G, Point, hash_to_point
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import left_over
from fedgrove.node.masking.bounds.edges import sketched_masks
from fedgrove.node.masking.bounds.equation import OuterMasks, Vouched, equation_holds, worn
from fedgrove.node.masking.bounds.group import commit
from fedgrove.node.masking.bounds.proof import prove
from fedgrove.node.masking.bounds.sketch import STRETCHING, Sketch, norm_limit, stretched, words_needed
from fedgrove.node.masking.bounds.vouching import Bounds, Setting, Voucher, check_vouchers, statement_of, vouch
from fedgrove.node.masking.client import mask_keys, mask_words
from fedgrove.node.masking.coverage import masks_of
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED
from fedgrove.node.masking.prg import apply_masks
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD, fraction_bits
from fedgrove.node.masking.survivors import Needed, needed_secrets
from fedgrove_lab.bench import rows as bench_rows
from fedgrove_lab.bench.rows import BenchResult, BenchRow
from fedgrove_lab.masked_round import MaskedRound

CLIENTS = 100
PARTNERS = (7, 17, 52)
PARAMETERS = (10_000, 1_660_000)
LIMITS = (1000, 1000, 1)
"""Of the metric words: a number of samples, a count, a flag."""

_BOUND, _NORM = 8.0, 0.5
_NO_TENSORS = Layout((), ())  # every mask covers all words, whatever they are
_REPEATS = 3
_SAMPLES = 300
_PUBLISHED = "published: abstract of arXiv:2311.15310; a client's computation, up to"
_RIVALS = (("ACORN", 28), ("RoFL", 53), ("EIFFeL", 164))

Track = Callable[[Iterable[Any], str], Iterable[Any]]
"""Shows that something is done for each."""


timed = partial(bench_rows.timed, clock=process_time)
least = partial(bench_rows.least, repeats=_REPEATS, clock=process_time)


@dataclass(frozen=True)
class BoundedRound(MaskedRound):
    """A round whose clients have the same number of partners; the last tenth commits and does not vouch."""

    @classmethod
    def make(cls, partners: int, clients: int) -> "BoundedRound":
        return cls.draw([100] * clients, Random(0).randbytes, in_tree=False, degree=partners)

    @property
    def survivors(self) -> range:
        """Positions of those who are summed."""
        return range(self.graph.n - self.graph.n // 10)

    def update(self, position: int, parameters: int) -> np.ndarray:
        """A member's words: an update of nine tenths of the largest norm, and metrics.

        Returns
        -------
        uint32 array of shape (parameters + metrics,)
        """
        vector = np.random.default_rng(position).normal(size=parameters)
        vector *= 0.9 * _NORM / self.graph.n * 2 ** fraction_bits(_BOUND) / np.linalg.norm(vector)
        return np.append(np.rint(vector).astype(np.int64), [500, 400, 1]).astype(WORD)

    def upload(self, position: int, words: np.ndarray) -> np.ndarray:
        """The same under all masks."""
        masked = words.copy()
        everybody = range(self.graph.n)
        mask_words(self.graph, position, self.secrets[position], everybody, masked, _NO_TENSORS, behind=len(masked))
        return masked

    def setting(self, sketch: Sketch, uploads: dict[int, np.ndarray]) -> Setting:
        """What vouchers for these uploads, by position, are about."""
        bits, graph = fraction_bits(_BOUND), self.graph
        bound = Bounds(norm_limit(_NORM, 100, graph.total_samples, bits, sketch.length), LIMITS)
        digests = {position: hashlib.sha256(upload.tobytes()).digest() for position, upload in uploads.items()}
        return Setting(graph, frozenset(range(graph.n)), sketch, digests, dict.fromkeys(uploads, bound))

    def record(self, needed: Needed) -> RecoveryRecord:
        """The secrets that open the sum."""
        seeds = {p: self.secrets[p].self_seed for p in needed.seeds}
        return RecoveryRecord(needed.transcript, seeds, {p: self.secrets[p].mask_secret for p in needed.keys})


def run(
    parameters: tuple[int, ...] = PARAMETERS,
    partners: tuple[int, ...] = PARTNERS,
    clients: int = CLIENTS,
    track: Track = lambda members, _: members,
) -> BenchResult:
    """Measure processor time on one core, so that other programs count little.

    A client's figures are the least of three runs. Vouchers are verified one by one and in the best of three batches.
    The check of a sum is one run; making the uploads is not counted.

    Parameters
    ----------
    parameters : tuple of int
        Of the models.
    partners : tuple of int
        How many every client masks with.
    clients : int
        Of the rounds: more than partners, and an even number. A tenth of them is not summed.
    """
    words = words_needed(DEFAULT_ASSUMED.colluders_of(clients))
    most = BoundedRound.make(max(partners), clients)
    drawn = {count: BoundedRound.make(count, clients) for count in partners}
    parts: list[Callable[[], list[BenchRow]]] = [
        _seed_rows,
        *(partial(_client_rows, drawn[count], size, words) for size in parameters for count in partners),
        partial(_batch_rows, most, min(parameters), words),
        *(partial(_closing_rows, most, size, words) for size in parameters),
        partial(_literature_rows, max(parameters)),
    ]
    rows = [row for part in track(parts, "measuring") for row in part()]
    return BenchResult(tuple(rows), {"clients": clients, "sketch_words": words, "metric_words": len(LIMITS)})


def _seed_rows() -> list[BenchRow]:
    seconds, _ = timed(lambda: stretched.__wrapped__(bytes(32)))
    return [BenchRow("stretching the seed, once a round", seconds, "s", f"{STRETCHING:,} iterations of SHA-256")]


def _client_rows(drawn: BoundedRound, size: int, words: int) -> list[BenchRow]:
    graph, position, secrets = drawn.graph, 0, drawn.secrets[0]
    clear = drawn.update(position, size)
    upload = drawn.upload(position, clear)
    setting = drawn.setting(Sketch(bytes(32), size, words, len(LIMITS)), {position: upload})
    keys = mask_keys(graph, position, secrets, range(graph.n))
    random = Random(1).randbytes
    blob = vouch(setting, position, secrets, upload, random)  # also makes the tables and choices of this process
    voucher = Voucher.parse(blob, setting, position)
    masks = sketched_masks(setting.sketch, keys)
    statement = statement_of(setting, position, voucher)
    values = setting.sketch.of(clear).view("<i4")
    carries = [1] * setting.sketch.width  # not those of C, which costs the same: nothing is checked
    masking, whole, sketches, commitments, proof = least(
        lambda: drawn.upload(position, clear),
        lambda: vouch(setting, position, secrets, upload, random),
        lambda: (sketched_masks(setting.sketch, keys), setting.sketch.of(upload)),
        lambda: [commit(mask.values, mask.blinding) for mask in masks],
        lambda: prove(statement, values, 1, carries, 1, random),
    )
    where = f"{size:,} parameters, {len(keys) - 1} partners"
    return [
        BenchRow.compared(f"client: voucher, {where}", whole, "s", masking, "masking the same update"),
        BenchRow(f"client: of it sketches, {where}", sketches, "s", f"of {len(keys)} masks and the upload"),
        BenchRow(f"client: of it commitments, {where}", commitments, "s", f"to {len(keys)} sketches"),
        BenchRow(f"client: of it the proof, {where}", proof, "s"),
        BenchRow.compared(f"client: voucher's size, {where}", len(blob), "bytes", 4 * size, "the upload", digits=5),
    ]


def _batch_rows(drawn: BoundedRound, size: int, words: int) -> list[BenchRow]:
    """Vouchers of all clients, verified one by one and all at once."""
    everybody = range(drawn.graph.n)
    uploads = {p: drawn.upload(p, drawn.update(p, size)) for p in everybody}
    setting = drawn.setting(Sketch(bytes(32), size, words, len(LIMITS)), uploads)
    random = Random(2).randbytes
    blobs = {p: vouch(setting, p, drawn.secrets[p], uploads[p], random) for p in everybody}
    vouchers = {p: Voucher.parse(blob, setting, p) for p, blob in blobs.items()}
    failing: list[int] = []

    def verify(positions: range) -> float:
        seconds, invalid = timed(lambda: check_vouchers(setting, {p: vouchers[p] for p in positions}))
        failing.extend(invalid)
        return seconds

    single = median(verify(range(p, p + 1)) for p in everybody)
    batch = min(verify(everybody) for _ in range(_REPEATS))
    if failing:
        raise AssertionError("an honest voucher does not verify")
    count, partners = drawn.graph.n, len(drawn.graph.neighbours[0])
    return [
        BenchRow(f"verify one voucher, {partners} partners", single, "s", "median"),
        BenchRow.compared(
            f"verify {count} vouchers, {partners} partners", batch, "s", count * single, "one by one", digits=2
        ),
        BenchRow.goal("goal for 100 vouchers", 1.0, batch, "s"),
    ]


def _closing_rows(drawn: BoundedRound, size: int, words: int) -> list[BenchRow]:
    """The check that an opened sum is what its members vouched for."""
    graph, survivors = drawn.graph, drawn.survivors
    sketch = Sketch(bytes(32), size, words, len(LIMITS))
    needed = needed_secrets(graph, range(graph.n), survivors)
    record = drawn.record(needed)
    taken_off = list(left_over(graph, survivors, record))
    total = np.zeros(size + len(LIMITS), WORD)
    vouched: dict[int, Vouched] = {}
    masks = sketched_masks(sketch, taken_off)
    opened = {key.key: mask.commitment for key, mask in zip(taken_off, masks, strict=True)}
    for position in survivors:
        upload = drawn.upload(position, drawn.update(position, size))
        total += upload
        vouched[position] = _vouched(drawn, position, sketch.of(upload), opened)
    apply_masks(total, masks_of(taken_off, graph.n, _NO_TENSORS, 1.0, len(total)))
    summing, of_sum = timed(lambda: sketch.of(total))
    opening, outer = timed(lambda: OuterMasks.recomputed(sketch, worn(taken_off)))
    comparing, holds = timed(lambda: equation_holds(vouched, of_sum, outer))
    if not holds:
        raise AssertionError("the equation of an honest sum does not hold")
    where = f"{size:,} parameters"
    note = f"{len(survivors)} members summed, {graph.n - len(survivors)} not"
    masks = f"{len(taken_off)} masks that the sum still wears"
    return [
        BenchRow(f"check of the sum: all, {where}", summing + opening + comparing, "s", note),
        BenchRow(f"check of the sum: sketch of the sum, {where}", summing, "s"),
        BenchRow(f"check of the sum: sketches of opened masks, {where}", opening, "s", masks),
        BenchRow(f"check of the sum: both equations, {where}", comparing, "s"),
    ]


def _vouched(drawn: BoundedRound, position: int, upload: np.ndarray, opened: dict[bytes, Point]) -> Vouched:
    """What the equation needs of a voucher: commitments to masks that are opened, and any others."""
    own, *pairs = mask_keys(drawn.graph, position, drawn.secrets[position], range(drawn.graph.n))
    edges = {key.pair[1]: opened.get(key.key, G) for key in pairs if key.pair is not None}
    return Vouched(upload, opened[own.key], edges)


def _literature_rows(size: int) -> list[BenchRow]:
    """What committing to each parameter by itself costs, and what was published of protocols that do."""
    points = [hash_to_point(number.to_bytes(4)) for number in range(_SAMPLES)]
    blinding = int.from_bytes(Random(3).randbytes(32))
    (seconds,) = least(lambda: [G * (value + 1) + point * blinding for value, point in enumerate(points)])
    note = f"reckoned from {_SAMPLES}: two multiples of points each, by libsecp256k1"
    rows = [BenchRow(f"commitments to {size:,} parameters, one each", seconds / _SAMPLES * size, "s", note)]
    return rows + [
        BenchRow(f"RiseFL compared with {name}", times, "times faster", _PUBLISHED) for name, times in _RIVALS
    ]
