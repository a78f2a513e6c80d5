"""What attackers see is what the mechanisms make."""

import math

import numpy as np
import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import flatten
from fedgrove.node.learning.samples import Dataset, as_samples
from fedgrove_lab.attacks.measures import correlation, correlation_error
from fedgrove_lab.attacks.played_round import AttackedTerms
from fedgrove_lab.attacks.scene import make_scene
from fedgrove_lab.attacks.uploads import KINDS, Noise, noised, seen
from tests.lab.attacks.scenes import digits


@pytest.fixture(scope="module")
def models():
    scene = digits()
    before = scene.initial()
    return before, {name: value + np.float32(0.01) * scene.initial(number=5)[name] for name, value in before.items()}


def test_a_plain_upload_is_the_model(models):
    assert seen("plain", *models, AttackedTerms(), Noise(), digits().random()) is models[1]


def test_a_masked_one_is_nothing_like_it(models):
    words = flatten(seen("masked", *models, AttackedTerms(), Noise(), digits().random("m")))
    assert words.std() == pytest.approx(2 * 8 * 8 / math.sqrt(3), rel=0.03)  # uniform in ±2·bound·clients
    assert abs(correlation(words, flatten(models[1]))) < 4 * correlation_error(len(words))


@pytest.mark.parametrize(("kind", "factor"), [("noise", 1.0), ("one share", 1 / 5)])
def test_noise_has_the_promised_deviation_and_the_update_below_it(models, kind, factor):
    update = flatten(models[1]) - flatten(models[0])
    upload = flatten(seen(kind, *models, AttackedTerms(), Noise(2.0, 25), digits().random(kind))) - flatten(models[0])
    length = np.linalg.norm(update)
    assert np.std(upload - update) == pytest.approx(2 * factor * length, rel=0.03)


def test_the_mean_of_many_noisy_uploads_is_the_update(models):
    update = flatten(models[1]) - flatten(models[0])
    random = digits().random("mean")
    mean = np.mean([noised(update, Noise(0.01, 1), 1, random) for _ in range(20)], axis=0)
    assert correlation(mean, update) > 0.8


def test_another_kind_and_impossible_noise_are_refused(models):
    with pytest.raises(InvalidInput, match=f"choose one of {', '.join(KINDS)}"):
        seen("bare", *models, AttackedTerms(), Noise(), digits().random())
    with pytest.raises(InvalidInput, match="noise multiplier must be"):
        Noise(float("nan"))
    with pytest.raises(InvalidInput, match="shared by 1 to"):
        Noise(1.0, 0)


@pytest.mark.parametrize(
    ("shape", "classes", "sentence"),
    [((1500, 3, 8, 8), 2, "one channel"), ((900, 8, 8), 2, "1,000 training samples"), ((1500, 8, 8), 1, "two classes")],
)
def test_data_that_no_trial_can_use_are_refused(shape, classes, sentence):
    samples = as_samples(np.zeros(shape, np.uint8), np.arange(shape[0]) % classes)
    with pytest.raises(InvalidInput, match=sentence):
        make_scene(Dataset("own", classes, samples, samples))


def test_a_class_that_the_attacker_has_no_image_of_is_refused():
    labels = np.arange(1500) % 2
    labels[0] = 2
    samples = as_samples(np.zeros((1500, 8, 8), np.uint8), labels)
    with pytest.raises(InvalidInput, match="several training samples of each"):
        make_scene(Dataset("own", 3, samples, samples))
