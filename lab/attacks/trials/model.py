"""Model inversion: how the classes look that a client's model knows (Fredrikson et al. 2015, MI-Face).

Descent from a black image on 1 − log-confidence, with the images kept in [0, 1]. Their cost is 1 − confidence; its
logarithm has the same minimum and a gradient where the confidence is near zero. Total variation takes the place of
their denoising step.
"""

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import empty_model, load_tensors
from fedgrove.node.learning.networks import evaluate
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings, default_settings
from fedgrove_lab.attacks.scene import Scene, TrialFinding
from fedgrove_lab.attacks.uploads import KINDS, PLAIN, seen
from fedgrove_lab.tables import markdown

NAME = "model"
TITLE = "Model inversion"
SOURCE = "Fredrikson et al. 2015, MI-Face"
EVALUATOR = 99


@dataclass(frozen=True)
class Descent:
    """How long and how hard to search.

    Attributes
    ----------
    variation : float
        Weight of the summed total variation.
    """

    steps: int = 100
    rate: float = 0.1
    variation: float = 1e-3


def invert_classes(spec: ModelSpec, weights: Tensors, descent: Descent) -> np.ndarray:
    """An image for each class, float32 (classes, c, h, w) in [0, 1]."""
    model = empty_model(spec)
    load_tensors(model, weights)
    labels = torch.arange(spec.classes)
    images = torch.zeros((spec.classes, *spec.input_shape), requires_grad=True)
    optimizer = torch.optim.Adam([images], lr=descent.rate)
    for _ in range(descent.steps):
        cost = functional.cross_entropy(model(images), labels, reduction="sum")
        down = (images[..., 1:, :] - images[..., :-1, :]).abs().sum()
        across = (images[..., :, 1:] - images[..., :, :-1]).abs().sum()
        (slope,) = torch.autograd.grad(cost + descent.variation * (down + across), images)
        images.grad = slope.nan_to_num()  # a masked model's activations can leave the floats
        optimizer.step()
        with torch.no_grad():
            images.clamp_(0, 1)
    return images.detach().numpy()


def recognised(spec: ModelSpec, weights: Tensors, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which images (n, c, h, w) an evaluator takes for their labels (n,); bool (n,)."""
    model = empty_model(spec)
    load_tensors(model, weights)
    with torch.inference_mode():
        answers = model(torch.from_numpy(np.ascontiguousarray(images))).argmax(1).numpy()
    return answers == labels


@dataclass(frozen=True)
class Setup:
    """How many clients with how many samples train how long, and how often each protection is drawn anew."""

    clients: int
    samples: int
    epochs: int
    draws: int
    evaluator_samples: int
    weight_decay: float = 1e-4
    descent: Descent = field(default_factory=Descent)


def setup(scene: Scene) -> Setup:
    """Sizes that suit the data."""
    if len(scene.private) < 20_000:
        every = len(scene.public)
        return Setup(1, every, 15, 2 if scene.quick else 10, every, 0.01, Descent(steps=150, rate=0.05))
    return Setup(1, 3000, 3, 3, 6000) if scene.quick else Setup(5, 3000, 3, 3, 12_000)


def run(scene: Scene) -> TrialFinding:
    """Train clients, invert what they upload, and let the evaluator say what it sees."""
    sizes = setup(scene)
    settings = replace(default_settings(scene.dataset), epochs=sizes.epochs, weight_decay=sizes.weight_decay)
    evaluator = train_evaluator(scene, settings, sizes.evaluator_samples)
    before, labels = scene.initial(), np.arange(scene.spec.classes)
    victims = [
        scene.trained(before, scene.share(client, sizes.samples), settings, client + 1)
        for client in range(sizes.clients)
    ]
    kinds, rows = {}, {"a private image": _examples(scene)}
    for kind in KINDS:
        right = []
        for client, after in enumerate(victims):
            for draw in range(1 if kind == PLAIN else sizes.draws):
                random = scene.random(NAME, kind, client, draw)
                upload = seen(kind, before, after, scene.terms, scene.noise, random)
                images = invert_classes(scene.spec, upload, sizes.descent)
                right.append(recognised(scene.spec, evaluator, images, labels))
                if client == draw == 0:
                    rows[kind] = images[:, 0]
        kinds[kind] = share_of(np.concatenate(right))
    accuracies = [evaluate(scene.spec, weights, scene.test).accuracy for weights in (evaluator, victims[0])]
    results = {
        "model": scene.spec.name,
        "clients": sizes.clients,
        "samples": sizes.samples,
        "chance": 1 / scene.spec.classes,
        "evaluator_accuracy": accuracies[0],
        "client_accuracy": accuracies[1],
        "kinds": kinds,
    }
    return TrialFinding(results, {f"{NAME}.png": rows})


def text(results: dict[str, Any]) -> str:
    """The figures as a table."""
    return recognition_table(results) + (
        f"\n{results['clients']} clients with {results['samples']:,} samples each; a client's model has the accuracy "
        f"{results['client_accuracy']:.3f}. The evaluator was trained on other samples, from other initial weights: "
        f"accuracy {results['evaluator_accuracy']:.3f}.\n"
    )


def recognition_table(results: dict[str, Any]) -> str:
    """How many reconstructions an evaluator takes for their class, by kind of upload."""
    rows = [
        [kind, f"{found['recognised']:.3f}", f"{found['error']:.3f}", str(found["images"])]
        for kind, found in results["kinds"].items()
    ]
    rows.append(["chance", f"{results['chance']:.3f}", "", ""])
    return markdown(("upload", "recognised", "standard error", "images"), rows)


def share_of(right: np.ndarray) -> dict[str, Any]:
    """The share of right answers with its standard error (of a proportion)."""
    share, count = float(right.mean()), len(right)
    return {"recognised": share, "error": sqrt(share * (1 - share) / count), "images": count}


def train_evaluator(scene: Scene, settings: TrainingSettings, samples: int) -> Tensors:
    """A network that knows the classes from public data, and has nothing in common with the federation's."""
    chosen = scene.public.take(np.arange(samples))
    return scene.trained(scene.initial(number=EVALUATOR), chosen, settings, EVALUATOR)


def _examples(scene: Scene) -> np.ndarray:
    first = [int(np.flatnonzero(scene.private.y == label)[0]) for label in range(scene.spec.classes)]
    return scene.private.x[first, 0]
