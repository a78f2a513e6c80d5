"""What a trial starts from: private data of the victims, public data of the attacker, and the federation's terms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random as Generator
from typing import Any

import numpy as np
import torch

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings, default_model
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.masking.keys import Random
from fedgrove_lab.attacks.played_round import AttackedTerms
from fedgrove_lab.attacks.uploads import Noise


@dataclass(frozen=True)
class Scene:
    """A federation under attack.

    Attributes
    ----------
    spec : ModelSpec
        The federation's model.
    private, public : Samples
        Halves of the training samples, drawn by the seed: the clients', and what attacker and evaluator have.
    seed : int
        Root of all randomness.
    quick : bool
        Fewer victims and shorter searches.
    terms, noise : Terms, Noise
        How the federation masks, and the noise it adds where it has client-level privacy.
    """

    dataset: str
    spec: ModelSpec
    private: Samples = field(repr=False)
    public: Samples = field(repr=False)
    test: Samples = field(repr=False)
    seed: int = 0
    quick: bool = False
    terms: AttackedTerms = field(default_factory=AttackedTerms)
    noise: Noise = field(default_factory=Noise)

    def random(self, *purpose: object) -> Random:
        """Seeded bytes in place of ``os.urandom``, so that a report can be repeated."""
        return Generator(self._digest("bytes", *purpose)).randbytes

    def generator(self, *purpose: object) -> torch.Generator:
        """Randomness of a search."""
        return torch.Generator().manual_seed(int.from_bytes(self._digest("torch", *purpose)[:8], signed=True))

    def initial(self, model: str = "", number: int = 0) -> Tensors:
        """A fresh model; number 0 is the federation's."""
        return initial_tensors(
            model or self.spec.name, self.spec.input_shape, self.spec.classes, 1000 * self.seed + number
        )

    def trained(
        self, before: Tensors, samples: Samples, settings: TrainingSettings, client: int, model: str = ""
    ) -> Tensors:
        """What a client's FedAvg makes of a model: its upload, bare. The nodes' own training."""
        spec = ModelSpec(model or self.spec.name, self.spec.input_shape, self.spec.classes)
        strategy = make_strategy("fedavg", {})
        return train(
            spec, before, samples, None, strategy, settings, number=1, rounds=1, client=client, seed=self.seed
        ).tensors

    def share(self, client: int, size: int) -> Samples:
        """The private samples of a client, numbered from 0; those of different clients are disjoint."""
        return self.private.take(np.arange(client * size, (client + 1) * size))

    def _digest(self, *purpose: object) -> bytes:
        return sha256(" ".join(map(str, ("fedgrove attack", self.seed, *purpose))).encode()).digest()


@dataclass(frozen=True)
class TrialFinding:
    """What a trial found.

    Attributes
    ----------
    results : dict
        For machines; the trial's table is written from it.
    pictures : mapping of str to mapping of str to float array (n, h, w)
        By file name: rows of images in [0, 1], by label.
    """

    results: dict[str, Any]
    pictures: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)


def make_scene(dataset: Dataset, seed: int = 0, *, quick: bool = False, noise: Noise | None = None) -> Scene:
    """Divide a data set between victims and attacker.

    Raises
    ------
    ValueError
        Images of several channels, which no picture here shows, or too few of them, or of a class.
    """
    if dataset.input_shape[0] != 1:
        raise InvalidInput("attacks are shown on grey images (one channel): choose mnist, fashion-mnist or digits")
    samples = dataset.train()
    if len(samples) < 1000:
        raise InvalidInput(f"attacks need 1,000 training samples, half of them private; there are {len(samples)}")
    order = np.random.default_rng([seed, 4]).permutation(len(samples))
    private, public = np.array_split(order, 2)
    if dataset.classes < 2 or any(len(np.unique(samples.y[half])) < dataset.classes for half in (private, public)):
        raise InvalidInput("attacks need two classes or more, and several training samples of each")
    spec = ModelSpec(default_model(dataset.name, dataset.input_shape), dataset.input_shape, dataset.classes)
    return Scene(
        dataset.name,
        spec,
        samples.take(private),
        samples.take(public),
        dataset.test(),
        seed,
        quick,
        noise=noise or Noise(),
    )
