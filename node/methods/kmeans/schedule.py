"""When a federation that does K-means holds a round."""

from collections.abc import Callable

from fedgrove.node.methods.kmeans.round_inputs import checked, due
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import terms_of
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.schedule import Schedule


class OnRequest(Schedule[KMeansState]):
    """A round is opened when somebody new is there, or somebody asked to be forgotten."""

    on_request = True

    def due(self, rounds: Rounds, model: Callable[[], KMeansState], block: int) -> int | None:
        state = checked(rounds, model(), rounds.last.number + 1)
        return due(rounds, state, block, terms_of(self.config))
