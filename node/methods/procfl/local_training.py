"""Local training where there are clusters: the model of a client's group, or again, to show or to judge it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.tensors import Tensors, flatten
from fedgrove.node.learning.local_update import RoundPosition
from fedgrove.node.methods.procfl.course import Course, chosen_by
from fedgrove.node.methods.procfl.round_inputs import sums_before, trained_round
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.training.codec import ModelUpdate
from fedgrove.node.methods.training.local_training import LocalTraining, Trainer
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import FederationConfig


class ClusterTraining(LocalTraining):
    """Trains the model of a client's group."""

    def __init__(
        self,
        store: ContentReader,
        config: FederationConfig,
        trainer: Trainer,
        journal: Journal,
        inputs: Callable[[RoundRecords], RoundInputs[ClusterState]],
        weight: Callable[[RoundRecords], int],
        course: Course,
    ) -> None:
        super().__init__(store, config, trainer, journal, inputs, weight)
        self._course = course

    def result(self, current: RoundRecords, client: int, last: bool = False) -> ModelUpdate | None:
        """As ``LocalTraining``; what training began with, too, where masks cannot hide what it leads to.

        Others may have brought the model to the brink of the bound.
        """
        found = super().result(current, client, last)
        if found is None:
            return None
        if not found.tensors or np.abs(flatten(found.tensors)).max() <= self._config.masking.bound:
            return found
        return replace(found, tensors=self._begin(current, client)[0])

    def began(self, inputs: RoundInputs[ClusterState], cluster: int) -> Tensors:
        """The model that a cluster's members trained from in the judged round."""
        return self._inputs(trained_round(inputs)).previous.model_of(cluster)

    def again(self, state: ClusterState) -> RoundPosition:
        """Position of a training that repeats the latest round with other batches: a judge's, or for a noised model."""
        seed = (self._config.federation.seed + 1) % (1 << 63)
        return {"number": state.trained, "rounds": self._course.training_rounds, "seed": seed}

    def _may_begin_anew(self, current: RoundRecords) -> bool:
        """Never: rounds fail by other clusters' members, too, and a member that diverges sends what it began with."""
        return False

    def _is_to_blame(self, model: Tensors) -> bool:
        """Never, as each group is summed apart, and a model that harms its cluster is judged."""
        return False

    def _begin(self, current: RoundRecords, client: int) -> tuple[Tensors, RoundPosition]:
        inputs = self._inputs(current)
        state = inputs.previous
        if state.stage == "train":
            model = state.model_of(max(0, chosen_by(state, current.draws[client].samples)))
            # A repeated round takes other batches: no update is to be in two sums. Odd steps are of ``again``.
            seed = self._config.federation.seed + 2 * sums_before(inputs, self._inputs)
            rounds = self._course.training_rounds
            return model, {"number": state.trained + 1, "rounds": rounds, "seed": seed % (1 << 63)}
        own = next(case.cluster for case in state.cases if client in case.members)
        return self.began(inputs, own), self.again(state)
