"""Prove in zero knowledge that a hidden vector of integers is short and that its metric words are within limits.

Two commitments are public: V to the words v of a sketch, followed by metric words, and C to the carries c. The proof
shows knowledge of integer openings with

1. |v_l|, |c_l| < 2¹¹² for every l,
2. Σ v_l² ≤ τ² over the words of the sketch,
3. 0 ≤ x ≤ X for each metric word x and its limit X.

A condition on squares becomes an equation by integers that nobody else sees (Lagrange, Legendre): τ² − Σ v² is a sum
of four squares, and 4x(X − x) + 1, which is negative outside the limits, a sum of three. Equations modulo the group's
order hold for integers where all numbers are small. This is shown by 128 projections: sums over random halves of all
numbers, each hidden by a mask below 2¹¹². A number of 2¹¹² or more, or a fraction modulo the order, leaves a
projection in [0, 2¹¹²) with probability at most 1/2, hence all of them with probability at most 2⁻¹²⁸.

Messages, each followed by a challenge from one hash chain (SHA-256) that begins with the statement:

1. the commitment A to the squares' roots and to the projections' masks, and commitments to a mask of every number;
   challenge: the halves R and the weight δ of the quadratic conditions,
2. the projections z, and commitments T₁ and T₀ to the coefficients of e and 1 when e·u + m takes the place of the
   numbers u in the weighted conditions (that of e² is zero if they hold); challenge: weights γ of the projections,
3. the weighted projection w of the masks; challenge: e,
4. e·u + m for every number and every blinding.

The commitments hide perfectly and the last message is uniform, so that it says nothing; a projection is within
128·Σ|u|/2¹¹² of uniform. Whoever verifies checks that the openings fit V, C and A, that the conditions fit T₁ and T₀,
and that the projections fit w. All but the last are equations between points, so that one product over many points
decides for any number of proofs.

Nothing here runs in constant time. How long a proof takes depends on what it hides, by up to 0.2 ms in the search for
squares, which depends on τ² − |v|². So a proof should be published at a time that was fixed before it was begun.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256, shake_256
from itertools import chain, zip_longest
from operator import index, mul
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedgrove.common.curve import ORDER, POINT_BYTES, Point, fixed_product, multi_product
from fedgrove.common.errors import InvalidContent, Refused
from fedgrove.node.masking.bounds.group import BLINDING, PROJECTIONS, SQUARES, VALUE, WORDS, commit
from fedgrove.node.masking.bounds.squares import four_squares, three_squares
from fedgrove.node.masking.keys import Random

MAX_WORDS = 1 << 16
"""Of the sketch and the metrics together: sums of squares of as many numbers below 2¹¹² are below the order."""

MAX_LIMIT = (1 << 32) - 1
"""Of τ and of a metric word."""

_ROWS = 128
_PROJECTION_BYTES = 14  # 2¹¹²
_SCALAR_BYTES = 32
_WEIGHT_BYTES = 16
_UNIFORM_BYTES = 48  # 2⁻¹²⁸ from uniform modulo the order
_MAX_SUM = 1 << 48  # of all numbers: projections are then out of range with a probability below 2⁻⁵⁶
_CHAIN = b"fedgrove bounded sums: proof 1"
_MASKS = b"fedgrove bounded sums: masks of a proof 1"
_BATCH = b"fedgrove bounded sums: weights of a batch 1"


@dataclass(frozen=True)
class Statement:
    """What a proof shows.

    Attributes
    ----------
    context : bytes
        What the proof is bound to; it fails under any other.
    bounded : Point
        V, the commitment to the sketch's words and the metric words, in this order.
    carry : Point
        C, the commitment to the carries, as many.
    tau_squared : int
        Bound on the sum of the squares of the sketch's words, at most MAX_LIMIT².
    metric_limits : tuple of int
        The largest value of each metric word, at most MAX_LIMIT.
    sketch_words : int
        At least one, and with the metric words at most MAX_WORDS.

    Raises ValueError: for numbers out of range.
    """

    context: bytes
    bounded: Point
    carry: Point
    tau_squared: int
    metric_limits: tuple[int, ...]
    sketch_words: int

    def __post_init__(self) -> None:
        if self.sketch_words < 1 or self.words > MAX_WORDS:
            raise ValueError(f"a statement is about 1 to {MAX_WORDS} words")
        if not 0 <= self.tau_squared <= MAX_LIMIT**2 or not all(
            0 <= limit <= MAX_LIMIT for limit in self.metric_limits
        ):
            raise ValueError("a bound of the statement is out of range")

    @property
    def words(self) -> int:
        return self.sketch_words + len(self.metric_limits)

    @property
    def roots(self) -> int:
        """How many squares turn the conditions into equations."""
        return 4 + 3 * len(self.metric_limits)

    @property
    def numbers(self) -> int:
        """How many hidden numbers the conditions are about."""
        return 2 * self.words + self.roots

    def to_bytes(self) -> bytes:
        """One encoding for each statement; its length is that of the context plus 86 bytes, and 4 for each metric."""
        numbers = [len(self.context), self.sketch_words, len(self.metric_limits), *self.metric_limits]
        fields = [number.to_bytes(4) for number in numbers]
        points = self.bounded.to_bytes() + self.carry.to_bytes()
        return b"".join(fields) + self.tau_squared.to_bytes(8) + points + self.context


class _Vector(NamedTuple):
    """One number for each thing that is hidden; secrets, their masks and the responses have this form.

    These are the numbers of the conditions, the masks of the projections, and the blindings of V, of C, of A, and of T₁
    (of T₀ in the masks).
    """

    values: Sequence[int]
    carries: Sequence[int]
    roots: Sequence[int]
    projections: Sequence[int]
    bounded_blinding: int
    carry_blinding: int
    roots_blinding: int
    product_blinding: int

    @classmethod
    def split(cls, statement: Statement, flat: Sequence[int]) -> "_Vector":
        words, numbers = statement.words, statement.numbers
        values, carries, roots = flat[:words], flat[words : 2 * words], flat[2 * words : numbers]
        return cls(values, carries, roots, flat[numbers : numbers + _ROWS], *flat[numbers + _ROWS :])

    def flat(self) -> list[int]:
        return [*self.values, *self.carries, *self.roots, *self.projections, *self[4:]]


class _Proof(NamedTuple):
    """The messages of a proof, parsed, and the bytes of the first three."""

    roots: Point
    masks: tuple[Point, Point, Point]
    projections: list[int]
    slope: Point
    constant: Point
    masked_projection: int
    responses: _Vector
    messages: tuple[bytes, bytes, bytes]


class _Equation(NamedTuple):
    """Σ scalar · generator − Σ scalar · point, which is neutral if a proof is valid."""

    words: list[int]
    roots: list[int]
    projections: list[int]
    value: int
    blinding: int
    points: tuple[Point, ...]
    scalars: tuple[int, ...]


def proof_bytes(sketch_words: int, metrics: int) -> int:
    """The length of every proof about this many words."""
    numbers = 2 * (sketch_words + metrics) + 4 + 3 * metrics
    scalars = 1 + numbers + _ROWS + 4
    return 6 * POINT_BYTES + _ROWS * _PROJECTION_BYTES + scalars * _SCALAR_BYTES


def prove(
    statement: Statement,
    values: Sequence[int] | npt.NDArray[np.integer[Any]],
    blinding: int,
    carries: Sequence[int] | npt.NDArray[np.integer[Any]],
    carry_blinding: int,
    random: Random,
) -> bytes:
    """A proof of ``proof_bytes`` bytes; it verifies if the openings are those of the statement's commitments.

    Parameters
    ----------
    statement : Statement
    values : integers, shape (statement.words,)
        v, the sketch's words and then the metric words.
    blinding : int
        Of V; uniform, and new for each commitment.
    carries : integers, shape (statement.words,)
        c; their absolute values add up to at most 2⁴⁷.
    carry_blinding : int
        Of C.
    random : callable
        Bytes for the masks. The statement and the blindings are mixed into them, so that equal bytes for two
        statements, as on a machine that was restored, give nothing away.

    Raises Refused: if the values are not within the bounds.
    Raises ValueError: for vectors of another length, or carries that are too large to be hidden.
    """
    known, carried = list(map(index, values)), list(map(index, carries))
    if len(known) != statement.words or len(carried) != statement.words:
        raise ValueError(f"the statement is about {statement.words} words")
    numbers = [*known, *carried, *_roots(statement, known)]
    if sum(map(abs, numbers)) > _MAX_SUM:
        raise ValueError("the carries are too large to be hidden")
    while True:
        secrets, masks = _with_masks(statement, numbers, blinding % ORDER, carry_blinding % ORDER, random)
        proof = _attempt(statement, secrets, masks)
        if proof is not None:
            return proof


def verify(statements: Sequence[Statement], proofs: Sequence[bytes]) -> list[bool]:
    """Whether each proof shows its statement; the bytes may be anything.

    All together are decided by one product over many points, so that 100 proofs cost about as much as 15 single ones.
    If it fails, halves are tried until those are found that are invalid. The same proofs give the same answer
    everywhere: weights are a hash of the batch. A false statement passes with probability at most about 2⁻¹²⁸ for each
    hash that its author computes.

    Raises ValueError: unless there are as many proofs as statements.
    """
    equations: dict[int, _Equation] = {}
    weights = _batch_weights(statements, proofs)
    for number, (statement, proof) in enumerate(zip(statements, proofs, strict=True)):
        try:
            equations[number] = _equation(statement, _parse(statement, proof), weights[4 * number : 4 * number + 4])
        except InvalidContent:
            continue
    valid = _holding(list(equations), equations)
    return [number in valid for number in range(len(proofs))]


# The prover


def _roots(statement: Statement, values: Sequence[int]) -> list[int]:
    """Integers whose squares turn the conditions into equations, four for the norm and three for each metric word."""
    norm, metrics = values[: statement.sketch_words], values[statement.sketch_words :]
    rest = statement.tau_squared - _squared_norm(norm)
    room = [4 * value * (limit - value) + 1 for value, limit in zip(metrics, statement.metric_limits, strict=True)]
    if rest < 0 or any(each < 0 for each in room):
        raise Refused("the sketch of the update, or a metric word, is above its bound")
    return [*four_squares(rest), *(root for each in room for root in three_squares(each))]


def _with_masks(
    statement: Statement, numbers: Sequence[int], blinding: int, carry_blinding: int, random: Random
) -> tuple[_Vector, _Vector]:
    """The secrets of one attempt, and a uniform mask for each."""
    count = statement.numbers + _ROWS + 4
    known = b"".join(secret.to_bytes(_SCALAR_BYTES) for secret in (blinding, carry_blinding))
    seed = _MASKS + random(64) + known + statement.to_bytes()
    stream = shake_256(seed).digest((count + 2) * _UNIFORM_BYTES + _ROWS * _PROJECTION_BYTES)
    projections = _split(stream[: _ROWS * _PROJECTION_BYTES], _PROJECTION_BYTES)
    *masks, roots_blinding, product_blinding = (
        each % ORDER for each in _split(stream[_ROWS * _PROJECTION_BYTES :], _UNIFORM_BYTES)
    )
    secrets = [*numbers, *projections, blinding, carry_blinding, roots_blinding, product_blinding]
    return _Vector.split(statement, secrets), _Vector.split(statement, masks)


def _attempt(statement: Statement, secrets: _Vector, masks: _Vector) -> bytes | None:
    """A proof, or None if a projection is out of range, as in fewer than one of 2⁵⁶ attempts."""
    challenges = _Chain(statement)
    pairs = list(zip(secrets.flat(), masks.flat(), strict=True))

    # Message 1
    commitments = (
        _commit_roots(secrets),
        commit(masks.values, masks.bounded_blinding),
        commit(masks.carries, masks.carry_blinding),
        _commit_roots(masks),
    )
    first = b"".join(point.to_bytes() for point in commitments)
    halves, delta = challenges.first(first)

    # Message 2
    numbers = np.array([*secrets.values, *secrets.carries, *secrets.roots], np.int64)
    sums: list[int] = (halves.astype(np.int64) @ numbers).tolist()
    projections = [mask + total for mask, total in zip(secrets.projections, sums, strict=True)]
    if not all(0 <= projection < 1 << 8 * _PROJECTION_BYTES for projection in projections):
        return None
    constant = _conditions(statement, delta, masks, 0)
    total = _Vector.split(statement, [secret + mask for secret, mask in pairs])
    slope = _conditions(statement, delta, total, 1) - constant  # the coefficient of e² is zero: the conditions hold
    second = b"".join(projection.to_bytes(_PROJECTION_BYTES) for projection in projections)
    second += _commit_product(slope, secrets).to_bytes() + _commit_product(constant, masks).to_bytes()
    weights = challenges.second(second)

    # Message 3
    masked_projection = _project(halves, weights, masks) % ORDER
    third = masked_projection.to_bytes(_SCALAR_BYTES)
    e = challenges.third(third)

    # Message 4
    responses = ((e * secret + mask) % ORDER for secret, mask in pairs)
    return first + second + third + b"".join(response.to_bytes(_SCALAR_BYTES) for response in responses)


def _commit_roots(vector: _Vector) -> Point:
    terms = fixed_product([(SQUARES, vector.roots), (PROJECTIONS, vector.projections)])
    return terms + BLINDING[0] * vector.roots_blinding


def _commit_product(value: int, vector: _Vector) -> Point:
    return VALUE[0] * value + BLINDING[0] * vector.product_blinding


# What both compute


class _Chain:
    """The challenges: hashes of the statement and all messages before."""

    def __init__(self, statement: Statement) -> None:
        self._numbers = statement.numbers
        self._state = sha256(_CHAIN + statement.to_bytes()).digest()

    def first(self, message: bytes) -> tuple[npt.NDArray[np.uint8], int]:
        """R, zeros and ones of shape (128, numbers), and δ."""
        size = _ROWS * self._numbers // 8
        stream = self._after(message, size + _UNIFORM_BYTES)
        bits = np.unpackbits(np.frombuffer(stream[:size], np.uint8))
        return bits.reshape(_ROWS, self._numbers), int.from_bytes(stream[size:]) % ORDER

    def second(self, message: bytes) -> list[int]:
        """γ, 128 bits for each projection."""
        return _split(self._after(message, _ROWS * _WEIGHT_BYTES), _WEIGHT_BYTES)

    def third(self, message: bytes) -> int:
        """e."""
        return int.from_bytes(self._after(message, _UNIFORM_BYTES)) % ORDER

    def _after(self, message: bytes, size: int) -> bytes:
        self._state = sha256(self._state + message).digest()
        return shake_256(self._state).digest(size)


def _conditions(statement: Statement, delta: int, vector: _Vector, e: int) -> int:
    """The weighted sum of the quadratic conditions at e·u + m, with e in place of 1: zero at u and 1 if they hold."""
    norm, metrics = vector.values[: statement.sketch_words], vector.values[statement.sketch_words :]
    total = _squared_norm(norm) + _squared_norm(vector.roots[:4]) - e * e * statement.tau_squared
    weight = 1
    for metric, (value, limit) in enumerate(zip(metrics, statement.metric_limits, strict=True)):
        weight = weight * delta % ORDER
        squares = _squared_norm(vector.roots[4 + 3 * metric : 7 + 3 * metric])
        total += weight * (squares - 4 * value * (e * limit - value) - e * e)
    return total % ORDER


def _project(halves: npt.NDArray[np.uint8], weights: Sequence[int], vector: _Vector) -> int:
    """⟨γR, numbers⟩ + ⟨γ, masks of the projections⟩."""
    numbers = (*vector.values, *vector.carries, *vector.roots)
    return _dot(_weighted_halves(halves, weights), numbers) + _dot(weights, vector.projections)


def _weighted_halves(halves: npt.NDArray[np.uint8], weights: Sequence[int]) -> list[int]:
    """γR, integers below 2¹³⁵: limbs of 32 bits are added up exactly as floats, then carried."""
    raw = b"".join(weight.to_bytes(_WEIGHT_BYTES, "little") for weight in weights)
    limbs = np.frombuffer(raw, "<u4").reshape(_ROWS, -1).astype(np.float64)
    sums = (halves.T.astype(np.float64) @ limbs).astype(np.uint64)
    carried = np.zeros((len(sums), limbs.shape[1] + 1), "<u4")
    carry = np.zeros(len(sums), np.uint64)
    for limb in range(limbs.shape[1]):
        carry += sums[:, limb]
        carried[:, limb] = carry & np.uint64(0xFFFFFFFF)
        carry >>= np.uint64(32)
    carried[:, -1] = carry
    return _split(carried.tobytes(), 4 * carried.shape[1], "little")


def _split(stream: bytes, size: int, order: Literal["little", "big"] = "big") -> list[int]:
    """The integers of ``size`` bytes each."""
    return [int.from_bytes(stream[start : start + size], order) for start in range(0, len(stream), size)]


def _dot(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(map(mul, left, right))


def _squared_norm(values: Sequence[int]) -> int:
    return _dot(values, values)


# The verifier


def _parse(statement: Statement, proof: bytes) -> _Proof:
    """Raises InvalidContent: unless the bytes are the one encoding of a proof."""
    if len(proof) != proof_bytes(statement.sketch_words, len(statement.metric_limits)):
        raise InvalidContent(f"{len(proof)} bytes are not a proof about this many words")
    first_size, projections_size = 4 * POINT_BYTES, _ROWS * _PROJECTION_BYTES
    second_size = projections_size + 2 * POINT_BYTES
    first, rest = proof[:first_size], proof[first_size:]
    second, rest = rest[:second_size], rest[second_size:]
    masked_projection, *responses = _scalars(rest)
    roots, *masks = _points(first)
    slope, constant = _points(second[projections_size:])
    return _Proof(
        roots,
        (masks[0], masks[1], masks[2]),
        _split(second[:projections_size], _PROJECTION_BYTES),
        slope,
        constant,
        masked_projection,
        _Vector.split(statement, responses),
        (first, second, rest[:_SCALAR_BYTES]),
    )


def _scalars(data: bytes) -> list[int]:
    scalars = _split(data, _SCALAR_BYTES)
    if max(scalars) >= ORDER:
        raise InvalidContent("a number of the proof is not below the order")
    return scalars


def _points(data: bytes) -> list[Point]:
    return [Point.parse(data[start : start + POINT_BYTES]) for start in range(0, len(data), POINT_BYTES)]


def _equation(statement: Statement, proof: _Proof, weights: Sequence[int]) -> _Equation:
    """The weighted sum of the equations between points.

    Raises InvalidContent: if the equation between numbers fails.
    """
    challenges = _Chain(statement)
    halves, delta = challenges.first(proof.messages[0])
    gammas = challenges.second(proof.messages[1])
    e = challenges.third(proof.messages[2])
    at = proof.responses
    if not _projections_hold(proof, halves, gammas, e):
        raise InvalidContent("the projections do not fit the hidden numbers")
    of_values, of_carries, of_roots, of_product = weights
    blindings = (at.bounded_blinding, at.carry_blinding, at.roots_blinding, at.product_blinding)
    commitments = (statement.bounded, statement.carry, proof.roots, proof.slope)
    return _Equation(
        [of_values * value + of_carries * carry for value, carry in zip(at.values, at.carries, strict=True)],
        [of_roots * root for root in at.roots],
        [of_roots * projection for projection in at.projections],
        of_product * _conditions(statement, delta, at, e),
        _dot(weights, blindings),
        (*commitments, *proof.masks, proof.constant),
        (*(-e * weight for weight in weights), *(-weight for weight in weights)),
    )


def _projections_hold(proof: _Proof, halves: npt.NDArray[np.uint8], weights: Sequence[int], e: int) -> bool:
    """Whether the projections, which are in range by their encoding, are those of the hidden numbers."""
    expected = e * _dot(weights, proof.projections) + proof.masked_projection
    return (_project(halves, weights, proof.responses) - expected) % ORDER == 0


def _batch_weights(statements: Sequence[Statement], proofs: Sequence[bytes]) -> list[int]:
    """Four weights of 128 bits for each proof, from a hash of all of them (as BIP 340 recommends)."""
    digests = [sha256(each).digest() for each in (*(statement.to_bytes() for statement in statements), *proofs)]
    seed = sha256(_BATCH + b"".join(digests)).digest()
    return _split(shake_256(seed).digest(4 * _WEIGHT_BYTES * len(proofs)), _WEIGHT_BYTES)


def _holding(numbers: list[int], equations: Mapping[int, _Equation]) -> set[int]:
    """Those whose equations hold, by halves where they do not all."""
    if _all_hold([equations[number] for number in numbers]):
        return set(numbers)
    if len(numbers) == 1:
        return set()
    middle = len(numbers) // 2
    return _holding(numbers[:middle], equations) | _holding(numbers[middle:], equations)


def _all_hold(equations: Sequence[_Equation]) -> bool:
    generators = [
        (WORDS, _columns(equation.words for equation in equations)),
        (SQUARES, _columns(equation.roots for equation in equations)),
        (PROJECTIONS, _columns(equation.projections for equation in equations)),
        (VALUE, [sum(equation.value for equation in equations)]),
        (BLINDING, [sum(equation.blinding for equation in equations)]),
    ]
    points = chain.from_iterable(equation.points for equation in equations)
    scalars = chain.from_iterable(equation.scalars for equation in equations)
    return (fixed_product(generators) + multi_product(points, scalars)).is_neutral


def _columns(rows: Iterable[Sequence[int]]) -> list[int]:
    """The sums of the columns; shorter rows end in zeros."""
    return list(map(sum, zip_longest(*rows, fillvalue=0)))
