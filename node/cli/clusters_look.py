"""Clusters in ``fedgrove status``: read from the ledger, and the state of the clusters from the store."""

from dataclasses import dataclass, replace

from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.methods.procfl.round_inputs import course_of, is_over, state_after
from fedgrove.node.methods.procfl.standing import ClusterStanding, cluster_standing
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.content import InvalidBlob
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import name_clients
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.standing import Standing


@dataclass(frozen=True)
class ClusterSight:
    """Result of one look.

    Attributes
    ----------
    standing : ClusterStanding or None
        None where the terms have no clusters, or nothing can be told.
    fault : str
        Why nothing can be told, in one clause.
    """

    standing: ClusterStanding | None = None
    fault: str = ""

    def to_dict(self) -> dict | None:
        """A JSON-ready form."""
        return self.standing.to_dict() if self.standing else None

    def rows(self, finished: bool) -> list[tuple[str, str]]:
        """Name and value of what people are shown; of a federation that has finished no stage."""
        if self.standing is None:
            return [("clusters", f"unknown: {self.fault}")] if self.fault else []
        now, rows = self.standing, []
        if not finished:
            waits = f"; {name_clients(now.awaited)} yet to commit" if now.awaited else ""
            rows.append(("stage", f"{now.stage}: {now.doing}{waits}"))
        if now.clusters:
            rows.append(("clusters", " | ".join(", ".join(map(str, each)) or "nobody" for each in now.clusters)))
        return rows + ([("expelled", name_clients(now.expelled))] if now.expelled else [])

    def described(self, standing: Standing) -> Standing:
        """Status of the round, adapted if only the coordinator can close it."""
        if standing.phase != "close" or self.standing is None or not self.standing.stated:
            return standing
        return replace(standing, waiting=f"the coordinator to close: only it can state {self.standing.stated}")


class ClusterLook:
    """Looks again and again; the state that was read last is not read again.

    Parameters
    ----------
    terms : FederationConfig
    store : ContentReader
        Of this member.
    ledger : (int, str)
        Chain id and address.
    """

    def __init__(self, terms: FederationConfig, store: ContentReader, ledger: tuple[int, str]) -> None:
        self._terms = terms
        self._store = store
        self._ledger = ledger
        self._course = course_of(terms) if isinstance(terms.method, ProCflTerms) else None
        self._read: tuple[tuple[bytes, bytes], ClusterState] | None = None

    def look(self, view: LedgerView) -> ClusterSight:
        """Purpose of the latest round, or of the next one if it has ended."""
        if self._course is None:
            return ClusterSight()
        current, base = view.rounds.latest, view.rounds.base
        if current is not None and current.end is not None:
            current = None
        committing = (
            current is not None and current.sealed is not None and view.block < view.deadlines(current).commit_end
        )
        number = current.number if current is not None else len(view.rounds.rounds) + 1
        try:
            state = self._state(base) if base is not None else None
            over = is_over(self._terms, view.rounds, number, self._store)
            state = state.at_rest if over and state is not None else state
            if state is not None and current is not None and current.sealed is not None:
                state = method_of(self._terms).inputs(view.rounds, current, self._ledger, self._store).previous
        except (StoreError, InvalidModel, InvalidBlob) as fault:
            return ClusterSight(fault=str(fault))
        return ClusterSight(cluster_standing(self._course, state, current, committing, over))

    def _state(self, base: RoundRecords) -> ClusterState:
        """Resulting state of a round, with the statement about it."""
        key = (base.closing.model_digest, base.closing.metrics_digest)
        if self._read is None or self._read[0] != key:
            self._read = (key, state_after(base, self._terms, self._store))
        return self._read[1]
