"""Model and GAN inversion on digits: an evaluator recognises what a bare model gives away, and no masked one."""

from dataclasses import replace

import numpy as np

from fedgrove.node.learning.reproducible import reproducible
from fedgrove_lab.attacks.kedmi import GanSettings, attacked_model, search_classes, teach_gan
from fedgrove_lab.attacks.trials import model
from tests.lab.attacks.scenes import digits


def test_classes_are_recognised_in_a_bare_model_and_not_in_a_masked_one():
    with reproducible():
        kinds = model.run(digits()).results["kinds"]
    assert kinds["plain"]["recognised"] >= 0.6
    assert all(kinds[kind]["recognised"] <= 0.3 for kind in ("masked", "noise", "one share"))


def test_the_share_has_the_error_of_a_proportion():
    found = model.share_of(np.array([True, False, False, False]))
    assert found == {"recognised": 0.25, "error": (0.25 * 0.75 / 4) ** 0.5, "images": 4}


def through_gan(scene, weights, sizes: GanSettings) -> np.ndarray:
    attacked = attacked_model(scene.spec, weights)
    gan = teach_gan(attacked, scene.spec, scene.public.x, sizes, seed=1)
    return search_classes(attacked, gan, 10, sizes, 5, scene.generator("gan"))


def test_a_generator_is_searched_for_images_that_convince_the_model_alike_twice():
    scene, short = digits(), GanSettings(steps=5, search_steps=5)
    with reproducible():
        weights = scene.trained(scene.initial(), scene.private, replace(model.default_settings("digits"), epochs=8), 1)
        assert np.array_equal(through_gan(scene, weights, short), through_gan(scene, weights, short))
        found = through_gan(scene, weights, GanSettings(steps=150, search_steps=100))
        sure = model.recognised(scene.spec, weights, found.reshape(-1, 1, 8, 8), np.repeat(np.arange(10), 5))
    assert found.shape == (10, 5, 1, 8, 8) and found.min() >= 0 and found.max() <= 1
    assert sure.mean() >= 0.5  # whether others recognise them is the figure of a long run
