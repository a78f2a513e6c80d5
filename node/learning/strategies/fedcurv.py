"""FedCurv: Shoham et al. 2019, "Overcoming Forgetting in Federated Learning on Non-IID Data", section 3.

Each client j sends, with its weights w_j, how sharply its loss is curved at them: the diagonal F_j of the Fisher
information, and F_j · w_j. In the next round clients are held to w_j where F_j is large.

The paper's client s adds λ Σ_{j≠s} F_j · (w − w_j)², the sum over the last round's clients. The server takes means
here, weighted by p_j = n_j/N, so what is added is

    λ Σ_j p_j F_j · (w − w_j)² = λ Σ (F̄ · w² − 2 · F̄w̄ · w) + constant,   F̄ = Σ_j p_j F_j,   F̄w̄ = Σ_j p_j F_j w_j.

For m clients with as many samples each that is the paper's term with λ/m for λ, with one exception: a client that took
part in the last round is not left out, as a strategy is not told with which share p_s, if at all, its update went into
the mean. Its own part of the term has that share and holds it to its own last weights. With a sampling rate r it is
there in a fraction r of the client's rounds.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from msgspec import Meta

from fedgrove.node.base.tensors import Tensors, prefixed
from fedgrove.node.learning.strategies.alongside import of_parameters, zeros_for
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart, Strategy
from fedgrove.node.learning.strategies.penalty import curvature
from fedgrove.node.learning.tasks.model import TaskModel

FISHER = "fedcurv/fisher/"
MOMENT = "fedcurv/moment/"
MAX_FISHER = 1.0


@dataclass(frozen=True)
class FedCurv(Strategy):
    """FedCurv's option.

    Values of F are sent as they are, but none larger than 1. So F and F · w stay within any bound of 1 or more that the
    weights stay within. On digits and MNIST a client's largest value is 1e-4 to 0.7, and the values below 2⁻²⁷, which
    the masked sum cannot hold, make up less than a thousandth of all.

    Attributes
    ----------
    weight : float
        λ, the weight of the penalty, for means of F over the clients. The best one depends on data and model: sweep it
        upwards. Since no F exceeds 1, the penalty alone cannot make SGD diverge while λ is below 1/learning_rate; at
        about ten times that value it did on MNIST, where λ = 1 changed next to nothing. With 0 the weights are
        FedAvg's.
    """

    weight: Annotated[float, Meta(ge=0, le=1e9)] = 10.0

    def initial_extras(self, weights: Tensors) -> Tensors:
        """Zeros for F and F · w of each tensor: nobody is held to anything in the first round."""
        return zeros_for(weights, FISHER) | zeros_for(weights, MOMENT)

    def begin(self, model: TaskModel, start: RoundStart) -> LocalTerm:
        return CurvatureTerm(self.weight, model, start)


class CurvatureTerm(LocalTerm):
    """λ Σ (F̄ · w² − 2 · F̄w̄ · w), and at the end this client's own F and F · w."""

    def __init__(self, weight: float, model: TaskModel, start: RoundStart) -> None:
        self._model = model
        self._samples = start.samples
        self._parameters = list(model.parameters())
        self._diagonal = [2 * weight * fisher for fisher in of_parameters(model, start.extras, FISHER)]
        self._linear = [2 * weight * moment for moment in of_parameters(model, start.extras, MOMENT)]
        self._holds = any(bool(fisher.any()) for fisher in self._diagonal)

    def loss(self, batch: Batch) -> torch.Tensor | None:
        """The penalty without its constant; it does not depend on the batch."""
        return curvature(self._parameters, self._diagonal, self._linear) if self._holds else None

    def finish(self) -> RoundEnd:
        """F at the trained weights on the client's samples, as they are without augmentation, and F · w."""
        found = self._model.squared_gradients(self._samples)
        fisher, moment = {}, {}
        for (name, weights), values in zip(self._model.named_parameters(), found, strict=True):
            fisher[name] = values.clamp(max=MAX_FISHER).cpu().numpy()
            moment[name] = fisher[name] * weights.detach().cpu().numpy()
        return RoundEnd(prefixed(FISHER, fisher) | prefixed(MOMENT, moment))
