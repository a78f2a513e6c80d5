"""Whole rounds of bounded sums in memory, in which colluders send monsters and lie about them.

Twelve members mask with each other. Seven are honest and stay, one shares and never commits, one commits and never
vouches, three collude. What colluders put under their masks is a ``MONSTERS`` vector; how they hide it is a plan. Who
stands where is drawn for each round. Everything else is the product: masks, sketch, vouchers, votes, verdict, equation,
expulsion; only shares are left out, as a threshold of honest holders is there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from fedgrove.common.curve import ORDER, Point
from fedgrove.common.errors import Refused
from fedgrove.node.masking.aggregate import left_over
from fedgrove.node.masking.bounds import equation, expulsion, proof, vouching
from fedgrove.node.masking.bounds.affirmation import Vote, Votes, encode_vote, votes_on
from fedgrove.node.masking.bounds.deposition import depose
from fedgrove.node.masking.bounds.edges import SketchedMask
from fedgrove.node.masking.bounds.equation import OuterMasks, worn
from fedgrove.node.masking.bounds.group import commit
from fedgrove.node.masking.bounds.knowledge import KnownSecret
from fedgrove.node.masking.bounds.verdict import Listed, Verdict, judge
from fedgrove.node.masking.bounds.vouching import Voucher, valid_vouchers
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.prg import Mask, MaskKey, apply_masks
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.sealing import MaskingRefused
from tests.node.masking.bounds.games import BITS, METRIC, NORM, WIDTH, WORDS, Game

STAGES = 8
WRAP = 1 << 32
UNSHIFT = pow(WRAP, -1, ORDER)
UPLOAD, SELF = "upload", "self"

Shift = np.ndarray
"""int64 of shape (K,): by how much something is not what it should be, modulo 2³²."""


class Lies:
    """What colluders say instead of the truth, so that small sketches seem to lie under their masks.

    The sketch that a voucher claims is v = ŷ − β − Σ σ·w, for what it says of ŷ, β and w. Each colluder claims that of
    an innocent update, and has a gap between it and what follows from the truth until lies fill it.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.claimed = {c: read(game.setting.sketch.of(game.innocent[c])) for c in game.colluders}
        self._said: dict[int, dict[str | int, Shift]] = {c: {} for c in game.colluders}

    def gap(self, colluder: int) -> Shift:
        """What is not filled yet."""
        true = self.game.setting.sketch.of(self.game.clear[colluder]).astype(np.int64)
        filled = sum((self._sign(colluder, at) * shift for at, shift in self._said[colluder].items()), start=0)
        return centred(self.claimed[colluder] - true - filled)

    def say(self, colluder: int, at: str | int, shift: Shift) -> None:
        """Lie about ŷ, β or w of the mask with a partner."""
        self._said[colluder][at] = centred(self._said[colluder].get(at, 0) + shift)

    def fill(self, colluder: int, at: str | int, part: Shift | None = None) -> None:
        """Put the gap, or a part of it, into a lie."""
        self.say(colluder, at, self._sign(colluder, at) * (self.gap(colluder) if part is None else part))

    def hand_on(self, colluder: int, to: int, part: Shift | None = None) -> None:
        """Both ends lie alike about the mask between them: the gap of one becomes the other's."""
        shift = self._sign(colluder, to) * (self.gap(colluder) if part is None else part)
        self.say(colluder, to, shift)
        self.say(to, colluder, shift)

    def voucher(self, colluder: int) -> bytes:
        """With a true proof, whatever is said."""
        game, setting = self.game, self.game.setting
        assert not self.gap(colluder).any()
        listed, masks = game.sketched(colluder)
        said = self._said[colluder]
        shifted = [
            SketchedMask(
                (mask.values.astype(np.int64) + said.get(key.pair[1] if key.pair else SELF, 0)) % WRAP, mask.blinding
            )
            for key, mask in zip(listed, masks, strict=True)
        ]
        upload = ((setting.sketch.of(game.uploads[colluder]).astype(np.int64) + said.get(UPLOAD, 0)) % WRAP).astype(
            WORD
        )
        return forged(game, colluder, upload, listed, shifted, self.claimed[colluder].tolist())

    def vouchers(self) -> dict[int, bytes]:
        """Of all colluders."""
        return {c: self.voucher(c) for c in self.game.colluders}

    @staticmethod
    def _sign(colluder: int, at: str | int) -> int:
        """Of a lie in the gap it fills."""
        if at == UPLOAD:
            return 1
        return -1 if at == SELF or colluder < int(at) else 1


