"""The whole state of a federation, as ``fedgrove status`` shows it: round, clusters, privacy, last model, costs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.standstill import stopped
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentStore, StoreError
from fedgrove.node.methods.procfl.round_inputs import course_of, is_over, least_of, state_after
from fedgrove.node.methods.procfl.standing import ClusterStanding, cluster_standing
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.cells import Cells, has_cells
from fedgrove.node.protocol.ending import MetricsWatch
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.policy import sums_used_up
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.spending import Spending, Spent
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.clean_cells import CellReader
from fedgrove.node.status.costs import Budget, CostReader, Costs, Purse
from fedgrove.node.status.pace import pace
from fedgrove.node.status.rounds import Round, RoundReader
from fedgrove.node.status.standing import Standing, standing


@dataclass(frozen=True, kw_only=True)
class FederationStatus:
    """State at one moment. A part that does not apply, or cannot be read, is None.

    Attributes
    ----------
    until_time : float or None
        About when ``standing.until`` will be made, in seconds since 1970.
    chain_stopped : str
        That the chain makes no blocks, in one sentence; empty where it does.
    budget : Budget or None
        The account's means.
    spent : Spent or None
        Of the privacy budget, by the account's client, without an account by the client that has spent most.
    refusal : str
        Why the account's client will not draw in the next round, in one clause; empty when it will.
    standstill : str
        Why nobody takes part in a round any more until people act, in one clause; empty where that is not so.
    cells : tuple of tuple of int
        The clients of each cell of the round that runs, or of the next one, at a standstill of the last one; empty
        where all are summed together.
    clean : mapping of int to (int, int)
        At a standstill, by client: how often its cell was summed, of how many rounds in cells that may have been read.
    last_round : Round or None
        The last round that stands.
    faults : mapping
        Why a part cannot be read, by ``privacy``, ``clusters``, ``clean cells`` and ``last model``.
    """

    standing: Standing
    rounds_to_close: int
    costs: Costs
    until_time: float | None = None
    chain_stopped: str = ""
    budget: Budget | None = None
    spent: Spent | None = None
    refusal: str = ""
    standstill: str = ""
    cells: tuple[tuple[int, ...], ...] = ()
    clean: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    clusters: ClusterStanding | None = None
    last_round: Round | None = None
    faults: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """By name, JSON-ready, without the costs."""
        return self.standing.to_dict() | {
            "rounds_to_close": self.rounds_to_close,
            "until_time": self.until_time and round(self.until_time, 1),
            "budget": self.budget.to_dict() if self.budget else None,
            "privacy": asdict(self.spent) | {"refusal": self.refusal} if self.spent else None,
            "standstill": self.standstill,
            "cells": [list(each) for each in self.cells],
            "clean": {str(client): list(counts) for client, counts in self.clean.items()},
            "clusters": self.clusters.to_dict() if self.clusters else None,
            "last_round": self.last_round.to_dict() if self.last_round else None,
            "chain_stopped": self.chain_stopped,
        }


class StatusReader:
    """Reads again and again; what was read once is not read again.

    Parameters
    ----------
    keys : Keys, optional
        Of that account: they say whether it was in a sample.
    """

    def __init__(
        self,
        network: Network,
        ledger: Ledger,
        terms: FederationConfig,
        store: ContentStore | None = None,
        account: str | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._network, self._ledger, self._terms = network, ledger, terms
        self._account, self._keys = account, keys
        self._view = LedgerView(ledger)
        self._purse = Purse(network, ledger, account) if account else None
        self._costs = CostReader(network, ledger)
        self._on_request = method_of(terms).schedule.on_request
        self._parts: dict[str, Callable[[LedgerView], dict[str, Any]]] = {}
        # Read at a standstill only, as it takes all updates of some rounds.
        self._at_standstill: dict[str, Callable[[LedgerView], dict[str, Any]]] = {}
        if store is not None:
            self._parts["last model"] = LastRoundReader(terms, store).read
            if terms.privacy is not None:
                self._parts["privacy"] = PrivacyReader(terms, store, account).read
            place = (ledger.chain_id, ledger.address)
            if has_cells(terms):
                self._at_standstill["clean cells"] = CellReader(terms, store, place).read
            name, reader = _OF_METHODS.get(terms.method.name, ("", None))
            if reader is not None:
                self._parts[name] = reader(terms, store, place).read

    def read(self) -> FederationStatus:
        """The state as it is now. Raises ChainError."""
        view, parts, faults = self._view, {}, {}
        now = standing(self._ledger, self._account, keys=self._keys, view=view, on_request=self._on_request)
        still, cells = self._groups(view)
        for name, read in (self._parts | (self._at_standstill if still else {})).items():
            try:
                parts |= read(view)
            except (StoreError, InvalidContent) as fault:
                faults[name] = f"unknown, because the store cannot be read: {fault}"
        exhausted, ended = (parts.pop(name, "") for name in ("exhausted", "ended"))
        over = exhausted or ended
        if over and not now.finished:
            now = replace(now, finished=True, waiting=f"nobody: {over}", until=0)
        now = waiting_for_statement(now, parts.get("clusters"))
        if still and not now.finished:
            now = replace(now, waiting="people to act", until=0)
        speed = pace(self._network) if now.until else None
        return FederationStatus(
            standing=now,
            rounds_to_close=self._terms.rounds_to_close,
            costs=self._costs.read(),
            until_time=speed.expected(now.until, time.time()) if speed else None,
            chain_stopped=stopped(self._network, time.time()),
            budget=self._purse.budget(view.rounds) if self._purse else None,
            standstill=still,
            cells=cells,
            faults=faults,
            **parts,
        )

    def _groups(self, view: LedgerView) -> tuple[str, tuple[tuple[int, ...], ...]]:
        """Why the federation stands still, and the cells of the round that runs or comes next, or was the last."""
        rounds, terms = view.rounds, self._terms
        latest = rounds.latest
        if latest is None:
            return "", ()
        number = latest.number + (latest.end is not None)
        still = sums_used_up(rounds, terms, number)
        if still:  # no round follows in the next cells: those of the last one are shown
            number = max((each.number for each in rounds.ended() if each.apart), default=number)
        return still, Cells(rounds, terms).clients(number) if has_cells(terms) else ()


def waiting_for_statement(now: Standing, clusters: ClusterStanding | None) -> Standing:
    """The standing of a round, adapted where only the coordinator can close it."""
    if now.phase != "recover" or clusters is None or not clusters.stated:
        return now
    return replace(now, waiting=f"the coordinator to close: only it can state {clusters.stated}")


class LastRoundReader:
    """Reads the last round that stands, and why the training has ended with it."""

    def __init__(self, terms: FederationConfig, store: ContentStore) -> None:
        self._reader = RoundReader(store, strict=False)
        self._watch = MetricsWatch(store, terms)

    def read(self, view: LedgerView) -> dict[str, Any]:
        """``last_round``, and ``ended``: why no round follows, in one clause, empty while one runs or may follow."""
        base, latest = view.rounds.base, view.rounds.latest
        if base is None or latest is None:
            return {}
        over = self._watch.ending(view.rounds) if latest.end is not None else ""
        ended = f"the training has ended, as {over}" if over else ""
        return {"last_round": self._reader.one(view.rounds, base), "ended": ended}


class PrivacyReader:
    """Reads from the ledger what was spent of the privacy budget, and from the store, once, how large the model is."""

    def __init__(self, terms: FederationConfig, store: ContentStore, account: str | None = None) -> None:
        self._terms, self._store, self._account = terms, store, account
        self._parameters = 0

    def read(self, view: LedgerView) -> dict[str, Any]:
        """``spent``, ``refusal``, and ``exhausted``: why the budget affords no further round, in one clause."""
        rounds = view.rounds
        latest = rounds.latest
        if latest is None:
            return {}
        method = method_of(self._terms)
        if not self._parameters:  # which no round changes
            self._parameters = method.parameters_of(method.fetch_model(self._store, latest.opened.model_digest))
        spending = Spending(method, self._store, rounds, self._parameters)
        member = rounds.member(self._account) if self._account else None
        client, ended = member.client if member else 0, latest.end is not None
        following = latest.number + (ended or client in latest.draws)
        due = client and following <= self._terms.federation.rounds
        return {
            "spent": spending.summary(latest.number, client),
            "refusal": spending.refusal(client, following) if due else "",
            "exhausted": spending.exhausted(following) if ended else "",
        }


class ClusterStageReader:
    """Reads what the latest round of a federation with clusters is for; a state that was read last is not read again.

    Parameters
    ----------
    place : (int, str)
        Chain id, and the ledger's address.
    """

    def __init__(self, terms: FederationConfig, store: ContentStore, place: tuple[int, str]) -> None:
        self._terms, self._store, self._place = terms, store, place
        self._course = course_of(terms)
        self._known: tuple[tuple[bytes, bytes], ClusterState] | None = None

    def read(self, view: LedgerView) -> dict[str, Any]:
        """``clusters``: the purpose of the latest round, or of the next one if it has ended."""
        current, base = view.rounds.latest, view.rounds.base
        if current is not None and current.end is not None:
            current = None
        sealed = current is not None and current.sealed is not None
        committing = current is not None and sealed and view.block < view.deadlines(current).commit_end
        number = current.number if current is not None else len(view.rounds.rounds) + 1
        state = self._state(base) if base is not None else None
        over = is_over(self._terms, view.rounds, number, self._store)
        state = state.at_rest if over and state is not None else state
        if state is not None and current is not None and sealed:
            state = method_of(self._terms).inputs(view.rounds, current, self._place, self._store).previous
        least, present = least_of(view.rounds, current, self._terms), frozenset(view.rounds.known_now())
        return {"clusters": cluster_standing(self._course, state, current, committing, present, over, least)}

    def _state(self, base: RoundRecords) -> ClusterState:
        """Resulting state of a round, with the statement about it."""
        key = (base.result.model_digest, base.result.metrics_digest)
        if self._known is None or self._known[0] != key:
            self._known = (key, state_after(base, self._terms, self._store))
        return self._known[1]


_OF_METHODS = {"procfl": ("clusters", ClusterStageReader)}
"""What is read only of federations with a method: its name in the status, and what reads it."""
