"""Means and deviations of all members' data, summed under masks in a first round, and the layer that scales by them.

The layer's statistics are buffers of the model, so they travel as other running statistics do: the mean, and in place
of the variance the second moment, whose means over the clients, weighted by their samples, are those of the pooled
data. As long as the global model does not hold them yet, a client's round fills them from its own data and leaves the
parameters as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from fedgrove.node.learning.tasks.task import InvalidTask

EPSILON = 1e-6  # added to variances: a column that never changes is centred only


class Standardise(nn.Module):
    """Subtracts means and divides by deviations of all members' data. Put it where inputs enter the model.

    It lets inputs through as they are until a round has closed that summed these statistics.

    Parameters
    ----------
    features : int
        How many of the inputs' last dimension to standardise, from the first on; the others pass.
    """

    running_mean: Tensor
    running_var: Tensor
    known: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.zeros(features))
        self.register_buffer("known", torch.zeros(1))
        self._sums: _Sums | None = None

    @property
    def is_known(self) -> bool:
        """Whether the statistics are those of data: all zeros are in the first model alone.

        ``known`` by itself would be for one client to say, by a number that cancels the ones of all others.
        """
        return any(bool(tensor.any()) for tensor in (self.known, self.running_mean, self.running_var))

    def forward(self, inputs: Tensor) -> Tensor:
        own = inputs[..., : self.features]
        if self._sums is not None:
            self._sums.add(own.detach())
        if self.is_known:
            own = (own - self.running_mean) / (self.running_var + EPSILON).sqrt()
        return torch.cat([own, inputs[..., self.features :]], -1)

    def gather(self) -> None:
        """Begin to sum what comes in."""
        self._sums = _Sums()

    def settle(self) -> None:
        """Take the statistics of what has come in."""
        assert self._sums is not None
        mean, variance = self._sums.moments()
        self._sums = None
        with torch.no_grad():
            self.running_mean.copy_(mean)
            self.running_var.copy_(variance)
            self.known.fill_(1.0)


class _Sums:
    """Number, sum and sum of squares of rows, in double precision."""

    def __init__(self) -> None:
        self._count, self._sum, self._squares = 0, torch.zeros(()).double(), torch.zeros(()).double()

    def add(self, values: Tensor) -> None:
        rows = values.reshape(-1, values.shape[-1]).double()
        self._count += len(rows)
        self._sum, self._squares = self._sum + rows.sum(0), self._squares + rows.square().sum(0)

    def moments(self) -> tuple[Tensor, Tensor]:
        if not self._count:
            raise InvalidTask("no inputs came to a layer Standardise: put it where inputs enter the model")
        mean = self._sum / self._count
        return mean, (self._squares / self._count - mean.square()).clamp(min=0)


def fill(module: nn.Module, federated: Mapping[str, Tensor], forward: Callable[[], object]) -> bool:
    """Fill the layers that know no statistics yet, from what ``forward`` sends through the module.

    Returns
    -------
    bool
        Whether some of them are federated: this is then the round that sums them, and trains nothing.
    """
    unknown = {name: layer for name, layer in _layers(module).items() if not layer.is_known}
    for layer in unknown.values():
        layer.gather()
    if unknown:
        forward()
    for layer in unknown.values():
        layer.settle()
    return any(_names(name)[0] in federated for name in unknown)


def refuse_at_home(module: nn.Module, keep: Sequence[str]) -> None:
    """Refuse to leave statistics at home that nobody asked to keep there: where updates are clipped, none travel.

    Raises
    ------
    InvalidTask
    """
    for name in _layers(module):
        if not all(any(fnmatchcase(each, pattern) for pattern in keep) for each in _names(name)):
            raise InvalidTask(
                "the model standardises by sums of all members' data, to which [privacy] adds no noise: scale by "
                "stated ranges instead"
            )


def _layers(module: nn.Module) -> dict[str, Standardise]:
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, Standardise)}


def _names(layer: str) -> list[str]:
    return [f"{layer}.{name}" if layer else name for name in ("running_mean", "running_var", "known")]