def forged(
    game: Game,
    position: int,
    upload: np.ndarray,
    listed: list[MaskKey],
    masks: list[SketchedMask],
    claimed: list[int],
    prover: Callable[..., bytes] = proof.prove,
    bounded: Point | None = None,
    secret: bytes | None = None,
) -> bytes:
    """A voucher that says all this, for carries that fit: integers, or fractions modulo the order.

    ``bounded`` is published in place of the commitment to what is claimed, and ``secret`` takes the place of the mask
    key's own.
    """
    laid = OuterMasks.of(listed, masks)
    blinding = int.from_bytes(game.random(32)) % ORDER
    gaps = [v + m - y for v, m, y in zip(claimed, laid.values.tolist(), upload.tolist(), strict=True)]
    carries = [gap // WRAP if gap % WRAP == 0 else gap * UNSHIFT % ORDER for gap in gaps]
    pairs = {key.pair[1]: mask.commitment for key, mask in zip(listed[1:], masks[1:], strict=True) if key.pair}
    bounded = commit(claimed, blinding) if bounded is None else bounded
    bare = Voucher(upload, masks[0].commitment, pairs, bounded, b"", b"")
    context = vouching.context_of(game.setting, position, bare)
    statement = vouching.statement_of(game.setting, position, bare)
    knowledge = KnownSecret.prove(secret or game.round.secrets[position].mask_secret, context, game.random)
    proven = prover(statement, claimed, blinding, carries, (blinding + laid.blinding) * UNSHIFT % ORDER, game.random)
    return replace(bare, knowledge=knowledge.to_bytes(), proof=proven).to_bytes()


def cheat(
    statement: proof.Statement,
    values: list[int],
    blinding: int,
    carries: list[int],
    carry_blinding: int,
    random: Random,
) -> bytes:
    """Follow the prover to the letter for numbers that are not within the bounds, with what fits best instead."""
    try:
        roots = proof._roots(statement, values)
    except Refused:
        roots = [0] * statement.roots
    numbers = [*values, *carries, *roots]
    secrets, masks = proof._with_masks(statement, numbers, blinding, carry_blinding, random)
    challenges = proof._Chain(statement)
    commitments = (
        proof._commit_roots(secrets),
        commit(masks.values, masks.bounded_blinding),
        commit(masks.carries, masks.carry_blinding),
        proof._commit_roots(masks),
    )
    first = b"".join(point.to_bytes() for point in commitments)
    halves, delta = challenges.first(first)
    sums = [sum(number for number, bit in zip(numbers, row, strict=True) if bit) for row in halves.tolist()]
    projections = [(mask + total) % ORDER % 2**112 for mask, total in zip(secrets.projections, sums, strict=True)]
    pairs = list(zip(secrets.flat(), masks.flat(), strict=True))
    constant = proof._conditions(statement, delta, masks, 0)
    total = proof._Vector.split(statement, [secret + mask for secret, mask in pairs])
    slope = proof._conditions(statement, delta, total, 1) - constant
    second = b"".join(projection.to_bytes(14) for projection in projections)
    second += proof._commit_product(slope, secrets).to_bytes() + proof._commit_product(constant, masks).to_bytes()
    weights = challenges.second(second)
    third = (proof._project(halves, weights, masks) % ORDER).to_bytes(32)
    e = challenges.third(third)
    return first + second + third + b"".join(((e * secret + mask) % ORDER).to_bytes(32) for secret, mask in pairs)


def centred(shift: Shift) -> Shift:
    """Modulo 2³², nearest to zero."""
    return (np.asarray(shift).astype(np.int64) + WRAP // 2) % WRAP - WRAP // 2


def read(sketch: np.ndarray) -> Shift:
    """Words of a sketch as signed, metric words as they are."""
    signed = centred(sketch)
    signed[WIDTH:] = sketch[WIDTH:]
    return signed


@dataclass
class Played:
    """What colluders do after S is known.

    Attributes
    ----------
    vouchers : dict of int to bytes
        Of those that vouch.
    liars : set of int
        Who must be named, and nobody else.
    denied : set of int
        Honest members whose bytes colluders say they do not have.
    misstated : bool
        Whether the coordinator states the sketch of the outer masks that the equation of words asks for.
    """

    vouchers: dict[int, bytes]
    liars: set[int] = field(default_factory=set)
    denied: set[int] = field(default_factory=set)
    misstated: bool = False


@dataclass
class Outcome:
    """How a round ended.

    Attributes
    ----------
    summed : frozenset of int
        Positions in the sum that closed the round; empty: it did not close.
    named : frozenset of int
        By a reveal or by opened keys.
    stages : int
        Of expulsion.
    passed : bool
        Whether it closed with colluders' updates that add up to more than twice their limits.
    """

    verdict: Verdict
    summed: frozenset[int]
    named: frozenset[int]
    stages: int
    passed: bool


def play(game: Game, played: Played) -> Outcome:
    """From vouchers to the close."""
    setting, graph = game.setting, game.round.graph
    blobs = game.honest_vouchers() | played.vouchers
    vouchers = {position: Listed(place, blobs[position]) for place, position in enumerate(sorted(blobs))}
    valid = valid_vouchers(setting, blobs)
    depositions: dict[int, Listed] = {}
    for position in set(game.honest) - game.silent:
        said = depose(setting, position, game.round.secrets[position], valid, (), game.random)
        if said is not None:
            depositions[position] = Listed(100 + position, said.to_bytes(setting))
    cast = {}
    for holder in (*game.honest, *game.colluders):
        available = set(votes_on(graph, holder)) & vouchers.keys()
        if holder in game.colluders:
            available -= played.denied
        cast[holder] = Vote(1000 + holder, encode_vote(graph, holder, available))
    verdict = judge(setting, vouchers, depositions, Votes(graph, cast))
    return closed(game, played, verdict, valid)


def closed(game: Game, played: Played, verdict: Verdict, vouchers: dict[int, Voucher]) -> Outcome:
    """From the verdict on: release, equation, stages of expulsion."""
    setting, secrets = game.setting, game.round.secrets
    named = set(verdict.named)
    needed = verdict.needed(setting)
    summed = frozenset(needed.seeds)
    record = RecoveryRecord(
        needed.transcript,
        {position: secrets[position].self_seed for position in needed.seeds},
        {position: secrets[position].mask_secret for position in needed.keys},
    )
    for stage in range(STAGES + 1):
        if holds(game, played, summed, record, vouchers):
            passed = is_monstrous(game, summed)
            return Outcome(verdict, summed, frozenset(named), stage, passed)
        liars = expulsion.disproven(setting, vouchers, summed, record, game.uploads.__getitem__)
        assert liars, "the equation failed and nobody is a liar"
        named |= liars.keys()
        try:
            needed = expulsion.after_expulsion(setting, summed, liars)
        except MaskingRefused:
            return Outcome(verdict, frozenset(), frozenset(named), stage, False)
        summed = frozenset(needed.seeds)
        opened = {position: secrets[position].mask_secret for position in needed.keys}
        record = replace(record, mask_secrets={**record.mask_secrets, **opened})
    return Outcome(verdict, frozenset(), frozenset(named), STAGES, False)


def holds(
    game: Game, played: Played, summed: frozenset[int], record: RecoveryRecord, vouchers: dict[int, Voucher]
) -> bool:
    """The equation, with the sum opened as whoever closes a round opens it."""
    setting = game.setting
    left = list(left_over(setting.graph, summed, record))
    total = sum(game.uploads[position] for position in summed)
    apply_masks(total, [Mask(key.key, key.subtract, ((0, len(total)),)) for key in left])
    sketch_of_sum = setting.sketch.of(total)
    outer = OuterMasks.recomputed(setting.sketch, worn(left))
    listed = {position: vouchers[position] for position in sorted(summed)}
    if played.misstated:
        wanted = sum(each.upload.astype(np.int64) for each in listed.values()) - sketch_of_sum
        stated = replace(outer, values=outer.values + centred(wanted - outer.values))
        if equation.equation_holds(listed, sketch_of_sum, stated):
            return True
    return equation.equation_holds(listed, sketch_of_sum, outer)


def is_monstrous(game: Game, summed: Iterable[int]) -> bool:
    """Whether colluders put more into the sum than twice what they all may."""
    inside = [c for c in game.colluders if c in summed]
    if not inside:
        return False
    total = centred(sum(game.clear[c].astype(np.int64) for c in inside))
    norm = float(np.linalg.norm(total[:WORDS].astype(float)))
    return norm > 2 * len(inside) * NORM * 2**BITS or not 0 <= total[-1] <= len(inside) * METRIC
