"""``fedgrove attack``: what an attacker gets out of a client's upload, bare, masked and with differential privacy."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedgrove.node.cli.output import CommandError, answer, note, print_json
from fedgrove.node.cli.values import words

ALL = "all"


def attack(
    name: Annotated[
        str, typer.Argument(help="The attack.", **words("gradient", "model", "gan", "protocol", ALL))
    ] = ALL,
    dataset: Annotated[
        str,
        typer.Option(
            help="FILE: your own greyscale images.", **words("mnist", "fashion-mnist", "digits", other="FILE")
        ),
    ] = "mnist",
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the datasets; missing ones are downloaded to it.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables and pictures.")] = Path("docs/results/attacks"),
    noise_multiplier: Annotated[float, typer.Option(help="σ of the uploads with client-level privacy.")] = 1.0,
    noise_clients: Annotated[int, typer.Option(help="Clients whose shares of noise add up to it.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=10**9, help="Seed of the randomness.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer victims and shorter searches.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results to stdout.")] = False,
) -> None:
    """Attack clients' uploads on this machine; nothing is sent anywhere. The same seed gives the same report.

    Example: fedgrove attack gradient --dataset digits --quick --out runs/attacks
    """
    from fedgrove.node.learning.datasets import load_dataset
    from fedgrove.node.learning.reproducible import reproducible
    from fedgrove_lab.attacks.report import TRIALS, read_documents, write_report
    from fedgrove_lab.attacks.scene import make_scene
    from fedgrove_lab.attacks.uploads import Noise
    from fedgrove_lab.made import add_made, made_now

    if name != ALL and name not in TRIALS:
        raise CommandError(f"there is no attack {name!r}: choose one of {', '.join(TRIALS)}, {ALL}")
    try:
        noise = Noise(noise_multiplier, noise_clients)
        scene = make_scene(load_dataset(dataset, data_dir), seed, quick=quick, noise=noise)
        out.mkdir(parents=True, exist_ok=True)
        read_documents(out)  # what is wrong there is said now rather than after minutes of work
        results = {}
        for chosen in TRIALS if name == ALL else (name,):
            trial = TRIALS[chosen]
            note(f"{trial.TITLE} ({trial.SOURCE}) …")
            with reproducible():
                finding = trial.run(scene)
            results[chosen] = finding.results
            add_made(out, made_now(sys.argv[1:]))
            write_report(out, scene, {chosen: finding})
            if not as_json:
                answer(trial.text(finding.results))
    except OSError as fault:
        raise CommandError(f"{fault.strerror or fault}: {fault.filename or out}") from None
    if as_json:
        print_json(results)
    else:
        answer(f"Written to {out}")
