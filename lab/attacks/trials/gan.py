"""GAN inversion: images of the classes that a client's model knows, as real as public ones."""

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from fedgrove.node.learning.settings import default_settings
from fedgrove_lab.attacks.kedmi import GanSettings, attacked_model, search_classes, teach_gan
from fedgrove_lab.attacks.scene import Scene, TrialFinding
from fedgrove_lab.attacks.trials.model import recognised, recognition_table, train_evaluator
from fedgrove_lab.attacks.uploads import MASKED, NOISE, PLAIN, seen

NAME = "gan"
TITLE = "GAN inversion"
SOURCE = "Chen et al. 2021, KEDMI"
IMAGES = 20


def run(scene: Scene) -> TrialFinding:
    """Invert one client's upload through a GAN, by kind of upload; an evaluator says what it sees."""
    large = len(scene.private) >= 20_000
    settings = replace(default_settings(scene.dataset), epochs=3 if large else 15)
    learned = 6000 if large else len(scene.public)
    evaluator = train_evaluator(scene, settings, 2 * learned if large else learned)
    before, after = scene.initial(), scene.trained(scene.initial(), scene.share(0, min(3000, learned)), settings, 1)
    sizes = GanSettings(steps=300, search_steps=60) if scene.quick else GanSettings()
    public = scene.public.x[-learned:]
    kinds, rows = {}, {}
    for kind in (PLAIN, MASKED, NOISE):
        upload = seen(kind, before, after, scene.terms, scene.noise, scene.random(NAME, kind))
        model = attacked_model(scene.spec, upload)
        gan = teach_gan(model, scene.spec, public, sizes, scene.seed)
        images = search_classes(model, gan, scene.spec.classes, sizes, IMAGES, scene.generator(NAME, kind))
        labels = np.repeat(np.arange(scene.spec.classes), IMAGES)
        right = recognised(scene.spec, evaluator, images.reshape(-1, *scene.spec.input_shape), labels)
        kinds[kind] = _by_class(right.reshape(-1, IMAGES).mean(1))
        rows[kind] = images[:, 0, 0]
    results = {"model": scene.spec.name, "steps": sizes.steps, "public": learned, "chance": 1 / scene.spec.classes}
    return TrialFinding({**results, "kinds": kinds}, {f"{NAME}.png": rows})


def text(results: dict[str, Any]) -> str:
    """The figures as a table."""
    return recognition_table(results) + (
        f"\n{IMAGES} images a class, of one client's model, through a GAN of {results['steps']:,} steps on "
        f"{results['public']:,} public images without labels. The standard error is that of a mean over classes, as a "
        "class mostly succeeds or fails as a whole.\n"
    )


def _by_class(shares: np.ndarray) -> dict[str, Any]:
    error = float(shares.std(ddof=1)) / sqrt(len(shares))
    return {"recognised": float(shares.mean()), "error": error, "images": IMAGES * len(shares)}
