"""Interface of a strategy: samples mixed in, terms of the loss, extra tensors to send, and state to keep.

The server's part is the same for all: the weighted mean of everything that is uploaded, weights and extras alike, under
the masks. So the auditor recomputes any strategy's round without knowing it.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import Classifier
from fedgrove.node.learning.samples import Samples


@dataclass(frozen=True)
class RoundStart:
    """Inputs of a client when its round begins.

    Attributes
    ----------
    round, rounds : int
        Communication round t, from 1, and their total T.
    samples : Samples
        The data that the client trains on, ``local_data`` applied.
    shared : Samples or None
        The federation's shared set d_share.
    extras : Tensors
        Averaged extras that came with the global model.
    state : Tensors
        What this client's last round returned as its state; empty in its first.
    generator : torch.Generator
        The strategy's own randomness; drawing from it does not disturb the training's.
    prepared : object
        What ``Strategy.prepare`` gave for this round.
    sampling_rate : float
        Share of the members that a round draws, on average where they are drawn one by one.
    """

    round: int
    rounds: int
    samples: Samples
    shared: Samples | None
    extras: Tensors
    state: Tensors
    generator: torch.Generator = field(repr=False)
    prepared: object = None
    sampling_rate: float = 1.0


@dataclass(frozen=True)
class Batch:
    """One training step's images, labels and layer outputs (the last are the logits).

    ``companions`` are the layer outputs of the images that the term sent along.
    """

    x: torch.Tensor
    y: torch.Tensor
    outputs: tuple[torch.Tensor, ...]
    companions: tuple[torch.Tensor, ...] = ()

    @property
    def representation(self) -> torch.Tensor:
        """What the last layer is applied to, before its activation (n, units)."""
        return self.outputs[-2]

    @property
    def logits(self) -> torch.Tensor:
        """What the cross-entropy is taken of (n, classes)."""
        return self.outputs[-1]


@dataclass(frozen=True)
class RoundEnd:
    """Output of a client's round: extras to upload, and state to keep at home. float32 arrays by name."""

    extras: Tensors = field(default_factory=dict)
    state: Tensors = field(default_factory=dict)


class LocalTerm:
    """A strategy's work in one client's round; this one adds nothing (FedAvg).

    Attributes
    ----------
    contrasts : bool
        Whether ``loss`` needs the batch's representation.
    """

    contrasts: ClassVar[bool] = False

    def start_epoch(self, epoch: int) -> None:
        """Called before each local epoch, counted from 0."""

    def companions(self) -> torch.Tensor | None:
        """Images (n, c, h, w) that the next step sends through the model with its own, or None."""
        return None

    def calibrated(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits (n, classes) that the step's cross-entropy is taken of, given the model's."""
        return logits

    def loss(self, batch: Batch) -> torch.Tensor | None:
        """Scalar to add to the step's cross-entropy, or None."""
        return None

    def before_step(self, again: Callable[[], object]) -> None:
        """Called after each backward pass; may change the gradients that the parameters hold.

        ``again`` repeats the batch's forward and backward pass with the weights as they are then.
        """

    def finish(self) -> RoundEnd:
        """Called once after the last step."""
        return RoundEnd()


class Strategy(Protocol):
    """A federated method's local side. Strategies are frozen dataclasses: they can be sent to another process."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str: ...

    @property
    def needs_shared(self) -> bool:
        """Whether the federation must have a shared set."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether a client's state is a tensor of each weight's name and shape; otherwise it has none."""
        ...

    def initial_extras(self, weights: Tensors) -> Tensors:
        """Extras that accompany the first global model; their names and shapes stay those of every upload."""
        ...

    def local_data(self, samples: Samples, shared: Samples | None) -> Samples:
        """The samples to train on."""
        ...

    def prepare(self, model: Classifier, shared: Samples | None, *, number: int, rounds: int) -> object:
        """The work of a round that is the same for all its clients, as a frozen value; None where there is none.

        ``model`` holds the global weights. Clients share the value, so nobody writes to it.
        """
        ...

    def begin(self, model: Classifier, start: RoundStart) -> LocalTerm:
        """Start a round; ``model`` holds the global weights now and is the one that will be trained."""
        ...
