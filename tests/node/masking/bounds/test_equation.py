"""Commitments to sketches of masks, and the equation of a sum, in whole rounds of masking without the ledger."""

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import ORDER
from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import left_over
from fedgrove.node.masking.bounds import sketch as module
from fedgrove.node.masking.bounds.edges import SketchedMask, blinding_of, sketched_masks
from fedgrove.node.masking.bounds.equation import (
    OuterMasks,
    Vouched,
    commitments_agree,
    equation_holds,
    outer_bytes,
    outer_pairs,
    total_of,
    words_agree,
    worn,
)
from fedgrove.node.masking.bounds.group import BLINDING, WORDS, commit
from fedgrove.node.masking.bounds.sketch import Sketch
from fedgrove.node.masking.client import mask_keys
from fedgrove.node.masking.coverage import masks_of
from fedgrove.node.masking.prg import Mask, MaskKey, apply_masks
from fedgrove.node.masking.recovery import RecoveryRecord
from tests.node.masking.rounds import Round

N, METRICS = 8, 2
LAYOUT = Layout(("w",), ((40,),))
EVERYBODY = frozenset(range(N))
DROPOUTS = frozenset({2, 5})


@pytest.fixture(autouse=True, scope="module")
def _cheap_keys():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "stretched", lambda seed: seed)
        yield


@dataclass
class Play:
    """A round in memory: updates, masks, vouchers' parts, and what opens once L is fixed."""

    sharers: frozenset[int] = EVERYBODY
    summed: frozenset[int] = EVERYBODY - DROPOUTS
    work: Round = field(default_factory=lambda: Round.make(N, layout=LAYOUT))
    sketch: Sketch = field(default_factory=lambda: Sketch(b"\7" * 32, LAYOUT.length, 32, METRICS))

    def __post_init__(self) -> None:
        generator = np.random.default_rng(5)
        size = LAYOUT.length + METRICS
        self.updates = {p: generator.integers(-1000, 1000, size).astype(np.int32).view("<u4") for p in self.sharers}
        self.keys = {p: mask_keys(self.work.graph, p, self.work.secrets[p], self.sharers) for p in self.sharers}
        self.masks = {p: sketched_masks(self.sketch, keys) for p, keys in self.keys.items()}
        self.uploads = {p: self.masked(p) for p in self.sharers}
        self.vouched = {p: self.voucher(p) for p in self.sharers}

    def masked(self, position: int) -> np.ndarray:
        words = self.updates[position].copy()
        apply_masks(words, masks_of(self.keys[position], N, LAYOUT, behind=METRICS))
        return words

    def voucher(self, position: int) -> Vouched:
        own, *pairs = self.masks[position]
        partners = [key.pair[1] for key in self.keys[position][1:] if key.pair]
        commitments = {partner: mask.commitment for partner, mask in zip(partners, pairs, strict=True)}
        return Vouched(self.sketch.of(self.uploads[position]), own.commitment, commitments)

    @property
    def record(self) -> RecoveryRecord:
        seeds = {p: self.work.secrets[p].self_seed for p in sorted(self.summed)}
        secrets = {p: self.work.secrets[p].mask_secret for p in sorted(self.sharers - self.summed)}
        return RecoveryRecord(bytes(32), seeds, secrets)

    def left(self, members: frozenset[int] | None = None) -> list[MaskKey]:
        return worn(left_over(self.work.graph, self.summed if members is None else members, self.record))

    def outer_of(self, position: int) -> OuterMasks:
        """What the member itself says: it knows its masks already."""
        chosen = [
            (key, mask)
            for key, mask in zip(self.keys[position], self.masks[position], strict=True)
            if key.pair is None or key.pair[1] not in self.summed
        ]
        return OuterMasks.of(*map(list, zip(*chosen, strict=True)))

    @property
    def opened(self) -> np.ndarray:
        total = np.zeros(LAYOUT.length + METRICS, "<u4")
        for position in self.summed:
            total += self.uploads[position]
        taken = [replace(key, subtract=not key.subtract) for key in self.left()]
        apply_masks(total, masks_of(taken, N, LAYOUT, behind=METRICS))
        return total

    def holds(self, outer: OuterMasks | None = None) -> bool:
        outer = outer or OuterMasks.recomputed(self.sketch, self.left())
        return equation_holds({p: self.vouched[p] for p in self.summed}, self.sketch.of(self.opened), outer)

    def change(self, position: int, **fields: object) -> None:
        self.vouched[position] = replace(self.vouched[position], **fields)


@lru_cache
def usual() -> Play:
    """A round that no test changes."""
    return Play()


SHIFT = WORDS[0] * 5
"""What a commitment is changed by when the first word it is to is said to be 5 more."""


# Commitments


