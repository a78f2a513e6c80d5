"""``fedgrove simulate``: federated learning of many clients, without chain and store."""

import time
import tomllib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.base.inline import inline_table
from fedgrove.node.cli.output import FAILED, CommandError, console, print_json, read_seeds
from fedgrove.node.lab.simulation.checkpoint import InvalidCheckpoint, check_directory
from fedgrove.node.lab.simulation.clustered.poisoning import ATTACKS
from fedgrove.node.lab.simulation.executors import NoExecutor, open_executor
from fedgrove.node.lab.simulation.plan import (
    InvalidPlan,
    Plan,
    attack_from_json,
    clustering_from_json,
    privacy_from_json,
)
from fedgrove.node.lab.simulation.record import RunRecord
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.settings import MODELS, STRATEGIES, PartitionSettings, default_settings, partition_kind
from fedgrove.node.methods.procfl.settings import ProCflSettings
from rich import box
from rich.table import Table

# The paper's accuracy is the mean of the last so many rounds.
LAST_ROUNDS = 20
# How settings are written on one line.
EXAMPLES = {
    "--privacy": "client, epsilon = 8, clip = 0.5",
    "--method": "procfl, alpha = 0.5, psi = 'ecdh'",
    "--attack": "label-flip, share = 0.3, placement = 'concentrated'",
}

Value = TypeVar("Value")


@dataclass(frozen=True)
class Run:
    """A run that has ended, and the seconds it took here."""

    record: RunRecord
    seconds: float


