"""Attackers change what is theirs, from their first round on, and nothing else."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedgrove.node.base.tensors import Layout
from fedgrove.node.learning.samples import Samples
from fedgrove.node.masking.ring import encode
from fedgrove.node.scenario.clusters import GlobalSettings
from fedgrove.node.scenario.poisoning import ATTACKS, AttackSettings
from fedgrove.node.simulation.clustered.attackers import Attackers, Showing, Weighing, attackers_of
from fedgrove.node.simulation.record import RunRecord
from fedgrove.node.simulation.uploads import ClientPart
from tests.node.simulation.clustered.conftest import grouped_plan, simulate

LAYOUT = Layout(("w",), ((50,),))
START = np.zeros(50, np.float32)
TRAINED = np.linspace(-1, 1, 50, dtype=np.float32)
WEIGHTS = {1: Fraction(1, 3), 2: Fraction(2, 3)}


def attackers(kind="sign-flip", start=2, **settings) -> Attackers:
    return Attackers(frozenset({2}), AttackSettings(kind, start=start, **settings), 7)


def turn(client: int, number: int) -> ClientPart:
    return ClientPart(client, number, 7, 10, 30)


def test_honest_clients_send_what_they_trained_and_attackers_from_their_first_round_on():
    weighing = Weighing(8.0, attackers(factor=2), weights=WEIGHTS)
    for client, number, sent in ((1, 5, TRAINED), (2, 1, TRAINED), (2, 2, -2 * TRAINED)):
        words = weighing.encode(TRAINED.copy(), START, LAYOUT, turn(client, number))
        weight = WEIGHTS[client]
        assert np.array_equal(words, encode(sent, LAYOUT, weight.numerator, weight.denominator, 8.0))


def test_attackers_keep_within_the_bound_and_what_they_made_diverge_counts_as_no_update():
    bound = 8.0
    weighing = Weighing(bound, attackers("scaled", factor=100), weights={1: Fraction(1), 2: Fraction(1)})
    words = weighing.encode(TRAINED.copy(), START, LAYOUT, turn(2, 2))
    assert np.array_equal(words, encode(np.clip(100 * TRAINED, -bound, bound), LAYOUT, 1, 1, bound))
    for lost in (np.full(50, np.nan, np.float32), 9 * TRAINED):
        for client in (1, 2):
            found = weighing.encode(lost.copy(), START, LAYOUT, turn(client, 1))
            assert np.array_equal(found, encode(START, LAYOUT, 1, 1, bound))
    assert weighing.private and Weighing(bound, weights=WEIGHTS).private


def test_a_shown_model_is_the_sent_one_with_noise_as_long_as_asked():
    bare = Showing(8.0, attackers()).encode(TRAINED.copy(), START, LAYOUT, turn(2, 3)).view("<f4")
    assert np.array_equal(bare, -TRAINED)
    noisy = Showing(8.0, None, noise=1.0, seed=7)
    lengths = []
    for number in range(1, 200):
        noise = noisy.encode(TRAINED.copy(), START, LAYOUT, turn(1, number)).view("<f4") - TRAINED
        lengths.append(float(np.square(noise).sum()))
    assert np.sqrt(np.mean(lengths)) == pytest.approx(np.linalg.norm(TRAINED), rel=0.05)


@pytest.mark.parametrize("kind", ATTACKS)
def test_only_the_attackers_samples_are_poisoned(kind):
    rng = np.random.default_rng(1)
    samples = Samples(rng.random((30, 1, 8, 8), dtype=np.float32), rng.integers(0, 10, 30))
    parts = (np.arange(0, 15), np.arange(15, 30))
    who = attackers(kind)
    found = who.poisoned(samples, parts, 10)
    assert np.array_equal(found.x[:15], samples.x[:15]) and np.array_equal(found.y[:15], samples.y[:15])
    changed = not (np.array_equal(found.x, samples.x) and np.array_equal(found.y, samples.y))
    assert changed == who.poison_samples == (kind in ("label-flip", "backdoor"))
    again = who.poisoned(samples, parts, 10)
    assert np.array_equal(found.x, again.x) and np.array_equal(found.y, again.y)


def test_concentrated_attackers_are_a_majority_somewhere_whatever_method_is_attacked():
    counts = np.zeros((20, 4), np.int64)
    counts[np.arange(20), np.arange(20) % 4] = 10
    settings = AttackSettings("scaled", 0.2, "concentrated", majority=0.8)
    plan = grouped_plan(clients=20, attack=settings, method=GlobalSettings())
    found = attackers_of(plan, counts)
    groups = [sum(client % 4 == rest for client in found.clients) for rest in range(4)]
    assert sorted(groups) == [0, 0, 0, 4]
    assert attackers_of(replace(plan, attack=None), counts) is None


def test_a_backdoor_is_reached_where_the_trigger_gets_its_label_and_no_other_attack_hides():
    test = Samples(np.zeros((6, 1, 8, 8), np.float32), np.array([0, 1, 2, 0, 1, 2]))
    aim = ATTACKS["backdoor"].aim(test)
    assert len(aim) == 4 and not aim.y.any(), "samples that have the label anyway show nothing"
    assert (aim.x[:, :, -3:, -3:] == 1).all() and aim.x.sum() == 4 * 9
    assert [kind for kind, attack in ATTACKS.items() if attack.aim(test) is not None] == ["backdoor"]


def test_a_run_says_how_far_a_backdoor_was_reached(digits):
    settings = GlobalSettings()
    attack = AttackSettings("backdoor", 0.4, start=2)
    record = simulate(grouped_plan(method=settings, attack=attack, evaluate_every=4), digits).record
    assert [result.clustering.backdoor is None for result in record.rounds] == [True, True, True, False]
    assert record.rounds[-1].clustering.backdoor > 0.3
    assert RunRecord.from_json(json.loads(record.to_bytes())) == record
    plain = simulate(grouped_plan(method=settings, evaluate_every=4), digits).record
    assert b"backdoor" not in plain.to_bytes()
