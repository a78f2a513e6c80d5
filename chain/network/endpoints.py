"""The JSON-RPC endpoints of one chain: one of them is asked, and left for the next when it fails.

An endpoint fails when it does not answer in time, sends answers that are not an EVM node's, serves another chain, or
lags behind the others. It is then left alone for a while, longer each time it fails in a row, and must serve the right
chain when it is asked again. When nothing better is left, an endpoint that lags or failed before is still asked.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from fedgrove.chain.errors import ChainError, ConnectionFailed, WrongChain
from fedgrove.chain.network.endpoint import Endpoint, Fault, Lacking, Lagging, OtherChain, RpcError
from fedgrove.common.errors import InvalidContent

MAX_LAG_BLOCKS = 3
MAX_LEAD_BLOCKS = 10_000
SURVEY_SECONDS = 15.0
COOL_DOWN_SECONDS = 30.0
MAX_COOL_DOWN_SECONDS = 600.0
_UNREADABLE = (InvalidContent, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)

T = TypeVar("T")


class Endpoints:
    """Endpoints of one chain, asked in their order at first; safe to share among threads.

    Parameters
    ----------
    timeout : float
        Seconds for one request to one endpoint.

    Raises
    ------
    ConnectionFailed
        None of them can be used; the error says why, of each.
    WrongChain
        All of them serve other chains than ``expected_chain_id``.
    """

    def __init__(self, urls: Sequence[str], expected_chain_id: int | None, timeout: float) -> None:
        if not urls:
            raise ConnectionFailed("A connection needs the URL of a node; give at least one.")
        self._all = [Endpoint(url, timeout) for url in urls]
        self._current = self._all[0]
        self._lock = threading.Lock()
        self._surveying = threading.Lock()
        self._next_survey = 0.0
        self._chain_id = expected_chain_id
        faults = self._survey()
        if len(faults) == len(self._all):
            raise self._failed(faults)

    @property
    def chain_id(self) -> int:
        """The chain that all of them must serve."""
        if self._chain_id is None:
            raise ConnectionFailed("No node has reported its chain id; try again.")
        return self._chain_id

    @property
    def head(self) -> int:
        """Number of the latest block, as the endpoint in use stated it last."""
        return self._current.standing.head

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return len(self._all) > 1

    def ask(self, exchange: Callable[[Endpoint], T]) -> T:
        """What ``exchange`` makes of the first endpoint that serves it; it may be called once for each endpoint.

        An error of parsing in ``exchange`` counts as a failure of the endpoint.
        """
        self._survey_when_due()
        faults: dict[Endpoint, Fault] = {}
        for endpoint, as_last_resort in self._candidates(faults):
            with self._leaving(endpoint, faults):
                self._join(endpoint, as_last_resort)
                try:
                    answer = exchange(endpoint)
                except _UNREADABLE:
                    raise _nonsense() from None
                self._stay(endpoint, switch=not any(isinstance(fault, Lacking) for fault in faults.values()))
                return answer
        raise self._failed(faults)

    def ask_all(self, exchange: Callable[[Endpoint], T], least: int = 1) -> dict[str, T]:
        """What ``exchange`` makes of each endpoint that does not rest and serves it, by the endpoint's origin.

        Endpoints that rest are asked, too, where fewer than ``least`` would be left. Two at one origin count as one.

        Raises
        ------
        ConnectionFailed, WrongChain
            None serves it.
        """
        self._survey_when_due()
        now = time.monotonic()
        awake = [endpoint for endpoint in self._all if endpoint.standing.rests_until <= now]
        asked = awake if len(awake) >= least else self._all

        def joined(endpoint: Endpoint) -> T:
            self._join(endpoint, as_last_resort=True)
            return exchange(endpoint)

        answers = _asked_at_once(asked, joined)
        faults: dict[Endpoint, Fault] = {}
        for endpoint, answer in answers.items():
            if isinstance(answer, Fault):
                with self._leaving(endpoint, faults):
                    raise answer
        if len(faults) == len(answers):
            raise self._failed(faults)
        return {endpoint.origin: answer for endpoint, answer in answers.items() if not isinstance(answer, Fault)}

    def agree(self, exchange: Callable[[Endpoint], T], quorum: int, subject: str) -> T:
        """What ``exchange`` makes, equally, of at least ``quorum`` endpoints; ``subject`` says of what, in an error.

        Raises
        ------
        ConnectionFailed
            Fewer endpoints serve it, or they say different things: at least one of them lies, or is on a fork.
        """
        if quorum == 1:
            return self.ask(exchange)
        answers = self.ask_all(exchange, quorum)
        if len(answers) < quorum:
            raise ConnectionFailed(
                f"{len(answers)} of the endpoints answer, but {quorum} must agree (network.rpc_quorum); "
                "wait for the others, or name more of them."
            )
        found, votes = Counter(answers.values()).most_common(1)[0]
        if votes < quorum:
            names = ", ".join(sorted(answers))
            raise ConnectionFailed(
                f"The endpoints do not agree on {subject} ({names}); one of them may be wrong: wait, or replace it."
            )
        return found

    def distrust(self, reason: str) -> None:
        """Leave the endpoint in use for a while, for what it said."""
        self._leave(self._current, Fault(reason))

    def close(self) -> None:
        """Free all connections."""
        for endpoint in self._all:
            endpoint.close()

    # --- choosing ---------------------------------------------------------------------------------------------------

    def _candidates(self, faults: dict[Endpoint, Fault]) -> Iterator[tuple[Endpoint, bool]]:
        """The endpoint in use and those after it, then, as a last resort, those that rest: the lagging ones first."""
        now = time.monotonic()
        with self._lock:
            start = self._all.index(self._current)
            ring = self._all[start:] + self._all[:start]
            awake = [endpoint for endpoint in ring if endpoint.standing.rests_until <= now]
        for endpoint in awake:
            yield endpoint, len(self._all) == 1
        lagging = [endpoint for endpoint in awake if isinstance(faults.get(endpoint), Lagging)]
        resting = [endpoint for endpoint in ring if endpoint not in awake]
        for endpoint in sorted(lagging + resting, key=lambda one: not one.standing.lagging):
            yield endpoint, True

    def _join(self, endpoint: Endpoint, as_last_resort: bool) -> None:
        if endpoint.standing.joined:
            return
        self._check_chain(_answer_or_fault(endpoint, Endpoint.look))
        if not as_last_resort:
            self._check_head(endpoint)
        endpoint.standing.joined = True

    def _check_chain(self, found: int | Fault) -> None:
        if isinstance(found, Fault):
            raise found
        if found != self._chain_id:
            raise OtherChain(f"serves chain {found}, not {self._chain_id}", "give another URL")

    def _check_head(self, endpoint: Endpoint) -> None:
        heads = sorted(other.standing.head for other in self._all if other.standing.joined)
        # Of three or more, a head far above all others is made up: it must not make honest nodes look lagging.
        if len(heads) > 2 and heads[-1] - heads[-2] > MAX_LEAD_BLOCKS:
            heads.pop()
        behind = max(heads, default=0) - endpoint.standing.head
        if behind < -MAX_LEAD_BLOCKS:
            raise Lagging(f"is {-behind} blocks ahead of the other nodes", "check it against a node that you trust")
        if behind > MAX_LAG_BLOCKS:
            raise Lagging(f"is {behind} blocks behind the other nodes", "wait until it catches up")

    def _leave(self, endpoint: Endpoint, fault: Fault) -> None:
        if isinstance(fault, Lacking):
            return
        standing = endpoint.standing
        with self._lock:
            standing.joined = False
            standing.lagging = isinstance(fault, Lagging)
            standing.failures += not standing.lagging
            pause = COOL_DOWN_SECONDS * 2 ** min(10, max(0, standing.failures - 1))
            standing.rests_until = time.monotonic() + min(pause, MAX_COOL_DOWN_SECONDS)

    def _stay(self, endpoint: Endpoint, switch: bool) -> None:
        with self._lock:
            endpoint.standing.failures = 0
            endpoint.standing.rests_until = 0.0
            if switch:
                self._current = endpoint

    # --- comparing --------------------------------------------------------------------------------------------------

    def _survey_when_due(self) -> None:
        due = self.several and time.monotonic() >= self._next_survey
        if due and self._surveying.acquire(blocking=False):
            try:
                self._survey()
            finally:
                self._surveying.release()

    def _survey(self) -> dict[Endpoint, Fault]:
        """Ask all that do not rest for chain and head, at once, and leave those that fail or lag; why, of each."""
        now = time.monotonic()
        self._next_survey = now + SURVEY_SECONDS
        asked = [endpoint for endpoint in self._all if endpoint.standing.rests_until <= now]
        chains = _asked_at_once(asked, Endpoint.look)
        if self._chain_id is None:
            self._chain_id = next((found for found in chains.values() if isinstance(found, int)), None)
        faults: dict[Endpoint, Fault] = {}
        for endpoint, found in chains.items():
            with self._leaving(endpoint, faults):
                self._check_chain(found)
                endpoint.standing.joined = True
        for endpoint in chains.keys() - faults.keys():
            with self._leaving(endpoint, faults):
                self._check_head(endpoint)
        return faults

    @contextmanager
    def _leaving(self, endpoint: Endpoint, faults: dict[Endpoint, Fault]) -> Iterator[None]:
        """Note a fault, and leave the endpoint for it."""
        try:
            yield
        except Fault as fault:
            faults[endpoint] = fault
            self._leave(endpoint, fault)

    def _failed(self, faults: dict[Endpoint, Fault]) -> ChainError:
        kind = WrongChain if all(isinstance(fault, OtherChain) for fault in faults.values()) else ConnectionFailed
        if len(faults) == 1:
            ((endpoint, fault),) = faults.items()
            return kind(f"The node at {endpoint.origin} {fault.why}; {fault.advice}.")
        reasons = "; ".join(f"{endpoint.origin} {fault.why}" for endpoint, fault in faults.items())
        return kind(f"None of the {len(faults)} nodes can be used: {reasons}; check them, or give another URL.")


def _asked_at_once(asked: Sequence[Endpoint], exchange: Callable[[Endpoint], T]) -> dict[Endpoint, T | Fault]:
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        return dict(zip(asked, pool.map(lambda endpoint: _answer_or_fault(endpoint, exchange), asked), strict=True))


def _answer_or_fault(endpoint: Endpoint, exchange: Callable[[Endpoint], T]) -> T | Fault:
    try:
        return exchange(endpoint)
    except Fault as fault:
        return fault
    except (RpcError, *_UNREADABLE):
        return _nonsense()


def _nonsense() -> Fault:
    return Fault("sends answers that are not an EVM node's", "give the URL of one")
