"""The tables of a scenario that are no terms: ``[scenario]`` and ``[run]``, and what ``[model]`` and ``[task]`` add."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from fedgrove.common.settings import Settings
from fedgrove.node.learning.task_settings import NETWORK, TaskSettings

MAX_CLIENTS = 1_000_000


@dataclass(frozen=True)
class Cast(Settings):
    """The table ``[scenario]``: the clients, their data, and who of them drops out.

    Attributes
    ----------
    clients : int
        Number of clients; they are numbered from 1, as on the ledger.
    dataset : str
        Data set for the shipped networks: digits, mnist, fashion-mnist, cifar10, a .npz or .safetensors file, or
        module:attribute. For K-means gaussian, celltype, covtype, or a file with the array points.
    data : str
        What the task's `data` reads: a folder with one source for each client, in the order of their names, and
        perhaps one whose name starts with `test`; any other is shared out, each client taking every n-th sample.
    drop : float
        Fraction of the clients that drop out of each round, each at a step drawn from the seed; in a demonstration.
    shared_per_class : int
        Samples per class of the shared set, where the strategy needs one.
    train_samples : int
        Use only this many training samples, drawn with the seed; 0 uses all.
    test_samples : int
        Use only this many test samples, the first ones; 0 uses all.
    validation : float
        Share of the training samples, drawn with the seed, that nobody trains on and models are tested on; with 0 they
        are tested on the test samples.
    bases : mapping of str to str
        Paths of the task's frozen bases by name.
    table_format : mapping of str to str
        How the source writes tables, where that is not found: delimiter, decimal, encoding, dates, sheet.
    """

    clients: Annotated[int, Meta(ge=1, le=MAX_CLIENTS)] = 8
    dataset: str = "digits"
    data: str = ""
    drop: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    shared_per_class: Annotated[int, Meta(ge=1, le=1000)] = 5
    train_samples: Annotated[int, Meta(ge=0, description="0 (all) or more")] = 0
    test_samples: Annotated[int, Meta(ge=0, description="0 (all) or more")] = 0
    validation: Annotated[float, Meta(ge=0, le=0.5, description="from 0 (test samples) to 0.5")] = 0.0
    bases: Mapping[str, str] = field(default_factory=dict)
    table_format: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSettings(Settings):
    """The table ``[run]``: on what a scenario is run; only `device` and `together` can change its models.

    Attributes
    ----------
    chain : str
        embedded (py-evm), anvil, or the URL of an EVM JSON-RPC endpoint; auto: embedded, and for a testnet anvil where
        it is installed.
    store : str
        disk, kubo (starts a node) or the URL of a Kubo API; auto: disk, and for a testnet kubo where it is installed.
    sandbox : str
        How a task's code is contained: auto, strict, contained, or off (not at all).
    data_dir : str
        Folder of the data sets; missing ones are downloaded to it.
    workers : int
        Training processes; 0 chooses.
    executor : str
        Where simulated clients train: auto, inline, processes, or dask=tcp://HOST:PORT of a scheduler.
    device : str
        cpu or cuda; auto takes cuda if there is any. A GPU adds in another order than the processor, so results differ
        in their last bits.
    together : int
        Clients that one call of a kernel trains in a simulation: those with equal terms and nearly as many samples form
        groups of this size, whatever the workers. It pays for small fully connected networks
        (`node.learning.together`); the last bits differ from those of 1, one client after the other.
    evaluate_every : int
        Rounds between two tests of a simulation's global model, which is also tested after the last round.
    probe_every : int
        Rounds between two tests of a simulation's local models out of distribution (FedAom 4.5); 0 is never.
    kubo_nodes : int
        Kubo nodes of a testnet, each shared by a group of clients.
    block_seconds : float
        Seconds between two blocks of a testnet.
    standby : int
        Clients of a testnet that can stand in for the coordinator.
    explorer : bool
        Serve pages that show the run; by default a testnet does where fedgrove[explorer] is installed.
    """

    chain: str = "auto"
    store: str = "auto"
    sandbox: Literal["auto", "strict", "contained", "off"] = "auto"
    data_dir: str = ""
    workers: Annotated[int, Meta(ge=0, le=1024)] = 0
    executor: str = "auto"
    device: Literal["cpu", "cuda"] = "cpu"
    together: Annotated[int, Meta(ge=1, le=10_000)] = 1
    evaluate_every: Annotated[int, Meta(ge=1, le=100_000)] = 1
    probe_every: Annotated[int, Meta(ge=0, le=100_000, description="from 0 (never) to 100000")] = 0
    kubo_nodes: Annotated[int, Meta(ge=1, le=16)] = 2
    block_seconds: Annotated[float, Meta(ge=0.1, le=60, description="from 0.1 to 60 seconds")] = 1.0
    standby: Annotated[int, Meta(ge=0)] = 1
    explorer: bool | None = None


@dataclass(frozen=True)
class NetworkChoice:
    """The table ``[model]``: which shipped network is trained.

    Attributes
    ----------
    name : str
        Name of the model; empty takes the default for the data set.
    input_shape : tuple of int
        (channels, height, width) that the data must have; empty: whatever they have.
    classes : int
        Number of labels that the data must have; 0: whatever they have.
    """

    name: str = ""
    input_shape: tuple[int, ...] = ()
    classes: int = 0


@dataclass(frozen=True)
class TaskChoice(TaskSettings):
    """The table ``[task]``: a federation's, in which a folder may stand for its bundle.

    Attributes
    ----------
    folder : str
        The task's, or its one Python file; it must pack to ``bundle``, where that is given, too.
    """

    folder: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        other = f"another task than {NETWORK}: [model] names the network, and the data set says the rest"
        self.require(self.network is None, "name", other)
