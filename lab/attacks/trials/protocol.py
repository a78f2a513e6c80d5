"""Protocol attacks: the weights behind the masks of a round, from everything public."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fedgrove.node.base.tensors import Layout, Tensors, flatten
from fedgrove.node.learning.networks import evaluate
from fedgrove.node.learning.settings import default_settings
from fedgrove.node.masking.ring import encode
from fedgrove_lab.attacks.measures import correlation_error
from fedgrove_lab.attacks.played_round import PlayedRound, play_round
from fedgrove_lab.attacks.protocol import (
    Trace,
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
from fedgrove_lab.attacks.scene import Scene, TrialFinding
from fedgrove_lab.attacks.uploads import MASKED, ONE_SHARE, PLAIN, noised, seen
from fedgrove_lab.paper_masking import paper_mask
from fedgrove_lab.tables import markdown

NAME = "protocol"
TITLE = "Protocol attacks"
SOURCE = "Fedgrove's own"
DROPOUT = 2
WORST = 1 << 29  # weights of up to half the bound, of a client that has all the samples


def run(scene: Scene) -> TrialFinding:
    """Play rounds in which the same trained clients upload the same weights, and attack the first client."""
    rounds, samples = (4, 200) if scene.quick else (16, 500)
    samples = min(samples, len(scene.private) // scene.terms.clients)
    epochs = 15 if samples < 200 else 3
    before, settings = scene.initial(), replace(default_settings(scene.dataset), epochs=epochs)
    terms = replace(scene.terms, samples=samples)
    models = [
        scene.trained(before, scene.share(client, samples), settings, client + 1) for client in range(terms.clients)
    ]
    layout, vectors = Layout.of(before), [flatten(model) for model in models]
    played = [
        play_round(terms, number, vectors, layout, scene.random(NAME, number), {DROPOUT})
        for number in range(1, rounds + 1)
    ]
    traces = {name: (asdict(found), asdict(control)) for name, found, control in _traces(played, vectors, layout)}
    opened, sealed = opened_shares(played[0].public)
    bare = encode(vectors[0], layout, samples, terms.clients * samples, terms.bound)
    results = {
        "parameters": layout.length,
        "correlation_error": correlation_error(layout.length),
        "rounds": rounds,
        "traces": {name: {"masked": found, "control": control} for name, (found, control) in traces.items()},
        "shares": {"opened": opened, "sealed": sealed},
        "bare_tensors": {
            "masked": len(bare_tensors(played[0].public.updates[0], layout, WORST)),
            "control": len(bare_tensors(bare, layout, WORST)),
            "tensors": len(layout.names),
        },
        "paper_noise_error": _papers_noise(models, samples),
        "accuracy": _accuracies(scene, before, models[0], samples),
        "noise_averaged": _averaged_noise(scene, before, models[0], rounds),
    }
    return TrialFinding(results)


def text(results: dict[str, Any]) -> str:
    """The figures as tables."""
    rows = [
        [
            name,
            f"{pair['masked']['correlation']:+.4f}",
            f"{pair['masked']['deviations']:.1f}",
            str(pair["masked"]["tries"]),
            "" if pair["masked"]["bytes_off"] is None else f"{pair['masked']['bytes_off']:+.1f}",
            f"{pair['control']['correlation']:+.4f}",
        ]
        for name, pair in results["traces"].items()
    ]
    head = ("attack", "correlation with the weights", "in standard errors", "tries", "bytes off uniform", "control")
    error, shares, bare = results["correlation_error"], results["shares"], results["bare_tensors"]
    accuracy = ", ".join(f"{kind} {value:.3f}" for kind, value in results["accuracy"].items())
    once, averaged = (results["noise_averaged"][str(count)] for count in (1, results["rounds"]))
    return markdown(head, rows) + (
        f"\n{results['parameters']:,} parameters: the correlation of independent vectors is 0 ± {error:.4f}. Shown is "
        "the try that is farthest from 0; of many tries some are 2 or 3 standard errors away by chance. The control "
        "is the same attack where it must succeed.\n\n"
        f"- Sealed shares that a secret on the record opens: {shares['opened']} of {shares['sealed']}.\n"
        f"- Tensors that look bare: {bare['masked']} of {bare['tensors']}; of an unmasked upload {bare['control']}.\n"
        f"- The upload tested as a model, on the client's own data: {accuracy}.\n"
        "- The noise that the paper describes, regenerated from its public seeds and taken off: largest error "
        f"{results['paper_noise_error']:.0e}, so that scheme hides nothing.\n"
        f"- One share of noise on the same update correlates with it: {once:.3f} in one round, {averaged:.3f} in the "
        f"average over {results['rounds']}. That is what a budget is for; fresh masks do not wear off.\n"
    )


def _traces(played: list[PlayedRound], vectors: list[np.ndarray], layout: Layout) -> list[tuple[str, Trace, Trace]]:
    """Name, what the attack found, and its control."""
    first = played[0]
    public, own = first.public, vectors[0]
    upload, weights = public.updates[0], dict(enumerate(vectors))
    bare = {p: encode(vector, layout, 1, len(vectors), public.bound) for p, vector in weights.items()}

    def masked_as(masks: Callable, positions: list[int]) -> Trace:
        uploads = {**public.updates, **public.late}
        return trace([(without(uploads[p], masks(p)), vectors[p]) for p in positions])

    true = trace([(without(upload, true_secrets_off(first, 0)), own)])
    survivors, tensors = list(public.updates), by_tensor(bare[0], own, layout)
    guesses = [(without(upload, masks), own) for masks in public_guesses(public, 0)]
    average = mean_word([number.public.updates[0] for number in played])
    return [
        ("read the upload as weights", trace([(upload, own)]), trace([(bare[0], own)])),
        ("each tensor by itself", trace(by_tensor(upload, own, layout)), trace(tensors)),
        ("masks from keys, hashes and digests on the ledger", trace(guesses), true),
        ("take off what the recovery record reveals", masked_as(lambda p: recovered_masks(public, p), survivors), true),
        (
            "the late upload of a dropout, its mask secret revealed",
            masked_as(lambda p: recovered_masks(public, p), [DROPOUT]),
            masked_as(lambda p: true_secrets_off(first, p), [DROPOUT]),
        ),
        (
            "all partners but one collude",
            masked_as(lambda p: colluding_partners_off(first, p, 1), survivors),
            masked_as(lambda p: colluding_partners_off(first, p), survivors),
        ),
        (
            "sums of two, three and all uploads",
            trace(group_sums(public.updates, weights)),
            trace(group_sums(bare, weights)),
        ),
        (
            f"average over {len(played)} rounds",
            trace([(average, own)]),
            trace([(mean_word([bare[0]] * len(played)), own)]),
        ),
    ]


def _papers_noise(models: list[Tensors], samples: int) -> float:
    """The paper's own noise, taken off again with its public seeds: largest error in a parameter."""
    count = len(models)
    partners, seeds = [[(i + 1) % count, (i - 1) % count] for i in range(count)], list(range(count))
    uploads = paper_mask(models, [samples] * count, partners, seeds)
    silent = [{name: np.zeros_like(layer) for name, layer in model.items()} for model in models]
    noise = paper_mask(silent, [samples] * count, partners, seeds)
    return max(float(np.abs(uploads[0][name] - noise[0][name] - layer).max()) for name, layer in models[0].items())


def _accuracies(scene: Scene, before: Tensors, after: Tensors, samples: int) -> dict[str, float]:
    own = scene.share(0, samples)
    return {
        kind: evaluate(
            scene.spec, seen(kind, before, after, scene.terms, scene.noise, scene.random(NAME, kind)), own
        ).accuracy
        for kind in (PLAIN, MASKED, ONE_SHARE)
    }


def _averaged_noise(scene: Scene, before: Tensors, after: Tensors, rounds: int) -> dict[str, float]:
    """Correlation with the update of its noisy uploads' mean, by the number of rounds."""
    update = flatten(after) - flatten(before)
    random = scene.random(NAME, "averaged")
    uploads = [noised(update, scene.noise, 1, random) for _ in range(rounds)]
    return {str(n): trace([(np.mean(uploads[:n], axis=0), update)]).correlation for n in (1, rounds)}
