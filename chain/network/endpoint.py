"""One JSON-RPC endpoint: requests one at a time or many at once, its answers within bounds, and how it can fail.

An error that a node states in due form is an answer (RpcError), not a failure.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fedgrove.chain.errors import ChainError, ConnectionFailed
from fedgrove.chain.network.hexadecimal import to_int
from fedgrove.common.bounded_http import UNREACHABLE, TooMuch, TooSlow, answered, body, new_session, way_fault
from fedgrove.common.text import one_line

BATCH = 100
_NO_METHOD = (-32601, -32004)  # JSON-RPC's and EIP-1474's
MAX_ANSWER_BYTES = 64 << 20
MUCH_BYTES = 1 << 18  # of an answer that was late for its size, so that less should be asked for
MAX_WORDS = 200  # characters that are quoted of what a node says
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


class RpcError(ChainError):
    """The node answered a request with an error."""

    def __init__(self, method: str, message: str, data: Any, code: Any = None) -> None:
        self.message = one_line(message, MAX_WORDS)
        super().__init__(f"The node refused {method} ({self.message}); check that it offers this method.")
        self.data = data
        self.code = code

    @property
    def lacks_method(self) -> bool:
        """Whether the node says that it does not offer the method at all."""
        return self.code in _NO_METHOD or "not supported" in self.message.lower()


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
    """One URL. Every method raises Fault when the endpoint fails, and RpcError when it states an error.

    ``receipts_by_block``: it gives all receipts of a block at once, as far as is known.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self.origin = origin_of(url)
        self.receipts_by_block = True
        self.standing = EndpointHealth()
        self._url = url
        self._timeout = timeout
        self._session = new_session()
        self._ids = itertools.count(1)

    def request(self, method: str, *parameters: Any) -> Any:
        """The result of one request."""
        answer, _ = self._post(self._call(method, parameters))
        return self._result(method, answer)

    def requests(self, calls: Iterable[tuple[str, tuple]], most_bytes: int = 0) -> list[Any]:
        """The results of many requests, a hundred at a time; with ``most_bytes`` for the answers to all of them."""
        calls = list(calls)
        results = []
        left = most_bytes
        for start in range(0, len(calls), BATCH):
            chunk = [self._call(method, parameters) for method, parameters in calls[start : start + BATCH]]
            answers, size = self._post(chunk, left if most_bytes else MAX_ANSWER_BYTES)
            left -= size
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

    def _post(self, payload: dict | list, most_bytes: int = MAX_ANSWER_BYTES) -> tuple[Any, int]:
        """The answer, and how many bytes it was."""
        options = {"headers": _HEADERS, "data": json.dumps(payload)}
        try:
            with answered(self._session, self._url, self._timeout, MAX_ANSWER_BYTES, **options) as response:
                if response.status_code != 200:
                    raise Fault(f"answers with HTTP status {response.status_code}")
                data = body(response, most_bytes)
        except TooSlow as fault:
            kind = AnswerTooLarge if fault.received > MUCH_BYTES else Fault
            raise kind("does not answer in time") from None
        except TooMuch:
            raise AnswerTooLarge(f"answers with more than {MAX_ANSWER_BYTES >> 20} MiB", "use another node") from None
        except UNREACHABLE as fault:
            raise Fault(*(way_fault(fault) or [f"does not answer ({type(fault).__name__})"])) from None
        return json.loads(data), len(data)

    def _result(self, method: str, answer: Any) -> Any:
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            fault = answer["error"]
            raise RpcError(method, str(fault.get("message", "")), fault.get("data"), fault.get("code"))
        return answer["result"]


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
