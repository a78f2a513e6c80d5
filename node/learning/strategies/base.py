"""Interface of a strategy: samples mixed in, terms of the loss, extra tensors to send, and state to keep.

The server's part is the same for all: the weighted mean of everything that is uploaded, weights and extras alike, under
the masks. So the auditor recomputes any strategy's round without knowing it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import torch
from msgspec import Meta

from fedgrove.common.settings import Settings
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.settings import SHARING
from fedgrove.node.learning.tasks.model import TaskModel


@dataclass(frozen=True)
class RoundStart:
    """Inputs of a client when its round begins.

    Attributes
    ----------
    round, rounds : int
        Communication round t, from 1, and their total T.
    samples : dataset
        The data that the client trains on, ``local_data`` applied.
    shared : dataset or None
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
    samples: Any
    shared: Any
    extras: Tensors
    state: Tensors
    generator: torch.Generator = field(repr=False)
    prepared: object = None
    sampling_rate: float = 1.0


@dataclass(frozen=True)
class Batch:
    """One training step's inputs, targets and output.

    Attributes
    ----------
    x, y, output
        As the task's ``batch`` and model give them; of a classifier, the output is its logits (n, classes).
    representation : tensor (n, units), optional
        Of each sample, where the term ``contrasts`` it.
    companions : tuple of tensor
        The layer outputs of the inputs that the term sent along.
    """

    x: Any
    y: Any
    output: Any
    representation: torch.Tensor | None = None
    companions: tuple[torch.Tensor, ...] = ()


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

    def companions(self) -> Any:
        """Inputs that the next step sends through the model with its own, or None."""
        return None

    def calibrated(self, output: Any) -> Any:
        """The output that the task's loss is taken of, given the model's."""
        return output

    def loss(self, batch: Batch) -> torch.Tensor | None:
        """Scalar to add to the task's loss of the step, or None."""
        return None

    def before_step(self, again: Callable[[], object]) -> None:
        """Called after each backward pass; may change the gradients that the parameters hold.

        ``again`` repeats the batch's forward and backward pass with the weights as they are then.
        """

    def finish(self) -> RoundEnd:
        """Called once after the last step."""
        return RoundEnd()


Weight = Annotated[float, Meta(ge=0, le=1000)]
"""Of a part of the loss, which 0 turns off, or a distance."""


@dataclass(frozen=True)
class Strategy(Settings):
    """A federated method's local side; this one adds nothing (FedAvg). Strategies can be sent to another process.

    Attributes
    ----------
    remembers : bool
        Whether a client's state is a tensor of each weight's name and shape; otherwise it has none.
    """

    remembers: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def needs_shared(self) -> bool:
        """Whether the federation must have a shared set."""
        return self.name in SHARING

    def initial_extras(self, weights: Tensors) -> Tensors:
        """Extras that accompany the first global model; their names and shapes stay those of every upload."""
        return {}

    def local_data(self, samples: Any, shared: Any) -> Any:
        """The dataset to train on, given the client's own and the shared set."""
        return samples

    def prepare(self, model: TaskModel, shared: Any, *, number: int, rounds: int) -> object:
        """The work of a round that is the same for all its clients, as a frozen value; None where there is none.

        ``model`` holds the global weights. Clients share the value, so nobody writes to it.
        """
        return None

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        """Start a round; ``model`` holds the global weights now and is the one that will be trained."""
        return LocalTerm()
