"""Schedule of a federation with clusters: who recomputes its sums, and which models are carried forward."""

from collections.abc import Mapping
from typing import Any

from fedgrove.chain.crypto.vrf import proof_to_hash
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import Malformed, TooLarge
from fedgrove.node.methods.procfl.codec import clients_at
from fedgrove.node.methods.procfl.leaders import draw_leader
from fedgrove.node.methods.procfl.round_inputs import course_of, state_after
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.schedule import Schedule
from fedgrove.node.protocol.terms import FederationConfig


class ClusterSchedule(Schedule[ClusterState]):
    """Rounds follow each other at once; leaders of clusters, and who is to show or judge, repeat them."""

    has_leaders = True
    needs_coordinator = True

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._course = course_of(config)

    def leaders(self, inputs: RoundInputs[ClusterState]) -> tuple[int, ...]:
        """In training, the leader of each cluster, drawn from those of it who uploaded (algorithm 1)."""
        state = inputs.previous
        if state.stage != "train":
            return ()
        groups = [clients_at(inputs, group.positions) for group in inputs.graph.groups]
        clusters = state.clusters if self._course.is_global(state) else groups
        outputs = {client: proof_to_hash(inputs.current.draws[client].proof) for client in inputs.current.commits}
        drawn = [draw_leader(members, outputs) for members in clusters]
        return tuple(leader for leader in drawn if leader is not None)

    def repeats(self, inputs: RoundInputs[ClusterState], client: int) -> bool:
        """Leaders do; and who is to show, to judge, or to answer others' sets.

        Nobody opens an upload to whom only the coordinator names, nor answers a set that only it says is a client's.
        """
        if client in self.leaders(inputs):
            return True
        try:
            state = state_after(inputs.current, self.config, inputs.store)
        except (TooLarge, Malformed, InvalidContent):
            return True  # whatever it is, it does not follow
        match state.stage:
            case "answer":
                return client in state.sets
            case "show" | "vote":
                return any(client in case.named for case in state.cases)
        return False

    def standing(self, model: ClusterState, stated: Mapping[str, Any] | None) -> ClusterState:
        """Without models that fell; the state as it is where a statement is missing, as others are to close it then."""
        try:
            return self._course.after_statement(model, Stated.of(stated))
        except InvalidContent:
            return model
