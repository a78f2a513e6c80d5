"""Figures of a running service for Prometheus, on a loopback port."""

import threading
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.protocol.step import Step
from fedgrove.node.status.setbacks import MOST_NAMED, Setbacks

_OF_MEMBERS = {
    "samples": "Samples of the members' evaluation",
    "accuracy": "Share of right answers in the members' evaluation",
    "loss": "Mean loss in the members' evaluation",
    "noise": "Standard deviation of the noise of rates in the members' evaluation",
    "standard_error": "Standard error of the mean loss in the members' evaluation",
}


class ServiceMetrics:
    """Counters of one service; ``serve`` exposes them to a Prometheus on this machine."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own = self._registry
        self._round = Gauge("fedgrove_round", "Number of the latest round", registry=own)
        self._block = Gauge("fedgrove_block", "Latest confirmed block", registry=own)
        self._until = Gauge("fedgrove_waits_until_block", "Block of the current deadline, or 0", ["role"], registry=own)
        self._acts = Counter("fedgrove_acts", "Steps that acted", ["role", "phase"], registry=own)
        self._gas = Counter("fedgrove_gas", "Gas used by this process's transactions", ["role"], registry=own)
        self._faults = Counter(
            "fedgrove_faults", "Steps that failed because of the chain or the store", ["kind"], registry=own
        )
        self._in_vain = Gauge("fedgrove_rounds_in_vain", "Rounds that ended without closing", registry=own)
        self._in_a_row = Gauge(
            "fedgrove_rounds_in_vain_in_a_row",
            "Rounds that failed or were skipped since the last that closed",
            registry=own,
        )
        self._repeats_left = Gauge(
            "fedgrove_repeats_left", "How many more sealed rounds may fail before none can follow", registry=own
        )
        self._missing = Gauge(
            "fedgrove_missing_since_round",
            f"The round since which a client has not done its part; of at most {MOST_NAMED} clients",
            ["client"],
            registry=own,
        )
        self._members = {
            name: Gauge(f"fedgrove_members_{name}", f"{what} of the model that the last round began with", registry=own)
            for name, what in _OF_MEMBERS.items()
        }
        self._server: tuple[WSGIServer, threading.Thread] | None = None

    def step(self, role: str, number: int, block: int, step: Step) -> None:
        """Count one step of a role."""
        self._round.set(number)
        self._block.set(block)
        self._until.labels(role).set(step.until)
        if step.acted:
            self._acts.labels(role, step.phase).inc()
            self._gas.labels(role).inc(step.gas)

    def setbacks(self, found: Setbacks) -> None:
        """Show how many rounds left no model, and who was missing in the latest round that has ended."""
        self._in_vain.set(found.in_vain)
        self._in_a_row.set(found.in_a_row)
        self._repeats_left.set(found.left)
        self._missing.clear()
        for each in found.missing[:MOST_NAMED]:
            self._missing.labels(each.client).set(each.round)

    def members(self, stated: MembersStatement | None) -> None:
        """Show what the members found; nothing changes while that is nothing."""
        figures = stated.to_figures() if stated is not None and stated.there else {}
        for name in self._members.keys() & figures.keys():
            self._members[name].set(figures[name])

    def fault(self, kind: str) -> None:
        """Count a step that failed; ``kind`` is the name of its error."""
        self._faults.labels(kind).inc()

    def serve(self, port: int) -> None:
        """Answer on 127.0.0.1 until ``close``. Raises AlreadyInUse."""
        try:
            self._server = start_http_server(port, "127.0.0.1", self._registry)
        except OSError as fault:
            raise AlreadyInUse(
                f"cannot serve metrics on 127.0.0.1:{port}: {fault.strerror}; give another port"
            ) from None

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            server, thread = self._server
            self._server = None
            server.shutdown()
            server.server_close()
            thread.join()
