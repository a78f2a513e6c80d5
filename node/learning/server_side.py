"""What a federation publishes after each round: the model, and what the server keeps with it under reserved names.

The state of a server's step (``node.learning.server_steps``) travels with the model that it belongs to. So whoever has
the model has the state, also after a round that failed or was voided: the next one begins with the model before it.
Clients upload nothing of it.
"""

from collections.abc import Callable, Mapping

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.moments import MEAN
from fedgrove.node.learning.server_steps import SQUARE, ServerStep
from fedgrove.node.masking.ring import kept_within

PREFIX = "server/"
"""How the names of the server's own tensors begin; what they are follows, and the name of the tensor they belong to."""

_TRAINED_WITH_STATISTICS = ("weight", "bias")


class ServerSide:
    """The server's part in a round, once the mean of its uploads is known; without a step the mean is the next model.

    Stepped is what training moves: neither what a strategy sends with the weights, nor the statistics of a module
    with a ``running_mean``. Of those the next model has the mean.

    Parameters
    ----------
    step : ServerStep, optional
    strategy : str
        Name of the strategy, with which the names of its own tensors begin.
    bound : float or None
        Where uploads are weights, the largest absolute value that they may have: a stepped model stays within it.
    """

    def __init__(self, step: ServerStep | None, strategy: str, bound: float | None) -> None:
        self._step, self._strategy, self._bound = step, strategy, bound

    def first(self, model: Tensors) -> Tensors:
        """What is published before the first round.

        Raises
        ------
        InvalidContent
            A tensor has a name that is reserved.
        """
        for name in model:
            if name.startswith(PREFIX):
                raise InvalidContent(f"tensor {name!r} must have another name: {PREFIX} is for what the server keeps")
        if self._step is None:
            return model
        rest = self._step.rest
        return model | {
            name: np.full(model[tensor].shape, rest[kind], np.float32)
            for name, (kind, tensor) in self._names(self._step, model).items()
        }

    def check(self, content: Tensors) -> None:
        """Raise InvalidContent unless what is published holds the state of this step, whole, and nothing else of it."""
        if self._step is None:
            return
        names = self._names(self._step, self.model(content))
        found = {name: value for name, value in content.items() if name.startswith(PREFIX)}
        if {name: value.shape for name, value in found.items()} != {
            name: content[tensor].shape for name, (_, tensor) in names.items()
        }:
            raise InvalidContent(f"the tensors that the server keeps are not those of the step {self._step.step}")
        if any(value.min() < 0 for name, value in found.items() if name.startswith(f"{PREFIX}{SQUARE}/")):
            raise InvalidContent("the server keeps a mean of squares that is negative")

    def model(self, content: Tensors) -> Tensors:
        """The model in what is published."""
        return content if self._step is None else without_state(content)

    def start(self, content: Tensors) -> Tensors:
        """The model that clients train from, and that their updates are counted from."""
        if self._step is None:
            return content
        model = self.model(content)
        return model | {name: self._start(self._step, content, name) for name in self._stepped(model)}

    def next(self, published: Callable[[], Tensors], mean: Tensors) -> Tensors:
        """What is published after a round.

        Parameters
        ----------
        published : callable
            Returns what was published before the round.
        mean : dict of str to float32 array
            The mean of the trained models.
        """
        if self._step is None:
            return mean
        content, found = published(), dict(mean)
        for name in self._stepped(mean):
            change = mean[name] - self._start(self._step, content, name)
            weights, kept = self._step.next(content[name], change, self._kept(self._step, content, name))
            found[name] = self._within(weights)
            found |= {f"{PREFIX}{kind}/{name}": np.asarray(value) for kind, value in kept.items()}
        return found

    def _start(self, step: ServerStep, content: Tensors, name: str) -> np.ndarray:
        weights = content[name]
        start = step.start(weights, self._kept(step, content, name))
        return weights if start is weights else self._within(start)

    def _kept(self, step: ServerStep, content: Tensors, name: str) -> Tensors:
        return {kind: content[f"{PREFIX}{kind}/{name}"] for kind in step.rest}

    def _within(self, values: np.ndarray) -> np.ndarray:
        values = np.asarray(values)  # sums of arrays without dimensions are scalars
        return values if self._bound is None else kept_within(values, self._bound)

    def _names(self, step: ServerStep, model: Tensors) -> dict[str, tuple[str, str]]:
        """Names of what is kept with a model: what it is, and its tensor."""
        return {f"{PREFIX}{kind}/{name}": (kind, name) for kind in step.rest for name in self._stepped(model)}

    def _stepped(self, model: Tensors) -> list[str]:
        own = (name for name in model if not name.startswith(f"{self._strategy}/"))
        return [name for name in own if not _is_statistic(name, model)]


def without_state(content: Mapping[str, np.ndarray]) -> Tensors:
    """What is published after a round without what the server keeps."""
    return {name: value for name, value in content.items() if not name.startswith(PREFIX)}


def _is_statistic(name: str, model: Mapping[str, np.ndarray]) -> bool:
    """Whether a tensor belongs to a module that counts statistics, and is not a weight or bias of it."""
    module, dot, own = name.rpartition(".")
    return f"{module}{dot}{MEAN}" in model and own not in _TRAINED_WITH_STATISTICS
