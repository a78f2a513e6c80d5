"""What a mechanism does between a client's training and the next model, as pure functions of arrays.

A federation wraps it with masks, a store and its records (``node.methods.training``), a simulation with seeds
(``node.simulation``). Neither has arithmetic of its own, so they cannot differ in it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout, add
from fedgrove.node.masking.keys import Random

Rates = Sequence[float | None]
"""What a client measured: each in [0, 1], or None where it measured nothing."""
Start = Callable[[], Mapping[str, np.ndarray]]
"""Returns the model that the round trains from: it may be large, and not every mechanism looks at it."""


@dataclass(frozen=True)
class Weight:
    """``samples`` of ``total``: what an upload, or a sum of uploads, counts in the mean.

    Where a mechanism weighs all clients alike, ``samples`` is the number of uploads.
    """

    samples: int
    total: int


class Mechanism(ABC):
    """One mechanism's uploads for one round: words that are added modulo 2³², and the model behind their sum.

    A frozen value, which may be sent to other processes.

    Attributes
    ----------
    hides_divergence : bool
        A training that diverged counts as no update and is made private like any other, so that nobody learns whose it
        was.
    weighs_samples : bool
        Updates are weighted by the clients' sample counts.
    layout : Layout
        The model's tensors.
    """

    hides_divergence: ClassVar[bool] = True
    weighs_samples: ClassVar[bool] = False

    layout: Layout

    @property
    def length(self) -> int:
        """Words of an upload."""
        return self.layout.length

    @abstractmethod
    def encode(
        self, trained: np.ndarray, start: Start, weight: Weight, random: Random, rates: Rates = ()
    ) -> np.ndarray:
        """A client's part of the sum.

        Parameters
        ----------
        trained : float32 array of shape (layout.length,)
            The trained parameters; overwritten.
        start : callable
            Returns the model that the training began with.
        weight : Weight
            The client's, where the mechanism weighs samples.
        random : Random
            ``os.urandom`` in a federation: the guarantee is as good as this.
        rates : sequence of (float or None)
            What the client measured, for mechanisms that upload it with the model.

        Returns
        -------
        uint32 array of shape (length,), little-endian
        """

    @abstractmethod
    def mean(self, words: np.ndarray, start: Start, weight: Weight) -> np.ndarray:
        """The model behind a sum of uploads of this weight: float32 (layout.length,), the same on every machine.

        Parameters
        ----------
        words : uint32 array of shape (layout.length,)
            Overwritten.
        """

    def change(self, trained: np.ndarray, start: Start) -> np.ndarray:
        """Δ, written over the trained parameters; not finite where too large; InvalidContent if others were trained."""
        model = start()
        if Layout.of(model) != self.layout:
            raise InvalidContent("the trained model has other tensors than the round's global model")
        with np.errstate(over="ignore", invalid="ignore"):
            add(trained, model, -1)
        return trained