def test_both_ends_of_a_pair_commit_to_the_same_and_their_masks_cancel():
    play = Play()
    for position in play.sharers:
        for partner, point in play.vouched[position].pairs.items():
            assert play.vouched[partner].pairs[position] == point
    assert (
        len({point for each in play.vouched.values() for point in each.pairs.values()})
        == sum(len(each.pairs) for each in play.vouched.values()) // 2
    )


def test_a_commitment_opens_to_the_sketch_and_a_blinding_from_the_key():
    sketch, key = Sketch(b"\7" * 32, 40, 32, 2), MaskKey(b"k" * 32, True, (1, 2))
    (mask,) = sketched_masks(sketch, [key])
    stream = np.zeros(42, "<u4")
    apply_masks(stream, [Mask(key.key, False, ((0, 42),))])
    assert mask.values.tolist() == sketch.of(stream).tolist()
    expected = BLINDING[0] * mask.blinding
    for place, value in enumerate(mask.values.tolist()):
        expected += WORDS[place] * value
    assert mask.commitment == expected and 0 <= mask.blinding < ORDER


def test_blindings_differ_by_key_kind_and_seed():
    pair, alone = MaskKey(b"k" * 32, False, (1, 2)), MaskKey(b"k" * 32, False)
    found = {
        blinding_of(seed, key)
        for seed in (bytes(32), b"\1" * 32)
        for key in (pair, alone, replace(pair, key=bytes(32)))
    }
    assert len(found) == 6
    assert blinding_of(bytes(32), pair) == blinding_of(bytes(32), MaskKey(b"k" * 32, True, (2, 1)))


def test_secrets_are_not_shown():
    mask = SketchedMask(np.array([123456], "<u4"), 987654)
    outer = OuterMasks(np.array([123456]), 987654, 1)
    assert not any(secret in repr(each) for each in (mask, outer) for secret in ("123456", "987654"))


# The equation of an honest round


@settings(max_examples=12, deadline=None)
@given(st.sets(st.integers(0, N - 1), max_size=3), st.sets(st.integers(0, N - 1), max_size=2))
def test_it_holds_whoever_drops_out(dropouts, unshared):
    play = Play(EVERYBODY - unshared, EVERYBODY - unshared - dropouts)
    assert play.holds()
    assert np.array_equal(play.opened, sum((play.updates[p] for p in play.summed), np.zeros(42, "<u4")))
    assert play.holds(total_of(play.outer_of(p) for p in play.summed))
    for position in play.summed:
        own = OuterMasks.recomputed(play.sketch, play.left(frozenset({position})))
        assert own.to_bytes() == play.outer_of(position).to_bytes() and own.blinding == play.outer_of(position).blinding
        assert commitments_agree({position: play.vouched[position]}, play.summed, own)


def test_outer_pairs_are_those_with_partners_outside():
    play = Play()
    partners = {p: play.vouched[p].pairs for p in play.summed}
    found = list(outer_pairs(partners, play.summed))
    assert found == sorted(found)
    assert set(found) == {(p, q) for p in play.summed for q in play.work.graph.neighbours[p] if q in DROPOUTS}
    opened = {(survivor, dropout) for dropout, survivor in (key.pair for key in play.left() if key.pair)}
    assert opened == set(found)


def test_groups_have_an_equation_each():
    groups = ((0, 1, 2, 3), (4, 5, 6, 7))
    whole = Play(work=Round.make(N, layout=LAYOUT, groups=groups))
    for group in groups:
        assert replace(whole, summed=frozenset(group) - DROPOUTS).holds()


def test_what_a_member_proves_is_its_update_and_a_multiple_of_two_to_the_32():
    """S·q + β + Σ σ·w − ŷ = 2³²·c over the integers, with small c: what a voucher's carries are."""
    play = Play()
    for position in play.sharers:
        total = play.sketch.of(play.updates[position]).view(np.int32).astype(np.int64)
        total += OuterMasks.of(play.keys[position], play.masks[position]).values
        total -= play.vouched[position].upload
        assert not (total % 2**32).any() and np.abs(total >> 32).max() <= len(play.keys[position]) + 1


# Lies, and what each check is for


def test_a_monster_fails_the_words_alone():
    """A member's ŷ says less than its upload: commitments agree, so without the words it would pass."""
    play = Play()
    play.change(3, upload=play.vouched[3].upload - np.uint32(9))
    outer = OuterMasks.recomputed(play.sketch, play.left())
    assert not play.holds()
    assert commitments_agree({p: play.vouched[p] for p in play.summed}, play.summed, outer)


