"""What trials leave in a folder: one JSON and the pictures each, and one page for all; equal findings, equal bytes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.files import write_atomically
from fedgrove.node.simulation.figures import drawing
from fedgrove_lab.attacks.scene import Scene, TrialFinding
from fedgrove_lab.attacks.trials import gan, gradient, model, protocol
from fedgrove_lab.made import Made, read_made

TRIALS: dict[str, ModuleType] = {trial.NAME: trial for trial in (gradient, model, gan, protocol)}
README = "README.md"
COLUMNS = 12
INCHES = 0.62
KINDS = """\
| upload | what the attacker has |
| --- | --- |
| plain | the client's weights: no masks, no noise |
| masked | what lies on the store: the masked update, decoded as the server decodes a sum |
| noise | client-level privacy at its worst: all other updates are known, so the sum is this client's and all noise |
| one share | masks and all partners gone: the client's update and its own share of the noise |
"""


def write_report(out: Path, scene: Scene, findings: Mapping[str, TrialFinding]) -> None:
    """Write the findings, and the page of all that lie in the folder; InvalidContent as of ``read_documents``."""
    for name, finding in findings.items():
        document = {"attack": name, "settings": _settings(scene), "results": finding.results}
        for file, rows in finding.pictures.items():
            picture(rows, out / file)
        document["pictures"] = sorted(finding.pictures)
        write_atomically(out / f"{name}.json", (json.dumps(document, indent=1) + "\n").encode())
    write_atomically(out / README, page(read_documents(out), read_made(out)).encode())


def read_documents(out: Path) -> dict[str, dict[str, Any] | None]:
    """What lies in the folder, by attack; None for those that were not run.

    Raises
    ------
    InvalidContent
        A file there is no JSON of this command.
    """
    return {name: _read(out / f"{name}.json") for name in TRIALS}


def page(documents: Mapping[str, dict[str, Any] | None], made: Sequence[Made] = ()) -> str:
    """The page of all findings, and the commands behind them; findings that are missing are left out."""
    parts = [
        "# Attacks on uploads\n",
        "Written by `fedgrove attack`; docs/attacks.md says what each attack does.\n",
        "".join(f"{each.text}\n" for each in made),
        KINDS,
    ]
    for name, document in documents.items():
        if document is None:
            continue
        trial = TRIALS[name]
        parts += [f"## {trial.TITLE}\n", f"{trial.SOURCE}. {_sentence(document['settings'])}\n"]
        parts.append(trial.text(document["results"]))
        parts += [f"![{file.removesuffix('.png')}]({file})\n" for file in document["pictures"]]
    return "\n".join(part for part in parts if part)


def _settings(scene: Scene) -> dict[str, Any]:
    return {
        "dataset": scene.dataset,
        "seed": scene.seed,
        "quick": scene.quick,
        "clients": scene.terms.clients,
        "bound": scene.terms.bound,
        "noise_multiplier": scene.noise.multiplier,
        "noise_clients": scene.noise.clients,
    }


def _sentence(settings: Mapping[str, Any]) -> str:
    return (
        f"Data: {settings['dataset']}, seed {settings['seed']}{', quick' if settings['quick'] else ''}. Masks: "
        f"{settings['clients']} clients a round. Noise: σ = {settings['noise_multiplier']:g}, S the length of the "
        f"update, shares of {settings['noise_clients']} clients."
    )


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_bytes())
        return {"settings": document["settings"], "results": document["results"], "pictures": document["pictures"]}
    except (OSError, ValueError, KeyError, TypeError, InvalidContent, InvalidInput) as fault:
        raise InvalidContent(f"{path} cannot be used, remove it: {type(fault).__name__}") from None


def picture(rows: Mapping[str, np.ndarray], path: Path) -> None:
    """Write a picture of rows of images (n, h, w) in [0, 1]; at most twelve a row are shown."""
    columns = min(COLUMNS, max(map(len, rows.values())))
    size = (1.1 + columns * INCHES, len(rows) * INCHES + 0.1)
    with drawing(path, size) as figure:
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for axes, (label, images) in zip(grid, rows.items(), strict=True):
            for place, image in zip(axes, images, strict=False):
                place.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            for place in axes:
                place.set(xticks=[], yticks=[])
                place.grid(False)
                place.spines[:].set_visible(False)
            axes[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
