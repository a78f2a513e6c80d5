"""A verifier that was written from the documentation alone judges vouchers as the product does."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.masking.bounds.deposition import Deposition
from fedgrove.node.masking.bounds.knowledge import SharedPoint
from fedgrove.node.masking.bounds.sketch import Sketch, norm_limit, sketch_seed, words_needed
from fedgrove.node.masking.bounds.vouching import Bounds, Setting, valid_vouchers, vouch
from fedgrove.node.masking.client import mask_keys
from fedgrove.node.masking.prg import Mask, apply_masks
from fedgrove.node.masking.ring import WORD, fraction_bits
from tests.node.masking.bounds import reference_verifier
from tests.node.masking.bounds.reference_verifier import (
    Figures,
    is_valid,
    mask_commitment,
    revealed_keys,
    self_key,
    sketch,
    sketch_in,
)
from tests.node.masking.rounds import CONTEXT, Round, seeded

LENGTH, LIMITS = 500, (1000, 1)
NORM, BOUND, PPM = 0.75, 10.0, 330_000
BLOCK_HASH = bytes(range(32))
MEMBERS, POSITION = 9, 4
SHARERS = frozenset(range(MEMBERS)) - {2}


class Example:
    """A round up to the voucher of one member in the middle, with a member that never shared."""

    def __init__(self) -> None:
        self.round = Round.make(MEMBERS, 5, mode="bbtsa")
        graph, random, generator = self.round.graph, seeded(8), np.random.default_rng(8)
        uploads: dict[int, bytes] = {}
        for position in (3, 0, 4, 7, 8, 1, 6):  # in the order of the ledger; 5 never commits
            share = graph.participants[position].samples / graph.total_samples
            update = generator.normal(size=LENGTH)
            update *= 0.99 * NORM * share * 2 ** fraction_bits(BOUND) / np.linalg.norm(update)
            words = np.append(np.rint(update).astype(np.int64), [1000, 0]).astype(WORD)
            keys = mask_keys(graph, position, self.round.secrets[position], SHARERS)
            apply_masks(words, [Mask(key.key, key.subtract, ((0, len(words)),)) for key in keys])
            uploads[position] = words.tobytes()
        self.upload = uploads[POSITION]
        digests = {position: hashlib.sha256(data).digest() for position, data in uploads.items()}
        words = words_needed(PPM * MEMBERS // 1_000_000)
        bits, total = fraction_bits(BOUND), graph.total_samples
        bounds = {
            p: Bounds(norm_limit(NORM, graph.participants[p].samples, total, bits, LENGTH), LIMITS) for p in digests
        }
        seed = sketch_seed(CONTEXT, BLOCK_HASH, digests.values())
        self.setting = Setting(graph, SHARERS, Sketch(seed, LENGTH, words, len(LIMITS)), digests, bounds)
        masked = np.frombuffer(self.upload, WORD)
        self.voucher = vouch(self.setting, POSITION, self.round.secrets[POSITION], masked, random)
        self.figures = Figures(
            chain=CONTEXT.chain_id,
            ledger=bytes.fromhex(CONTEXT.ledger[2:]),
            round=CONTEXT.round,
            participants=[(p.client, p.samples, p.mask_key, p.seal_key) for p in graph.participants],
            partners=list(graph.neighbours),
            holders=list(graph.holders),
            threshold=graph.threshold,
            groups=[(group.quota, group.positions, group.counted) for group in graph.groups],
            sharers=set(SHARERS),
            uploads=digests,
            block_hash=BLOCK_HASH,
            norm=NORM,
            width=0,
            bound=BOUND,
            colluders_ppm=PPM,
            length=LENGTH,
            limits=list(LIMITS),
        )

    def product_accepts(self, voucher: bytes) -> bool:
        return POSITION in valid_vouchers(self.setting, {POSITION: voucher})

    @property
    def parts(self) -> dict[str, int]:
        """Where the last byte of each part of the voucher is."""
        words, partners = self.setting.sketch.width, len(self.setting.partners(POSITION))
        sizes = {
            "magic": 4,
            "sketch": 4 * words,
            "V": 33,
            "B": 33,
            "last W": 33 * partners,
            "knowledge, challenge": 32,
            "knowledge, response": 32,
            "A": 33,
            "M_v": 33,
            "M_c": 33,
            "M_a": 33,
            "projections": 128 * 14,
            "T_1": 33,
            "T_0": 33,
            "w": 32,
            "v": 32 * words,
            "c": 32 * words,
            "roots": 32 * (4 + 3 * len(LIMITS)),
            "y": 32 * 128,
            "r_V": 32,
            "r_C": 32,
            "r_A": 32,
            "r_T": 32,
        }
        ends = np.cumsum(list(sizes.values()))
        assert ends[-1] == len(self.voucher)
        return dict(zip(sizes, (ends - 1).tolist(), strict=True))


@pytest.fixture(scope="module")
def example():
    return Example()


@pytest.fixture(autouse=True, scope="module")
def computed_once():
    """Generators do not depend on a voucher."""
    with pytest.MonkeyPatch.context() as patch:
        known: dict[bytes, tuple[int, int]] = {}
        original = reference_verifier.hashed_point

        def hashed_point(label):
            if label not in known:
                known[label] = original(label)
            return known[label]

        patch.setattr(reference_verifier, "hashed_point", hashed_point)
        yield


def test_a_voucher_of_the_product_is_valid(example):
    assert example.product_accepts(example.voucher)
    assert is_valid(example.figures, POSITION, example.voucher)


def test_its_sketch_is_that_of_the_upload(example):
    stated = sketch_in(example.figures, example.voucher)
    assert sketch(example.figures, example.upload) == stated
    other = bytes([example.upload[0] ^ 1]) + example.upload[1:]
    assert sketch(example.figures, other) != stated


def test_the_figures_that_follow_from_others_are_those_of_the_product(example):
    figures, setting = example.figures, example.setting
    assert figures.graph_digest == setting.graph.digest
    assert figures.seed == setting.sketch.seed
    assert tuple(figures.masked_with(POSITION)) == setting.partners(POSITION) != setting.graph.neighbours[POSITION]
    for bound in (2.0**-20, 0.3, 1.0, 8.0, 8.5, 2.0**20):
        for norm in (1e-3, 0.1, 1 / 3):
            public = replace(figures, bound=bound, norm=norm)
            samples, total = setting.graph.participants[POSITION].samples, setting.graph.total_samples
            assert public.norm_squared(POSITION) == norm_limit(norm, samples, total, fraction_bits(bound), LENGTH)
    for members in (3, 484, 485, 488, 1300, 9000):
        public = replace(figures, participants=[(1, 1, b"", b"")] * members)
        assert public.words == words_needed(PPM * members // 1_000_000)


PARTS = [
    "magic",
    "sketch",
    "V",
    "B",
    "last W",
    "knowledge, challenge",
    "knowledge, response",
    "A",
    "M_v",
    "M_c",
    "M_a",
    "projections",
    "T_1",
    "T_0",
    "w",
    "v",
    "c",
    "roots",
    "y",
    "r_V",
    "r_C",
    "r_A",
    "r_T",
]


@pytest.mark.parametrize("part", PARTS)
def test_a_voucher_that_was_changed_in_one_part_is_not(example, part):
    at = example.parts[part]
    changed = example.voucher[:at] + bytes([example.voucher[at] ^ 1]) + example.voucher[at + 1 :]
    assert not example.product_accepts(changed)
    assert not is_valid(example.figures, POSITION, changed)


@pytest.mark.parametrize("size", [-1, 1])
def test_a_voucher_of_another_length_is_not(example, size):
    voucher = example.voucher[:size] if size < 0 else example.voucher + b"\0"
    assert not example.product_accepts(voucher) and not is_valid(example.figures, POSITION, voucher)


@pytest.mark.parametrize(
    "change",
    [
        {"round": CONTEXT.round + 1},
        {"chain": CONTEXT.chain_id + 1},
        {"block_hash": bytes(32)},
        {"norm": NORM * 0.999},
        {"limits": [999, 1]},
        {"threshold": 3},
        {"sharers": set(range(MEMBERS))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_voucher_is_valid_for_no_other_figures(example, change):
    assert not is_valid(replace(example.figures, **change), POSITION, example.voucher)


def test_a_voucher_is_valid_for_no_other_upload(example):
    uploads = example.figures.uploads | {POSITION: bytes(32)}
    assert not is_valid(replace(example.figures, uploads=uploads), POSITION, example.voucher)


def test_a_reveal_gives_the_mask_that_both_ends_commit_to(example):
    figures, graph, secrets = example.figures, example.round.graph, example.round.secrets
    partner = example.setting.partners(POSITION)[-1]
    own, other = (graph.participants[position].mask_key for position in (POSITION, partner))
    context = b"".join(
        (b"fedgrove reveal 1", graph.digest, graph.client(POSITION).to_bytes(4), graph.client(partner).to_bytes(4))
    )
    shared = SharedPoint.prove(secrets[POSITION].mask_secret, other, context, seeded(3))
    assert shared.verify(own, other, context)
    blob = Deposition(POSITION, (3,), {partner: shared}).to_bytes(example.setting)
    assert Deposition.parse(blob, example.setting, POSITION).reveals == {partner: shared}
    (key,) = revealed_keys(figures, POSITION, blob).values()
    start = 4 + 4 * example.setting.sketch.width
    last = 33 * (2 + len(example.setting.partners(POSITION)))
    points = [example.voucher[at : at + 33] for at in range(start, start + last, 33)]
    assert mask_commitment(figures, key, b"fedgrove edge blinding 1") == points[-1]
    own_key = self_key(figures, secrets[POSITION].self_seed, POSITION)
    assert mask_commitment(figures, own_key, b"fedgrove self blinding 1") == points[1]
    changed = blob[:-1] + bytes([blob[-1] ^ 1])
    assert not revealed_keys(figures, POSITION, changed)
