"""Rounds of a federation with clusters as steps from one state to the next."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.views.rounds import CheckedRound, all_rounds
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.status.clusters import ClusterScore, Left

NO_STATE = Left(ClusterState("blind", ()))
_left = lru_cache(maxsize=512)(Left.from_row)


@dataclass(frozen=True)
class ClusterStep:
    """A round: what it began with, and what it left; None while it goes on, or where that is not at hand."""

    row: CheckedRound
    began: ClusterState | None
    left: Left | None = None

    @property
    def number(self) -> int:
        return self.row.round

    @property
    def scores(self) -> tuple[ClusterScore, ...]:
        return self.left.scores if self.left else ()

    @property
    def suspected(self) -> tuple[Case, ...]:
        """Whom it made suspect."""
        return self.left.state.cases if self.left and self.left.state.stage == "show" else ()

    @cached_property
    def trained(self) -> dict[int, int]:
        """The cluster, from 0, with whose members each client trained: its model, or its part of the one model."""
        groups = self.left.state.groups if self.left and self.row.stage == "train" else ()
        return {client: cluster for cluster, group in enumerate(groups) for client in group}

    @property
    def one_model(self) -> bool:
        """Whether all train one model."""
        return self.left is not None and len(self.left.state.models) == 1


def all_steps(index: Index, checks: Checks) -> list[ClusterStep]:
    """All rounds, in order."""
    left = {row["number"]: row for row in index.rows("SELECT number, clusters, scores FROM rounds")}
    found, base = [], NO_STATE
    for row in all_rounds(index, checks):
        kept, own = left.get(row.round), None
        if row.status == "closed" and kept is not None and kept["clusters"] is not None:
            own = _left(kept["clusters"], kept["scores"])
        found.append(ClusterStep(row, base.state if base else None, own))
        base = own if row.status == "closed" else base
    return found
