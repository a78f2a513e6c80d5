"""Protocol attacks find nothing in a round, and find the weights where masks are missing or made of public values."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.prg import Mask, apply_masks
from fedgrove.node.masking.ring import encode
from fedgrove_lab.attacks.played_round import AttackedTerms, PlayedRound, play_round
from fedgrove_lab.attacks.protocol import (
    bare_tensors,
    by_tensor,
    colluding_partners_off,
    group_sums,
    mean_word,
    opened_shares,
    public_guesses,
    recovered_masks,
    trace,
    true_secrets_off,
    without,
)

LAYOUT = Layout(("bias", "hidden", "kernel"), ((10,), (40, 100), (1000,)))
TERMS = AttackedTerms()
DROPOUT = 2
FAR = 4.5  # standard errors; the largest of a hundred tries exceeds that once in 1,500 times


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(0)
    return [generator.normal(0, 0.2, LAYOUT.length).astype(np.float32) for _ in range(TERMS.clients)]


def play(vectors, number: int = 1) -> PlayedRound:
    return play_round(TERMS, number, vectors, LAYOUT, Random(number).randbytes, {DROPOUT})


@pytest.fixture(scope="module")
def played(vectors):
    return play(vectors)


@pytest.fixture(scope="module")
def bare(vectors):
    return {p: encode(vector, LAYOUT, 1, TERMS.clients, TERMS.bound) for p, vector in enumerate(vectors)}


def test_the_upload_itself_does_not_correlate(played, vectors, bare):
    assert trace([(played.public.updates[0], vectors[0])]).deviations < FAR
    assert trace([(bare[0], vectors[0])]).correlation > 0.999


def test_masks_cannot_be_made_of_what_is_public(played, vectors):
    tries = [(without(played.public.updates[0], masks), vectors[0]) for masks in public_guesses(played.public, 0)]
    found = trace(tries)
    assert found.tries >= 8 and found.deviations < FAR and abs(found.bytes_off) < 5


def test_masks_that_are_made_of_what_is_public_are_found(played, vectors, bare):
    """A broken client that masks with its public key in place of its secret."""
    for guess in public_guesses(played.public, 0):
        words = bare[0].copy()
        apply_masks(words, [Mask(mask.key, not mask.subtract, mask.spans) for mask in guess])
        assert trace([(words, vectors[0])]).deviations < FAR
        tries = [(without(words, masks), vectors[0]) for masks in public_guesses(played.public, 0)]
        assert trace(tries).correlation > 0.999


def test_a_recovery_record_gives_no_single_update(played, vectors):
    public = played.public
    survivors = [(without(words, recovered_masks(public, p)), vectors[p]) for p, words in public.updates.items()]
    late = [(without(words, recovered_masks(public, p)), vectors[p]) for p, words in public.late.items()]
    assert len(survivors) == 7 and len(late) == 1
    assert trace(survivors + late).deviations < FAR


def test_all_partners_together_and_the_client_itself_take_the_masks_off(played, vectors):
    upload = played.public.updates[0]
    for masks in (true_secrets_off(played, 0), colluding_partners_off(played, 0)):
        assert trace([(without(upload, masks), vectors[0])]).correlation > 0.999
    assert trace([(without(upload, colluding_partners_off(played, 0, 1)), vectors[0])]).deviations < FAR
    late = without(played.public.late[DROPOUT], true_secrets_off(played, DROPOUT))
    assert trace([(late, vectors[DROPOUT])]).correlation > 0.999


def test_sums_of_some_uploads_stay_masked(played, vectors, bare):
    weights = dict(enumerate(vectors))
    assert trace(group_sums(played.public.updates, weights)).deviations < FAR
    assert trace(group_sums(bare, weights)).correlation > 0.999


def test_averages_over_rounds_stay_masked(vectors, bare):
    uploads = [play(vectors, number).public.updates[0] for number in range(1, 9)]
    assert trace([(mean_word(uploads), vectors[0])]).deviations < FAR
    assert trace([(mean_word([bare[0]] * 8), vectors[0])]).correlation > 0.999


def test_masks_that_come_again_would_show_the_difference_of_two_rounds(vectors):
    """The average attack can fail: with the same masks the change of the weights is bare."""
    first = play_round(TERMS, 1, vectors, LAYOUT, Random(1).randbytes)
    changed = [vector + np.float32(0.1) * vectors[1] for vector in vectors]
    again = play_round(TERMS, 1, changed, LAYOUT, Random(1).randbytes)
    difference = again.public.updates[0] - first.public.updates[0]
    assert trace([(difference, vectors[1])]).correlation > 0.999


def test_a_bare_tensor_is_found_and_a_masked_one_is_not(played, vectors, bare):
    words = played.public.updates[0].copy()
    assert bare_tensors(words, LAYOUT, 1 << 29) == ()
    words[-1000:] = bare[0][-1000:]
    assert bare_tensors(words, LAYOUT, 1 << 29) == ("kernel",)
    assert trace(by_tensor(words, vectors[0], LAYOUT)).correlation > 0.999
    assert trace(by_tensor(played.public.updates[0], vectors[0], LAYOUT)).deviations < FAR


def test_sealed_shares_stay_sealed(played):
    assert opened_shares(played.public) == (0, 56)
    stolen = replace(
        played.public.record, self_seeds={**played.public.record.self_seeds, 0: played.secrets[0].seal_secret}
    )
    assert opened_shares(replace(played.public, record=stolen)) == (7, 56)
