"""What passes between a client and a round of its training; no torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from fedgrove.common.errors import RunFailed
from fedgrove.node.base.tensors import Tensors

MODEL, STATE = "model/", "state/"
"""How the names of a model's tensors, and of what a client keeps, begin where both travel to a task's process."""


class DivergedTraining(RunFailed):
    """Local training left the finite numbers; the message names client, round and the settings to change."""

    exit_code = 1


class RoundPosition(TypedDict):
    """Position of a training: its round, from 1, the number of rounds, and the seed of all randomness.

    ``sampling_rate`` is the share of the members that the round draws; 1 where it is left out.
    """

    number: int
    rounds: int
    seed: int
    sampling_rate: NotRequired[float]


@dataclass(frozen=True)
class HeldOutSums:
    """Metrics of the model that a round began with, summed over the samples that a member holds out.

    Attributes
    ----------
    samples : int
        How many.
    totals : mapping of str to float
        By name; not finite where the task's metric is not.
    fault : str
        Why the task's own are not there, in one clause; empty where they are.
    place : str
        Where the task computes its own, as `` (task.py, line 7)``; empty where that is not known.
    """

    samples: int
    totals: Mapping[str, float]
    fault: str = ""
    place: str = ""


@dataclass(frozen=True)
class LocalUpdate:
    """Result of a client's round of training.

    Attributes
    ----------
    tensors : Tensors
        Trained weights and the strategy's extras: all that is uploaded, under masks.
    samples : int
        The client's own samples: its weight in the mean.
    loss : float
        Mean cross-entropy of the last local epoch.
    state : Tensors
        What the strategy keeps at home until the client's next round.
    measured : HeldOutSums or None
        How the model did before the training, where the terms ask for that.
    """

    tensors: Tensors
    samples: int
    loss: float
    state: Tensors = field(default_factory=dict)
    measured: HeldOutSums | None = None
