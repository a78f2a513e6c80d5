"""Gradient inversion on one upload: the client's very images."""

from dataclasses import dataclass, replace
from itertools import permutations
from statistics import fmean
from typing import Any

import numpy as np

from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove_lab.attacks.gradient import AttackedTraining, Inversion, Search, invert_update
from fedgrove_lab.attacks.measures import nearest, psnr
from fedgrove_lab.attacks.scene import Scene, TrialFinding
from fedgrove_lab.attacks.uploads import KINDS, seen
from fedgrove_lab.tables import markdown

NAME = "gradient"
TITLE = "Gradient inversion"
SOURCE = "Geiping et al. 2020; labels after Zhao et al. 2020"


@dataclass(frozen=True)
class GradientCase:
    """Clients of one kind: their model, their work, how many are attacked, how hard."""

    name: str
    model: str
    work: AttackedTraining
    victims: int
    search: Search


def cases(scene: Scene) -> tuple[GradientCase, ...]:
    """One image and one step on the federation's model and on a fully connected one, and a FedAvg client."""
    few, spare = scene.quick, Search(starts=4 if scene.dataset == "digits" else 2)
    return (
        GradientCase("one step, one image", scene.spec.name, AttackedTraining(), 2 if few else 5, spare),
        GradientCase("one step, one image, fully connected", "geyer-mlp", AttackedTraining(), 3 if few else 5, spare),
        GradientCase("three steps, two images", scene.spec.name, AttackedTraining(2, 3, 0.05), 1 if few else 2, spare),
    )


def run(scene: Scene) -> TrialFinding:
    """Attack the clients of each case, by every kind of upload."""
    results, pictures = {}, {}
    for case in cases(scene):
        victims = _victims(scene, case)
        originals = np.concatenate([samples.x for samples in victims])
        rows = {"original": originals[:, 0]}
        guess = np.broadcast_to(scene.public.x.mean(0), originals.shape)
        kinds = {}
        for kind in KINDS:
            found = [_attack(scene, case, kind, number, samples) for number, samples in enumerate(victims)]
            images = np.concatenate([inversion.images for inversion in found])
            kinds[kind] = _measured(originals, images, victims, found)
            rows[kind] = images[:, 0]
        results[case.name] = {
            "model": case.model,
            "images": len(originals),
            "guess_psnr": fmean(map(psnr, originals, guess)),
            "kinds": kinds,
        }
        pictures[f"{NAME}-{len(pictures) + 1}.png"] = rows
    return TrialFinding(results, pictures)


def text(results: dict[str, Any]) -> str:
    """The figures as a table."""
    head = ("client", "upload", "PSNR, dB", "least … largest", "labels right", "identified")
    rows = []
    for name, case in results.items():
        for kind, found in case["kinds"].items():
            span = f"{found['psnr_least']:.1f} … {found['psnr_largest']:.1f}"
            shares = (f"{found['labels_right']:.2f}", f"{found['identified']:.2f}")
            rows.append([name, kind, f"{found['psnr']:.1f}", span, *shares])
        chance = f"{1 / case['images']:.2f}"
        rows.append([name, "no upload: the mean of public images", f"{case['guess_psnr']:.1f}", "", "", chance])
    return markdown(head, rows, words=2) + (
        "\nPSNR of the reconstruction against the client's image, mean over the clients. Identified: the share of "
        "reconstructions that correlate more with their original than with any other client's. An attack that does no "
        "better than the guess without any upload has learned nothing. The pictures are in the order of the table.\n"
    )


def _victims(scene: Scene, case: GradientCase) -> list[Samples]:
    """Clients with images of different labels each."""
    count, start, victims = case.work.images, 0, []
    while len(victims) < case.victims:
        samples = scene.private.take(np.arange(start, start + count))
        start += count
        if len(set(samples.y.tolist())) == count:
            victims.append(samples)
    return victims


def _attack(scene: Scene, case: GradientCase, kind: str, number: int, samples: Samples) -> Inversion:
    spec = ModelSpec(case.model, scene.spec.input_shape, scene.spec.classes)
    work, before = case.work, scene.initial(case.model)
    settings = TrainingSettings(
        epochs=work.steps, batch_size=work.images, learning_rate=work.learning_rate, momentum=0, weight_decay=0
    )
    after = scene.trained(before, samples, settings, number + 1, case.model)
    upload = seen(kind, before, after, scene.terms, scene.noise, scene.random(NAME, case.name, kind, number))
    found = invert_update(spec, before, upload, work, case.search, scene.generator(NAME, case.name, kind, number))
    return _in_order(found, samples)


def _in_order(found: Inversion, samples: Samples) -> Inversion:
    """The images in the order of the client's that explains them best: an update does not depend on it."""
    order = max(
        permutations(range(len(samples))),
        key=lambda order: fmean(psnr(samples.x[i], found.images[j]) for i, j in enumerate(order)),
    )
    return replace(found, images=found.images[list(order)])


def _measured(
    originals: np.ndarray, images: np.ndarray, victims: list[Samples], found: list[Inversion]
) -> dict[str, Any]:
    values = [psnr(original, image) for original, image in zip(originals, images, strict=True)]
    right = [
        np.array_equal(inversion.labels, np.sort(samples.y)) for inversion, samples in zip(found, victims, strict=True)
    ]
    return {
        "psnr": fmean(values),
        "psnr_least": min(values),
        "psnr_largest": max(values),
        "labels_right": fmean(right),
        "identified": fmean(nearest(image, originals) == index for index, image in enumerate(images)),
        "distance": fmean(inversion.distance for inversion in found),
    }
