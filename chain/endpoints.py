"""The JSON-RPC endpoints of one chain: one of them is asked, and left for the next when it fails.

An endpoint fails when it does not answer in time, sends answers that are not an EVM node's, serves another chain, or
lags behind the others. It is then left alone for a while, longer each time it fails in a row, and must serve the right
chain when it is asked again. When nothing better is left, an endpoint that lags or failed before is still asked.
An error that a node states in due form is an answer (RpcError), not a failure.
"""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from fedgrove.chain.errors import ChainError, ConnectionFailed, WrongChain
from fedgrove.chain.hexadecimal import to_int
from urllib3.exceptions import HTTPError

BATCH = 100
MAX_ANSWER_BYTES = 64 << 20
MAX_LAG_BLOCKS = 3
MAX_LEAD_BLOCKS = 10_000
SURVEY_SECONDS = 15.0
COOL_DOWN_SECONDS = 30.0
MAX_COOL_DOWN_SECONDS = 600.0
_CHUNK_BYTES = 1 << 16
_UNREACHABLE = (requests.RequestException, HTTPError, OSError)
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}

T = TypeVar("T")


class RpcError(ChainError):
    """The node answered a request with an error."""

    def __init__(self, method: str, message: str, data: Any) -> None:
        super().__init__(f"The node refused {method} ({message[:200]}); check that it offers this method.")
        self.message = message
        self.data = data


class Fault(Exception):
    """Why an endpoint cannot be used, as the end of a sentence about it, and what to do."""

    def __init__(self, why: str, advice: str = "check that it runs, and its URL") -> None:
        super().__init__(why)
        self.why = why
        self.advice = advice


class OtherChain(Fault):
    """It serves another chain."""


class Lagging(Fault):
    """It is too many blocks behind the others."""


class Lacking(Fault):
    """It does not have what others may have; no reason to leave it."""


class AnswerTooLarge(Fault):
    """Its answer is larger than any that is read, or takes too long to arrive."""


@dataclass(slots=True)
class EndpointHealth:
    """State of an endpoint: its head, whether its chain id was checked since its last failure, how long it rests.

    ``rests_until`` is on the monotonic clock, 0 while it is in use; ``failures`` are those in a row.
    """

    head: int = 0
    joined: bool = False
    lagging: bool = False
    failures: int = 0
    rests_until: float = 0.0


class Endpoint:
    """One URL. Every method raises Fault when the endpoint fails, and RpcError when it states an error."""

    def __init__(self, url: str, timeout: float) -> None:
        self.origin = origin_of(url)
        self.standing = EndpointHealth()
        self._url = url
        self._timeout = timeout
        self._session = requests.Session()
        self._ids = itertools.count(1)

    def request(self, method: str, *parameters: Any) -> Any:
        """The result of one request."""
        return self._result(method, self._post(self._call(method, parameters)))

    def requests(self, calls: Iterable[tuple[str, tuple]], batch: int = BATCH) -> list[Any]:
        """The results of many requests, ``batch`` at a time."""
        calls = list(calls)
        results = []
        for start in range(0, len(calls), batch):
            chunk = [self._call(method, parameters) for method, parameters in calls[start : start + batch]]
            answers = self._post(chunk)
            if not isinstance(answers, list) or len(answers) != len(chunk):
                raise Fault("does not accept batch requests", "use another node")
            by_id = {answer["id"]: answer for answer in answers}
            results += [self._result(call["method"], by_id[call["id"]]) for call in chunk]
        return results

    def look(self) -> int:
        """Its chain id; notes its head."""
        chain_id, head = (self.request(method) for method in ("eth_chainId", "eth_blockNumber"))
        self.standing.head = to_int(head)
        return to_int(chain_id)

    def close(self) -> None:
        """Free its connections."""
        self._session.close()

    def _call(self, method: str, parameters: Sequence[Any]) -> dict:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": list(parameters)}

    def _post(self, payload: dict | list) -> Any:
        deadline = time.monotonic() + self._timeout
        options = {"headers": _HEADERS, "timeout": self._timeout, "stream": True, "allow_redirects": False}
        try:
            with self._session.post(self._url, data=json.dumps(payload), **options) as response:
                if response.status_code != 200:
                    raise Fault(f"answers with HTTP status {response.status_code}")
                return json.loads(_read(response, deadline))
        except _UNREACHABLE as fault:
            raise Fault(f"does not answer ({type(fault).__name__})") from None

    def _result(self, method: str, answer: Any) -> Any:
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            fault = answer["error"]
            raise RpcError(method, str(fault.get("message", "")), fault.get("data"))
        return answer["result"]


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

        def one(endpoint: Endpoint) -> T | Fault:
            try:
                self._join(endpoint, as_last_resort=True)
                return exchange(endpoint)
            except Fault as fault:
                return fault
            except (RpcError, *_UNREADABLE):
                return _nonsense()

        with ThreadPoolExecutor(len(asked)) as pool:
            answers = dict(zip(asked, pool.map(one, asked), strict=True))
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
        self._check_chain(_chain_or_fault(endpoint))
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
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            chains = dict(zip(asked, pool.map(_chain_or_fault, asked), strict=True))
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
        told = "; ".join(f"{endpoint.origin} {fault.why}" for endpoint, fault in faults.items())
        return kind(f"None of the {len(faults)} nodes can be used: {told}; check them, or give another URL.")


def origin_of(url: str) -> str:
    """Scheme, host and port: a URL's path and user may hold a secret. Raises ConnectionFailed for an invalid URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise ConnectionFailed("The node's URL must look like http://HOST:PORT or https://HOST; correct the URL.")
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def _chain_or_fault(endpoint: Endpoint) -> int | Fault:
    try:
        return endpoint.look()
    except Fault as fault:
        return fault
    except (RpcError, *_UNREADABLE):
        return _nonsense()


def _nonsense() -> Fault:
    return Fault("sends answers that are not an EVM node's", "give the URL of one")


def _read(response: requests.Response, deadline: float) -> bytes:
    """The body, within bounds of size and time, whatever length it states."""
    chunks, size = [], 0
    while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=False):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise AnswerTooLarge(f"answers with more than {MAX_ANSWER_BYTES >> 20} MiB", "use another node")
        if time.monotonic() > deadline:
            raise AnswerTooLarge("does not answer in time")
    return b"".join(chunks)
