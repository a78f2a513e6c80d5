"""The data of a simulation: split among clients, and brought to the workers without a copy for each task.

How samples reach a worker follows from the executor (``node.simulation.executors.reach``): in this process they are
passed as they are; processes of this machine open two .npy files, mapped into memory, which the operating system holds
once for all of them; workers elsewhere get in each task the samples of its clients, and nothing else.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.partition import Partition, deal
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.learning.settings import ModelSpec, default_model
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.executors import Reach

# Training, test and shared samples of one simulation; more would keep deleted files' space taken.
OPEN_FILES = 3
# Test samples a slice.
SLICE = 500


@dataclass(frozen=True)
class Dealt:
    """A scenario's data.

    Attributes
    ----------
    spec : ModelSpec
        The model that they suit.
    training : Samples
        All clients' samples.
    parts : tuple of ndarray
        Indices into ``training`` of clients 1, 2, …
    test : Samples
        For evaluation.
    shared : Samples or None
        d_share, where the strategy needs one.
    """

    spec: ModelSpec
    training: Samples
    parts: Partition
    test: Samples
    shared: Samples | None

    def digest(self) -> str:
        """SHA-256, in hex, of all samples: a run is resumed on the data that it began with."""
        total = hashlib.sha256()
        for samples in filter(None, (self.training, self.test, self.shared)):
            for array in (samples.x, samples.y):
                total.update(repr((array.dtype.str, array.shape)).encode())
                total.update(np.ascontiguousarray(array).data)
        return total.hexdigest()


def deal_data(scenario: Scenario, dataset: Dataset, with_shared: bool) -> Dealt:
    """Deal a data set as the scenario says; the demonstration's federation deals with the same function.

    Raises
    ------
    InvalidConfig
        The data do not suit the scenario.
    """
    training, test = dataset.train(), dataset.test()
    try:
        if scenario.cast.train_samples:
            training = _subset(training, scenario.cast.train_samples, scenario.seed)
        if scenario.cast.validation:
            training, test = _split(training, scenario.cast.validation, scenario.seed)
        if scenario.cast.test_samples:
            test = Samples(test.x[: scenario.cast.test_samples], test.y[: scenario.cast.test_samples])
        per_class = scenario.cast.shared_per_class if with_shared else 0
        parts, shared = deal(training, scenario.clients, scenario.partition, per_class, scenario.seed)
        name = scenario.model.name or default_model(dataset.name, dataset.input_shape)
        return Dealt(ModelSpec(name, dataset.input_shape, dataset.classes), training, parts, test, shared)
    except (InvalidInput, InvalidContent) as fault:
        raise InvalidConfig(f"the data do not suit this scenario: {fault}") from None


def _subset(samples: Samples, count: int, seed: int) -> Samples:
    if count > len(samples):
        raise InvalidInput(f"there are {len(samples)} training samples, not the {count} of train_samples")
    return samples.take(np.sort(np.random.default_rng([seed, 2]).choice(len(samples), count, replace=False)))


def _split(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples]:
    """Training and validation samples."""
    count = int(share * len(samples))
    if count == 0:
        raise InvalidInput(f"scenario.validation leaves none of the {len(samples)} training samples to test on")
    held_out = np.zeros(len(samples), bool)
    held_out[np.random.default_rng([seed, 5]).choice(len(samples), count, replace=False)] = True
    return samples.take(np.flatnonzero(~held_out)), samples.take(np.flatnonzero(held_out))


@dataclass(frozen=True)
class OnDisk:
    """Samples in two files of a folder; the digest keeps a worker from taking one simulation's for another's."""

    folder: str
    name: str
    digest: str


def put_on_disk(samples: Samples, folder: Path, name: str, digest: str) -> OnDisk:
    """Write samples for the workers of this machine."""
    np.save(folder / f"{name}-x.npy", samples.x)
    np.save(folder / f"{name}-y.npy", samples.y)
    return OnDisk(str(folder), name, digest)


def opened(samples: Samples | OnDisk | None) -> Samples:
    """The samples: mapped into memory, read-only, and once a process where they are on disk."""
    if samples is None:
        raise ValueError("the work names samples by their places, and there are none to take them from")
    return _mapped(samples) if isinstance(samples, OnDisk) else samples


@lru_cache(maxsize=OPEN_FILES)
def _mapped(place: OnDisk) -> Samples:
    arrays = [np.load(Path(place.folder) / f"{place.name}-{part}.npy", mmap_mode="r") for part in "xy"]
    return Samples(*arrays)


@dataclass(frozen=True)
class Slice:
    """Samples ``start`` … ``stop`` − 1 of those given."""

    samples: Samples | OnDisk = field(repr=False)
    start: int
    stop: int

    def read(self) -> Samples:
        """A copy of them."""
        whole = opened(self.samples)
        return Samples(np.array(whole.x[self.start : self.stop]), np.array(whole.y[self.start : self.stop]))


class ClientsData(ABC):
    """The clients' data, where workers find them.

    Attributes
    ----------
    tests : bool
        Whether there is anything to test models on.
    """

    tests: bool = True

    @abstractmethod
    def size(self, client: int) -> int:
        """How many samples a client has."""

    @abstractmethod
    def samples(self, client: int) -> object:
        """What work carries of a client's samples, for the terms to read."""

    @abstractmethod
    def common(self, probes: bool) -> dict[str, Samples | OnDisk | None]:
        """What the training of all clients reads, by the fields of ``TrainingTask``."""

    @abstractmethod
    def test_parts(self) -> Iterable[object]:
        """What models are tested on, in parts."""


class PlacedData(ClientsData):
    """A simulation's data where the workers find them.

    Parameters
    ----------
    data : Dealt
        What is split among the clients.
    digest : str
        Names the data on disk.
    reach : Reach
        How workers get at data.
    scratch : Path
        An empty directory for what workers of this machine read.

    Attributes
    ----------
    training : Samples, OnDisk or None
        What the clients' indices point into; None where work carries the samples themselves.
    """

    def __init__(self, data: Dealt, digest: str, reach: Reach, scratch: Path) -> None:
        def place(samples: Samples, name: str) -> Samples | OnDisk:
            return put_on_disk(samples, scratch, name, digest) if reach == "disk" else samples

        self._data, self._by_message = data, reach == "message"
        self.training = None if self._by_message else place(data.training, "training")
        self._test = place(data.test, "test")
        self._shared = None if data.shared is None else place(data.shared, "shared")

    def size(self, client: int) -> int:
        return len(self._data.parts[client - 1])

    def samples(self, client: int) -> Samples | np.ndarray:
        """Their indices into ``training``, or themselves."""
        indices = self._data.parts[client - 1]
        return self._data.training.take(indices) if self._by_message else indices

    def common(self, probes: bool) -> dict[str, Samples | OnDisk | None]:
        return {"training": self.training, "shared": self._shared, "probe": self._test if probes else None}

    def test_parts(self) -> Iterator[Slice]:
        """The test samples in slices that do not depend on the number of workers."""
        test = self._data.test
        for start in range(0, len(test), SLICE):
            stop = min(start + SLICE, len(test))
            if self._by_message:
                yield Slice(Samples(test.x[start:stop], test.y[start:stop]), 0, stop - start)
            else:
                yield Slice(self._test, start, stop)
