"""A role as a long-running service: it looks at the ledger whenever there is a new block, and does what is due.

Nothing here keeps state: a service that is killed at any point and started again goes on from ledger and journal.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fedgrove.chain.errors import ChainError, FeeAboveCap, InsufficientFunds
from fedgrove.chain.network.heads import Heads
from fedgrove.common.errors import RunFailed
from fedgrove.ipfs.store import DiskFull
from fedgrove.node.base.fault_places import place_in_code
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.roles.logs import NO_ROOM, ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.status.setbacks import setbacks

# Between two looks where no block has come. No block announces content, or the end of a training: the first looks for
# them follow one another sooner.
_PAUSE_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.1
WITHOUT_RESULT = 1
"""Exit code of a service whose federation has ended, or with ``once`` one round, and left no result."""


class Role(Protocol):
    """A role that acts one step at a time."""

    @property
    def view(self) -> LedgerView: ...

    @property
    def account(self) -> str: ...

    @property
    def finished(self) -> bool: ...

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        ...


class GivenUp(RunFailed):
    """Chain or store were away for longer than the service was told to wait."""

    exit_code = 3


def _sentence_on(fault: Exception) -> str:
    if isinstance(fault, DiskFull) or getattr(fault, "errno", None) in NO_ROOM:
        return "the disk is full: make room, this member goes on where it was with the next block"
    return f"unexpected error in this turn, {place_in_code(fault)}: please report it"


@dataclass
class Service:
    """Runs the roles of one process until the federation has ended.

    Parameters
    ----------
    roles : mapping of str to Participant
        By the name under which they are logged.
    heads : Heads
        Announces new blocks.
    patience : float
        Seconds without chain or store after which the service gives up.
    once : bool
        Stop when one round has ended.
    watch : callable
        Is shown the ledger's rounds after each turn; must not raise.
    idle : callable
        Called with the latest block when nobody had anything to do; what it returns is logged as a warning.
    """

    roles: Mapping[str, Role]
    heads: Heads
    log: ServiceLog
    metrics: ServiceMetrics
    patience: float
    once: bool = False
    watch: Callable[[Rounds], None] = lambda rounds: None
    idle: Callable[[int], str] = lambda block: ""

    def __post_init__(self) -> None:
        self._first_round = 0
        self._ended: set[str] = set()
        self._alarms: set[str] = set()
        self._in_vain = 0
        self._reached = time.monotonic()

    def run(self) -> bool:
        """Return when all rounds have ended, or one with ``once``: whether that left a result.

        Raises
        ------
        GivenUp
            Chain or store stayed away.
        AlreadyInUse
            Another process acts with the same keystore.
        """
        self._reached = time.monotonic()
        soon = _FIRST_PAUSE_SECONDS
        while True:
            steps = [step for step in itertools.starmap(self._turn, self.roles.items()) if step is not None]
            if len(self._ended) == len(self.roles):
                return self._has_result()
            if self.once and self._round_is_over():
                return self._view.rounds.last.stands
            if any(step.acted for step in steps):
                soon = _FIRST_PAUSE_SECONDS
                continue
            if warning := self.idle(max(role.view.block for role in self.roles.values())):
                self.log.write("warning", warning)
            unannounced = any(step.kind in (Kind.WORKS, Kind.FETCHES) for step in steps)
            arrived = self.heads.wait(soon if unannounced else _PAUSE_SECONDS)
            soon = _FIRST_PAUSE_SECONDS if arrived or not unannounced else min(2 * soon, _PAUSE_SECONDS)

    def _turn(self, name: str, role: Role) -> Step | None:
        """One step of a role; None where it failed."""
        try:
            step = role.step()
            self._heed(name, getattr(role, "alarm", ""))
            if role.finished:
                self._ended.add(name)
        except AlreadyInUse as fault:
            self._heed(name, str(fault))
            raise
        except (FeeAboveCap, InsufficientFunds) as fault:
            # The chain is there: it is for the member to pay, or to wait until gas is cheaper.
            self._reached = time.monotonic()
            self.log.fault(name, type(fault).__name__, str(fault))
            return None
        except ChainError as fault:
            self._away(name, type(fault).__name__, str(fault))
            return None
        except Exception as fault:
            # Whatever others published, this member goes on with the next block. Log and metrics have the kind of error
            # and its place, not what it says: nobody knows what that quotes.
            self._reached = time.monotonic()
            self.metrics.fault(type(fault).__name__)
            self.log.fault(name, type(fault).__name__, _sentence_on(fault))
            return None
        number = role.view.rounds.latest.number if role.view.rounds.latest else 0
        member = role.view.rounds.member(role.account)
        self.log.client = member.client if member else 0
        self.metrics.step(name, number, role.view.block, step)
        self.metrics.members(getattr(role, "members_metrics", None))
        self._warn(role.view)
        self.watch(role.view.rounds)
        if step.kind is Kind.CUT_OFF:
            self._away(name, "store", step.waiting)
            return None
        self.log.step(name, number, role.view.block, step)
        self._reached = time.monotonic()
        return step

    def _heed(self, name: str, alarm: str) -> None:
        """Log once, as an error, what people must hear of."""
        if alarm and alarm not in self._alarms:
            self._alarms.add(alarm)
            self.metrics.fault("alarm")
            self.log.write("error", alarm, role=name)

    def _warn(self, view: LedgerView) -> None:
        """Show how many rounds left no model, and log what people must know each time that another one does."""
        found = setbacks(view.rounds, view.terms, view.settings.draw_window)
        self.metrics.setbacks(found)
        if found.in_vain != self._in_vain:
            self._in_vain = found.in_vain
            for sentence in found.warnings:
                self.log.write("error" if found.is_urgent else "warning", sentence)

    def _away(self, name: str, kind: str, sentence: str) -> None:
        self.metrics.fault(kind)
        self.log.fault(name, kind, sentence)
        away = time.monotonic() - self._reached
        if away > self.patience:
            raise GivenUp(f"gave up after {away:.0f} s (network.patience_seconds): {sentence}")

    def _round_is_over(self) -> bool:
        """Whether the round that ran when this service looked first, or the next one, has ended."""
        latest = self._view.rounds.latest
        if latest is None:
            return False
        if not self._first_round:
            self._first_round = latest.number if latest.end is None else latest.number + 1
        return latest.number >= self._first_round and latest.end is not None

    def _has_result(self) -> bool:
        """Whether a round closed, or this member has left of its own accord."""
        rounds = self._view.rounds
        member = rounds.member(next(iter(self.roles.values())).account)
        return rounds.closed > 0 or (member is not None and rounds.left(member.client))

    @property
    def _view(self) -> LedgerView:
        return next(iter(self.roles.values())).view
