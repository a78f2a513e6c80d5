"""The tables of a scenario that are no terms: ``[scenario]`` and ``[run]``, and what ``[model]`` and ``[task]`` add."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fedgrove.node.base.frozen_base import FrozenBase
from fedgrove.node.base.strict_tables import InvalidConfig, Option

MAX_CLIENTS = 1_000_000


@dataclass(frozen=True)
class Cast:
    """The table ``[scenario]``: the clients, their data, and who of them drops out.

    Attributes
    ----------
    clients : int
        Number of clients; they are numbered from 1, as on the ledger.
    dataset : str
        Data set for the shipped networks: digits, mnist, fashion-mnist, cifar10, a .npz or .safetensors file, or
        module:attribute. For K-means gaussian, celltype, covtype, or such a file with the array points.
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

    clients: int = 8
    dataset: str = "digits"
    data: str = ""
    drop: float = 0.0
    shared_per_class: int = 5
    train_samples: int = 0
    test_samples: int = 0
    validation: float = 0.0
    bases: Mapping[str, str] = field(default_factory=dict)
    table_format: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        allowed = f"a whole number from 1 to {MAX_CLIENTS}"
        _check(1 <= self.clients <= MAX_CLIENTS, "scenario.clients", allowed, self.clients)
        _check(0 <= self.drop < 1, "scenario.drop", "at least 0 and below 1", self.drop)
        allowed = "from 1 to 1000"
        _check(1 <= self.shared_per_class <= 1000, "scenario.shared_per_class", allowed, self.shared_per_class)
        _check(self.train_samples >= 0, "scenario.train_samples", "0 (all) or more", self.train_samples)
        _check(self.test_samples >= 0, "scenario.test_samples", "0 (all) or more", self.test_samples)
        _check(0 <= self.validation <= 0.5, "scenario.validation", "from 0 (test samples) to 0.5", self.validation)


@dataclass(frozen=True)
class RunSettings:
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
    workers: int = 0
    executor: str = "auto"
    device: str = "cpu"
    together: int = 1
    evaluate_every: int = 1
    probe_every: int = 0
    kubo_nodes: int = 2
    block_seconds: float = 1.0
    standby: int = 1
    explorer: bool | None = None

    def __post_init__(self) -> None:
        _check(0 <= self.workers <= 1024, "run.workers", "a whole number from 0 to 1024", self.workers)
        _check(self.device in ("cpu", "cuda"), "run.device", "cpu or cuda", self.device)
        _check(1 <= self.together <= 10_000, "run.together", "a whole number from 1 to 10000", self.together)
        _check(1 <= self.evaluate_every <= 100_000, "run.evaluate_every", "from 1 to 100000", self.evaluate_every)
        _check(0 <= self.probe_every <= 100_000, "run.probe_every", "from 0 (never) to 100000", self.probe_every)
        _check(1 <= self.kubo_nodes <= 16, "run.kubo_nodes", "a whole number from 1 to 16", self.kubo_nodes)
        _check(0.1 <= self.block_seconds <= 60, "run.block_seconds", "from 0.1 to 60 seconds", self.block_seconds)
        _check(self.standby >= 0, "run.standby", "0 or more", self.standby)


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
class TaskChoice:
    """The table ``[task]``: a task of the user's own.

    Attributes
    ----------
    folder : str
        The task's, or its one Python file.
    bundle : str
        CID that the folder must pack to, as a federation's terms state it; empty: whatever it packs to.
    name : str
        A shipped task, ``tabular`` or ``images``, in place of a folder with code.
    keep : tuple of str
        Patterns of names of tensors that stay at home, as ``head.*``: personal layers.
    options : mapping
        Keyword arguments of the task's class.
    shared : str
        Name of the file in the folder that holds the shared set; empty: there is none.
    bases : tuple of FrozenBase
        Pretrained models that are not federated, by content.
    """

    folder: str = ""
    bundle: str = ""
    name: str = ""
    keep: tuple[str, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    shared: str = ""
    bases: tuple[FrozenBase, ...] = ()


@dataclass(frozen=True)
class KMeansChoice:
    """The table ``[kmeans]``: the clients cluster points in place of training a model.

    Attributes
    ----------
    k : int
        Clusters; 0: the number known for the data set.
    iterations : int
        Lloyd iterations at each client; 0: its centroids are some of its points.
    clusters_each : int
        Clusters of the central solution per client; 0: all.
    """

    k: int = 0
    iterations: int = 0
    clusters_each: int = 0

    def __post_init__(self) -> None:
        _check(0 <= self.k <= 1000, "kmeans.k", "a whole number from 0 to 1000", self.k)
        _check(0 <= self.iterations <= 1000, "kmeans.iterations", "a whole number from 0 to 1000", self.iterations)
        allowed = "a whole number from 0 to 1000"
        _check(0 <= self.clusters_each <= 1000, "kmeans.clusters_each", allowed, self.clusters_each)


def _check(fine: bool, key: str, allowed: str, value: object) -> None:
    if not fine or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidConfig(f"{key} must be {allowed}, not {value!r}")
