"""The server's step: what it does with the mean of a round's uploads, beyond taking it for the next model. No torch.

Everybody repeats it to the bit, from public values: arrays are float32, and each operation on them (+, −, ×, ÷, √) is
one of NumPy's, in the order written here. IEEE 754 rounds each of these correctly, so that no processor differs.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedgrove.common.settings import Settings

Kept = Mapping[str, np.ndarray]
"""What the server keeps of one tensor from round to round, by name: float32 arrays of the tensor's shape."""

MOMENTUM, SQUARE = "momentum", "square"
"""Names of what is kept: a sum or mean of the changes, a mean of their squares."""


_Rate = Annotated[float, Meta(gt=0, le=100)]
_Kept = Annotated[float, Meta(ge=0, le=0.9999)]


class ServerStep(ABC):
    """A server's step on one tensor.

    Attributes
    ----------
    step : str
        Its name in the terms.
    """

    step: ClassVar[str]

    @property
    @abstractmethod
    def rest(self) -> Mapping[str, float]:
        """What is kept for each value before the first round, by name."""

    def start(self, weights: np.ndarray, kept: Kept) -> np.ndarray:
        """The weights that clients train from."""
        return weights

    @abstractmethod
    def next(self, weights: np.ndarray, change: np.ndarray, kept: Kept) -> tuple[np.ndarray, Kept]:
        """The next weights, and what is kept with them.

        Parameters
        ----------
        weights : float32 array
            Of the model that the round began with.
        change : float32 array
            Δ, the mean of the trained weights less those that clients trained from.
        """


@dataclass(frozen=True)
class MomentumStep(Settings, ServerStep):
    """FedAvgM: Hsu, Qi and Brown 2019, "Measuring the Effects of Non-Identical Data Distribution".

    m ← βm + Δ, w ← w + ηm. With ``lookahead`` clients train from w + ηβm: the server of FedACG (Kim et al. 2024,
    "Communication-Efficient Federated Learning with Accelerated Client Gradient", algorithm 1).

    Attributes
    ----------
    rate : float
        η, the server's learning rate.
    momentum : float
        β, what stays of the momentum from round to round. With 0, and η = 1, the next model is the mean, up to a
        rounding.
    lookahead : bool
        Clients train from where the momentum alone would carry the model.
    """

    step: ClassVar[str] = "momentum"

    rate: _Rate = 1.0
    momentum: _Kept = 0.9
    lookahead: bool = False

    @property
    def rest(self) -> Mapping[str, float]:
        return {MOMENTUM: 0.0}

    def start(self, weights: np.ndarray, kept: Kept) -> np.ndarray:
        if not self.lookahead:
            return weights
        return weights + np.float32(self.rate) * (np.float32(self.momentum) * kept[MOMENTUM])

    def next(self, weights: np.ndarray, change: np.ndarray, kept: Kept) -> tuple[np.ndarray, Kept]:
        momentum = np.float32(self.momentum) * kept[MOMENTUM] + change
        return weights + np.float32(self.rate) * momentum, {MOMENTUM: momentum}


@dataclass(frozen=True)
class AdamStep(Settings, ServerStep):
    """FedAdam: Reddi et al. 2021, "Adaptive Federated Optimization", algorithm 2: Adam without correction of its bias.

    m ← β₁m + (1 − β₁)Δ, v ← β₂v + (1 − β₂)Δ², w ← w + ηm / (√v + τ), from m = 0 and v = τ² on.

    Attributes
    ----------
    rate : float
        η, the server's learning rate: about how far a weight moves in a round. The paper tries 0.001 to 10.
    momentum : float
        β₁, what stays of the mean of the changes from round to round.
    decay : float
        β₂, what stays of the mean of their squares.
    tau : float
        τ, below which changes count as small; the larger, the less the step adapts.
    """

    step: ClassVar[str] = "adam"

    rate: _Rate = 0.01
    momentum: _Kept = 0.9
    decay: _Kept = 0.99
    tau: Annotated[float, Meta(ge=1e-08, le=1)] = 1e-3

    @property
    def rest(self) -> Mapping[str, float]:
        return {MOMENTUM: 0.0, SQUARE: self.tau * self.tau}

    def next(self, weights: np.ndarray, change: np.ndarray, kept: Kept) -> tuple[np.ndarray, Kept]:
        momentum = np.float32(self.momentum) * kept[MOMENTUM] + np.float32(1 - self.momentum) * change
        square = np.float32(self.decay) * kept[SQUARE] + np.float32(1 - self.decay) * (change * change)
        moved = np.float32(self.rate) * momentum / (np.sqrt(square) + np.float32(self.tau))
        return weights + moved, {MOMENTUM: momentum, SQUARE: square}


ServerSettings = MomentumStep | AdamStep
SERVER_STEPS: dict[str, type[ServerSettings]] = {kind.step: kind for kind in (MomentumStep, AdamStep)}
"""Settings of a federation's ``[server]`` table, by its ``step``; ``none`` has none: the next model is the mean."""