def simulate(
    dataset: Annotated[
        str, typer.Option(help="digits, mnist, fashion-mnist, cifar10, a file, or module:attribute.")
    ] = "digits",
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; missing ones are downloaded to it.")
    ] = None,
    clients: Annotated[int, typer.Option(help="How many clients there are.")] = 100,
    sampled: Annotated[float, typer.Option(help="Fraction of them drawn in each round.")] = 0.1,
    rounds: Annotated[int, typer.Option(help="Communication rounds.")] = 100,
    strategy: Annotated[str, typer.Option(help=f"Local training: {', '.join(STRATEGIES)}.")] = "fedavg",
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of the strategy; may be repeated.")
    ] = None,
    partition: Annotated[
        str, typer.Option(help="How samples are partitioned: dirichlet, shards, groups or iid.")
    ] = "dirichlet",
    alpha: Annotated[float, typer.Option(help="Concentration of the labels (dirichlet); small is skewed.")] = 0.3,
    per_client: Annotated[int, typer.Option(help="Single-class shards per client (shards).")] = 2,
    groups: Annotated[int, typer.Option(help="Groups of clients with main labels of their own (groups).")] = 5,
    others: Annotated[float, typer.Option(help="Fraction of a label's samples for all groups (groups).")] = 0.2,
    copies: Annotated[int, typer.Option(help="Repeat the partition N times over equal subsets of the clients.")] = 1,
    epochs: Annotated[
        int | None, typer.Option(help="Local epochs; this and the next options default to values for the data set.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of round 1.")] = None,
    learning_rate_decay: Annotated[float | None, typer.Option(help="Factor per round.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Of SGD.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of SGD.")] = None,
    crop: Annotated[int | None, typer.Option(help="Random crop: pixels of border per side.")] = None,
    flip: Annotated[bool | None, typer.Option(help="Flip half of the images.")] = None,
    erase: Annotated[float | None, typer.Option(help="Probability of a random rectangle blacked out.")] = None,
    model: Annotated[str, typer.Option(help=f"{', '.join(MODELS)}; by default the one for the data set.")] = "",
    privacy: Annotated[
        str,
        typer.Option(
            metavar="MECHANISM[, NAME = VALUE …]",
            help="client, local or signds, with settings as in [privacy] of a federation's config.",
        ),
    ] = "",
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD[, NAME = VALUE …]",
            help="Models for clients with similar data: procfl or ifca, or global for one model, with settings.",
        ),
    ] = "",
    attack: Annotated[
        str,
        typer.Option(
            metavar="KIND[, NAME = VALUE …]",
            help=f"Clients that poison a clustered training: {', '.join(ATTACKS)}, with settings.",
        ),
    ] = "",
    shared_per_class: Annotated[int, typer.Option(help="Samples per class of the shared set.")] = 5,
    seeds: Annotated[str, typer.Option(help="Seeds of the randomness, one run each: 0,1,2.")] = "0",
    evaluate_every: Annotated[int, typer.Option(help="Rounds between two tests of the global model.")] = 1,
    probe_every: Annotated[
        int, typer.Option(help="Rounds between two out-of-distribution tests of local models; 0: never.")
    ] = 0,
    test_samples: Annotated[int, typer.Option(help="Use only this many test samples, the first ones; 0: all.")] = 0,
    train_samples: Annotated[int, typer.Option(help="Use only this many training samples; 0: all.")] = 0,
    bound: Annotated[float, typer.Option(help="Largest absolute value of a parameter.")] = 8.0,
    executor: Annotated[
        str, typer.Option(help="inline, processes, or dask=tcp://HOST:PORT of a scheduler.")
    ] = "processes",
    workers: Annotated[int, typer.Option(min=0, max=1024, help="Processes; 0 starts one per core.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: CUDA if there is any.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="Keep checkpoints, records and figures here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records to stdout.")] = False,
) -> None:
    """Train many clients on this machine's cores or on a cluster; the same options give the same bytes anywhere.

    Example: fedgrove simulate --clients 100 --rounds 20 --strategy fedaom --alpha 0.1 --seeds 0,1,2 --out runs/skewed
    """
    given = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "learning_rate_decay": learning_rate_decay,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "crop": crop,
        "flip": flip,
        "erase": erase,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    plan = _checked(
        lambda: Plan(
            dataset=dataset,
            clients=clients,
            sampled=sampled,
            rounds=rounds,
            strategy=strategy,
            options=_options(option or []),
            training=replace(default_settings(dataset), **chosen),
            partition=PartitionSettings(partition_kind(partition), alpha, per_client, copies, groups, others),
            model=model,
            shared_per_class=shared_per_class,
            evaluate_every=evaluate_every,
            probe_every=probe_every,
            test_samples=test_samples,
            train_samples=train_samples,
            bound=bound,
            privacy=privacy_from_json(_table("--privacy", "mechanism", privacy), "--privacy"),
            clustering=clustering_from_json(_table("--method", "method", method), "--method"),
            attack=attack_from_json(_table("--attack", "kind", attack) if attack else None, "--attack"),
            device=_device(device),
        )
    )
    plans = _checked(lambda: [plan.with_seed(seed) for seed in read_seeds(seeds)])
    if resume and out is None:
        raise CommandError("--resume needs --out, the directory of the run to go on with")
    runs = _run_all(plans, data_dir, executor, workers, out, resume)
    if as_json:
        print_json({"runs": [{"record": run.record.to_json(), "seconds": run.seconds} for run in runs]})
    else:
        _print_table(runs)


def _device(name: str) -> str:
    if name == "cpu":
        return name
    from fedgrove.node.learning.devices import NoDevice, choose  # torch takes a second

    try:
        return choose(name)
    except NoDevice as fault:
        raise CommandError(f"--device: {fault}") from None


def _run_all(
    plans: list[Plan], data_dir: Path | None, executor: str, workers: int, out: Path | None, resume: bool
) -> list[Run]:
    """Run one plan after the other, and draw the figures; every end of a run in one sentence."""
    go_on = f"; what is done is kept in {out}, --resume goes on" if out else ""
    try:
        if out is not None:
            for plan in plans:
                check_directory(_directory(out, plan), plan, resume)
            _make(out)
        # The processes load torch while this one does, and reads the data.
        with open_executor(executor, workers) as (pool, count):
            return _run_on(pool, count, plans, data_dir, out, resume)
    except (InvalidPlan, NoExecutor, InvalidCheckpoint, AlreadyInUse) as mistake:
        raise CommandError(str(mistake)) from None
    except OSError as fault:
        raise CommandError(f"{fault.strerror or fault}: {fault.filename or out or 'no file'}{go_on}") from None
    except CommandError as failure:
        raise CommandError(f"{failure}{go_on}" if failure.code == FAILED else str(failure), failure.code) from None
    except KeyboardInterrupt:
        raise CommandError(f"stopped{go_on}", 130) from None


def _run_on(
    pool: Executor, workers: int, plans: list[Plan], data_dir: Path | None, out: Path | None, resume: bool
) -> list[Run]:
    from fedgrove.node.cli.rounds_progress import RoundsDisplay
    from fedgrove.node.lab.simulation.kinds import simulation_of
    from fedgrove.node.lab.simulation.run import SimulationFailed
    from fedgrove.node.learning.datasets import load_dataset
    from fedgrove.node.learning.training import DivergedTraining

    dataset = load_dataset(plans[0].dataset, data_dir)
    runs = []
    with RoundsDisplay(sum(plan.rounds for plan in plans)) as display:
        for plan in plans:
            started = time.monotonic()
            directory = _directory(out, plan) if out else None
            simulation = simulation_of(plan, dataset, pool, workers, directory, resume, display.compared)
            display.begin(f"seed {plan.seed}", plan.rounds)
            try:
                for result in simulation.run():
                    display.advance(result)
            except (DivergedTraining, SimulationFailed) as fault:
                raise CommandError(str(fault), FAILED) from None
            runs.append(Run(simulation.record, round(time.monotonic() - started, 3)))
    if out is not None:
        _draw([run.record for run in runs], dataset, out)
    return runs


def _draw(records: list[RunRecord], dataset: Dataset, out: Path) -> None:
    """Accuracy over the rounds, the partition of the first seed, and accuracy out of distribution where probed."""
    from fedgrove.node.lab.simulation import figures
    from fedgrove.node.lab.simulation.data import deal_data

    plan = records[0].plan
    data = deal_data(plan, dataset, with_shared=False)
    try:
        figures.accuracy_figure({plan.strategy: records}, out / "accuracy.png")
        figures.partition_figure(data.training.y, data.parts, out / "partition.png")
        if plan.clustering is not None:
            figures.personal_figure({plan.clustering.method: records}, out / "personal.png")
        if isinstance(plan.clustering, ProCflSettings):
            for record in records:
                _draw_clusters(_directory(out, record.plan))
        if any(result.ood_accuracy is not None for result in records[0].rounds):
            figures.ood_figure({plan.strategy: records}, out / "ood.png")
    except figures.FiguresUnavailable as fault:
        console.print(f"No figures: {fault}", soft_wrap=True, markup=False)
    console.print(f"Kept in {out}", soft_wrap=True, markup=False)


def _draw_clusters(directory: Path) -> None:
    """The matrix of similarities and the clusters, of one seed."""
    from fedgrove.node.lab.simulation import figures
    from fedgrove.node.lab.simulation.clustered.similarity import read_clusters

    found = read_clusters(directory)
    figures.clusters_figure(found.similarity.ism, found.members, found.attackers, directory / "clusters.png")


def _print_table(runs: list[Run]) -> None:
    plan = runs[0].record.plan
    table = Table(title=f"{plan.strategy} on {plan.dataset}", box=box.SIMPLE_HEAD)
    headings = ("seed", "rounds", "accuracy", f"mean of last {LAST_ROUNDS}", "loss", "seconds")
    for heading in (*headings, *(("ε", "δ") if plan.privacy else ())):
        table.add_column(heading, justify="right")
    for run in runs:
        rounds = run.record.rounds
        accuracies = [result.accuracy for result in rounds[-LAST_ROUNDS:] if result.accuracy is not None]
        spent = rounds[-1].privacy
        table.add_row(
            str(run.record.plan.seed),
            str(len(rounds)),
            f"{rounds[-1].accuracy:.4f}",
            f"{sum(accuracies) / len(accuracies):.4f}",
            f"{rounds[-1].loss:.4f}",
            f"{run.seconds:.1f}",
            *((f"{spent['epsilon']:.3g}", f"{getattr(plan.privacy, 'delta', 0):g}") if spent else ()),
        )
    console.print(table)
    for run in runs if plan.clustering else ():
        console.print(_of_clusters(run.record), soft_wrap=True)
    if any(len(run.record.rounds) < plan.rounds for run in runs):
        console.print(f"The privacy budget ends before round {plan.rounds}.")
    if getattr(plan.privacy, "participation", "") == "secret":
        readers = ", ".join(f"{run.record.rounds[-1].figure('ledger_epsilon'):.3g}" for run in runs)
        sentence = f"ε holds towards those who see only models; readers of a ledger, who know who was drawn: {readers}."
        console.print(sentence, soft_wrap=True)
    if plan.privacy:
        sentence = "Simulated noise follows from the seed: it shows what privacy costs, and protects nobody."
        console.print(sentence, soft_wrap=True)


def _of_clusters(record: RunRecord) -> str:
    """A sentence on a clustered run."""
    last = record.rounds[-1].clusters
    expelled = sum(len(found.expelled) for result in record.rounds for found in result.clusters.judgements)
    return (
        f"Seed {record.plan.seed}: personalised accuracy {last.personal_accuracy:.4f}, {sum(map(bool, last.groups))} "
        f"models in the last round, {expelled} clients expelled"
    )


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise CommandError(f"cannot make the directory {out}: {fault.strerror}") from None


def _directory(out: Path, plan: Plan) -> Path:
    return out / f"seed-{plan.seed}"


def _options(given: list[str]) -> dict[str, float]:
    options = {}
    for each in given:
        name, equals, value = each.partition("=")
        try:
            options[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise CommandError(f"--option must be NAME=NUMBER, such as q=8, not {each!r}")
    return options


def _table(option: str, tag: str, given: str) -> dict[str, object]:
    """Settings from the name of their kind and what a TOML table would hold, on one line."""
    try:
        kind, table = inline_table(given or "none")
    except tomllib.TOMLDecodeError as fault:
        raise CommandError(f"{option} must be like '{EXAMPLES[option]}', not {given!r}: {fault}") from None
    return {**table, tag: kind}


def _checked(make: Callable[[], Value]) -> Value:
    try:
        return make()
    except ValueError as mistake:
        raise CommandError(str(mistake)) from None
