"""What a demonstration is asked for, checked before anything is done, and as JSON for one that goes on later."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedgrove.chain.network.access import Network
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.nested_tables import Tables
from fedgrove.node.base.processor import UnsuitedProcessor, check_processor
from fedgrove.node.devnet.demo import DemoPlan
from fedgrove.node.devnet.demo_figures import WriteFigures
from fedgrove.node.devnet.method_option import TRAINING, check_method
from fedgrove.node.devnet.silence import check_drop
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.privacy.settings import LEAST_RATED
from fedgrove.node.tasks.sandbox.modes import AUTO

ServePages = Callable[[Network, Deployment, ContentReader, str, str, Path], AbstractContextManager[str]]
"""Serves pages about a deployment while a block runs, given chain, contracts, store, what people call it, the command
that audits the same and a folder for indexes; gives their address."""

_LEAST_CLIENTS, _MOST_CLIENTS, _MOST_ROUNDS = 3, 1000, 10_000
MASKINGS = ("bbtsa", "pairwise")
_PATHS = ("data_dir", "task", "source")


class InvalidOption(ValueError):
    """An option has a value that is not allowed; the message begins with the option's name."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name} {sentence}")


@dataclass(frozen=True)
class DemoRequest:
    """What to demonstrate, and on what.

    Attributes
    ----------
    plan : DemoPlan
        Its ``workers`` 0 takes as many processes as pay off.
    strategy : str or None
        In place of the plan's; None takes FedAom, and FedAvg for a task without a shared set.
    dataset, data_dir : str, Path or None
        A data set, as ``--dataset`` names it, and the folder of those that were downloaded.
    task, source : Path or None
        In place of a data set: a task's folder, and what its ``data`` reads.
    settings : mapping
        Tables with other values for keys of the task's ``terms.toml``.
    sandbox : str
        How the task's code is contained.
    chain, store : str
        ``embedded``, ``anvil`` or an endpoint's URL; ``disk``, ``kubo`` or the URL of a Kubo API.
    pages : callable, optional
        Serves pages about the run while it goes on; the demonstration says where.
    bases : mapping
        Paths of the task's frozen bases by name.
    figures : callable, optional
        Takes each round's figures as soon as it has ended.
    table_format : mapping
        How the source writes tables, as ``TableFormat`` names it.
    """

    plan: DemoPlan
    strategy: str | None = None
    dataset: str = "digits"
    data_dir: Path | None = None
    task: Path | None = None
    source: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    sandbox: str = AUTO
    chain: str = "embedded"
    store: str = "disk"
    pages: ServePages | None = None
    bases: Mapping[str, Path] = field(default_factory=dict)
    figures: WriteFigures | None = None
    table_format: Mapping[str, str] = field(default_factory=dict)


def check_request(request: DemoRequest) -> None:
    """Raise InvalidOption, or InvalidConfig for the method's settings, unless this run is possible."""
    plan = request.plan
    _check_count("clients", plan.clients, _LEAST_CLIENTS, _MOST_CLIENTS)
    _check_count("rounds", plan.rounds, 1, _MOST_ROUNDS)
    if request.strategy is not None:
        _check_choice("strategy", request.strategy, STRATEGIES)
    _check_choice("masking", plan.masking, MASKINGS)
    check_method(plan.method, plan.clients)
    if plan.method != TRAINING and plan.epsilon:
        raise InvalidOption("epsilon", "cannot be combined with method: clusters have no privacy mechanism")
    check_evaluation(plan)
    if not 0 <= plan.drop < 1:
        raise InvalidOption("drop", f"must be at least 0 and below 1, not {plan.drop}")
    hopeless = "" if plan.method != TRAINING else check_drop(plan.clients, plan.drop)
    if hopeless:
        raise InvalidOption("drop", hopeless)
    if not 0.001 <= plan.alpha <= 1e6:
        raise InvalidOption("alpha", f"must be from 0.001 to 1000000, not {plan.alpha}")
    if plan.epsilon and not 0.1 <= plan.epsilon <= 1000:
        raise InvalidOption("epsilon", f"must be 0 or from 0.1 to 1000, not {plan.epsilon:g}")
    if (request.task is None) != (request.source is None):
        raise InvalidOption("task", "and data belong together: give the task's folder, and what its data() reads")
    if request.task is None and request.bases:
        raise InvalidOption("base", "is for a task's frozen bases: leave it out with a data set")
    if request.task is None and request.table_format:
        raise InvalidOption("table_format", "is for the tables of a task: leave it out with a data set")
    if request.task is None and request.settings:
        raise InvalidOption("settings", "are keys of a task's terms.toml: leave them out with a data set")


def check_evaluation(plan: DemoPlan) -> None:
    """Raise InvalidOption unless members can evaluate and train as the plan says.

    Under the noise of client-level privacy some things cannot be told.
    """
    if not 0 <= plan.held_out <= 0.9:
        raise InvalidOption("held-out", f"must be from 0 to 0.9, not {plan.held_out}")
    try:
        check_processor(plan.portable, "fp32")
    except UnsuitedProcessor as fault:
        raise InvalidOption("portable", f"does not work here: {fault}") from None
    if plan.epsilon and plan.held_out and plan.clients < LEAST_RATED:
        needed = f"{LEAST_RATED} clients, not {plan.clients}: noise drowns the rates of fewer"
        raise InvalidOption("held-out", f"with a privacy budget needs {needed}")
    if plan.epsilon and plan.patience:
        raise InvalidOption("patience", "must be 0 with a privacy budget: members tell noisy rates, and no loss")


def _check_count(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidOption(name, f"must be a whole number from {least} to {most}, not {value!r}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidOption(name, f"must be one of {', '.join(choices)}, not {value!r}")


def suggestion(terms: Tables) -> Tables:
    """Changes of terms as those of a task's ``terms.toml``, where the bound stands by itself."""
    masking = terms.pop("masking", {})
    return {**terms, **masking}


def options_of(request: DemoRequest) -> dict[str, Any]:
    """A request as JSON, without what each run chooses anew; paths are absolute."""
    options = asdict(replace(request, pages=None, figures=None))
    for name in _PATHS:
        path = getattr(request, name)
        options[name] = None if path is None else str(path.absolute())
    if Path(request.dataset).is_file():
        options["dataset"] = str(Path(request.dataset).absolute())
    options["bases"] = {name: str(path.absolute()) for name, path in request.bases.items()}
    del options["pages"], options["figures"]
    return options


def request_of(options: dict[str, Any]) -> DemoRequest:
    """What ``options_of`` was made of; KeyError or TypeError for anything else."""
    paths = {name: None if options[name] is None else Path(options[name]) for name in _PATHS}
    bases = {name: Path(path) for name, path in options["bases"].items()}
    return DemoRequest(**{**options, **paths, "bases": bases, "plan": DemoPlan(**options["plan"])})