@pytest.mark.parametrize("lie", ["own", "pair"])
def test_a_false_commitment_fails_the_commitments_alone(lie):
    """B, or W on an edge to a dropout, is to other words: the words agree, so without commitments it would pass."""
    play = Play()
    position, partner = next(outer_pairs({p: play.vouched[p].pairs for p in play.summed}, play.summed))
    vouched = play.vouched[position]
    if lie == "own":
        play.change(position, own=vouched.own + SHIFT)
    else:
        play.change(position, pairs={**vouched.pairs, partner: vouched.pairs[partner] + SHIFT})
    outer = OuterMasks.recomputed(play.sketch, play.left())
    assert words_agree([play.vouched[p].upload for p in play.summed], play.sketch.of(play.opened), outer)
    assert not play.holds(outer)
    failing = [
        p
        for p in sorted(play.summed)
        if not commitments_agree(
            {p: play.vouched[p]}, play.summed, OuterMasks.recomputed(play.sketch, play.left(frozenset({p})))
        )
    ]
    assert failing == [position]


def test_lies_on_an_edge_inside_the_sum_change_nothing():
    play = Play()
    position = min(play.summed)
    partner = next(q for q in play.vouched[position].pairs if q in play.summed)
    for one, other in ((position, partner), (partner, position)):
        play.change(one, pairs={**play.vouched[one].pairs, other: SHIFT})
    assert play.holds()


def test_lies_that_cancel_within_the_coalition_change_nothing():
    play = Play()
    first, second = sorted(play.summed)[:2]
    play.change(first, own=play.vouched[first].own + SHIFT)
    play.change(second, own=play.vouched[second].own - SHIFT)
    assert play.holds()


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(EVERYBODY - DROPOUTS)), st.integers(0, 33), st.integers(1, 2**32 - 1))
def test_misstated_outer_masks_fail(position, place, shift):
    play = usual()
    parts = {p: play.outer_of(p) for p in play.summed}
    values = parts[position].values.copy()
    values[place] += shift
    parts[position] = replace(parts[position], values=values)
    assert not play.holds(total_of(parts.values()))
    assert not commitments_agree({position: play.vouched[position]}, play.summed, parts[position])
    blinded = replace(play.outer_of(position), blinding=(play.outer_of(position).blinding + shift) % ORDER)
    assert not commitments_agree({position: play.vouched[position]}, play.summed, blinded)


def test_another_sum_fails():
    play = Play()
    sketched = play.sketch.of(play.opened)
    outer = OuterMasks.recomputed(play.sketch, play.left())
    vouched = {p: play.vouched[p] for p in play.summed}
    assert equation_holds(vouched, sketched, outer)
    for place in range(len(sketched)):
        other = sketched.copy()
        other[place] += 1
        assert not equation_holds(vouched, other, outer)


# Ω as bytes


def test_outer_masks_are_read_as_they_were_written():
    play = Play()
    outer, left = OuterMasks.recomputed(play.sketch, play.left()), play.left()
    data = outer.to_bytes()
    assert len(data) == 8 * play.sketch.width == outer_bytes(play.sketch)
    read = OuterMasks.parse(data, play.sketch, left)
    assert np.array_equal(read.values, outer.values) and (read.blinding, read.masks) == (outer.blinding, outer.masks)
    assert read.to_bytes() == data and play.holds(read)


@pytest.mark.parametrize("size", [0, -1, 1, 8])
def test_outer_masks_of_another_size_are_refused(size):
    play = usual()
    data = bytes(size) if size == 0 else bytes(outer_bytes(play.sketch) + size)
    with pytest.raises(InvalidContent, match="bytes"):
        OuterMasks.parse(data, play.sketch, play.left())


def test_words_that_the_masks_cannot_add_up_to_are_refused():
    sketch = Sketch(b"\7" * 32, 40, 32, 2)
    keys = [MaskKey(b"a" * 32, False), MaskKey(b"b" * 32, False, (0, 1)), MaskKey(b"c" * 32, True, (2, 1))]
    top = 2**32 - 1
    for value, fine in ((2 * top, True), (2 * top + 1, False), (-top, True), (-top - 1, False), (2**63 - 1, False)):
        words = np.zeros(sketch.width, "<i8")
        words[7] = value
        if fine:
            assert OuterMasks.parse(words.tobytes(), sketch, keys).values[7] == value
        else:
            with pytest.raises(InvalidContent, match="cannot add up"):
                OuterMasks.parse(words.tobytes(), sketch, keys)


def test_without_the_range_another_number_would_have_the_same_commitment():
    """Ω + order is another word modulo 2³² and commits to the same: no 8 bytes hold it."""
    values = [7] + [0] * 9
    shifted = [7 + ORDER] + [0] * 9
    assert commit(values, 3) == commit(shifted, 3) and (7 + ORDER) % 2**32 != 7 and ORDER >> 63


def test_more_masks_than_int64_can_add_up_are_refused():
    part = OuterMasks(np.zeros(3, np.int64), 0, 1 << 29)
    assert total_of([part, part]).masks == 1 << 30
    with pytest.raises(ValueError, match="more than"):
        total_of([part, part, part])
