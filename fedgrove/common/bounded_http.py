"""HTTP to servers that may be hostile: one deadline and one bound on bytes for a whole request, its header included.

The time limits of the libraries hold for each chunk that arrives: a server that sends a byte a second is read for as
long as it likes, and an answer is read to its end however long it is. Here deadline and bound belong to the request,
from the connection to the last byte of the body, whoever reads it.
"""

import functools
import http.client
import io
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ProxyError

from fedgrove.common.text import one_line

CHUNK_BYTES = 1 << 16
UNREACHABLE = (requests.RequestException, HTTPError, http.client.HTTPException, OSError)
"""What the libraries raise when a server cannot be reached or does not speak HTTP."""

_HEADER_BYTES = 1 << 20
_SHOWN = 100  # characters of what a library says
_THREAD = threading.local()


class TooSlow(Exception):
    """The request was not through by its deadline; ``received`` bytes of the answer were there by then."""

    def __init__(self, received: int = 0) -> None:
        super().__init__()
        self.received = received


class TooMuch(Exception):
    """The answer has more bytes than it may."""


class Limits:
    """What is left of a request's time and bytes."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self._deadline = time.monotonic() + seconds
        self._most = most_bytes + _HEADER_BYTES
        self._received = 0

    def too_slow(self) -> TooSlow:
        """The error for a request that is not through."""
        return TooSlow(self._received)

    def seconds(self) -> float:
        """Time that is left; raises TooSlow when there is none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self.too_slow()
        return left

    def take(self, count: int) -> None:
        """Count bytes that have arrived; raises TooMuch."""
        self._received += count
        if self._received > self._most:
            raise TooMuch


@contextmanager
def limits(seconds: float, most_bytes: int) -> Iterator[None]:
    """Hold every request of this thread that goes through ``bound`` to these limits, all of them together.

    ``most_bytes`` is for the bodies of the answers; headers have another mebibyte.
    """
    before = getattr(_THREAD, "limits", None)
    _THREAD.limits = Limits(seconds, most_bytes)
    try:
        yield
    finally:
        _THREAD.limits = before


@contextmanager
def answered(
    session: requests.Session, url: str, seconds: float, most_bytes: int, **options: Any
) -> Iterator[requests.Response]:
    """Post to a URL, and read the answer, within limits; redirections are not followed.

    Raises
    ------
    TooSlow, TooMuch
        Also while the body is read.
    """
    with (
        limits(seconds, most_bytes),
        session.post(url, timeout=seconds, stream=True, allow_redirects=False, **options) as response,
    ):
        yield response


def body(response: requests.Response, most_bytes: int) -> bytes:
    """The whole body as it was sent, chunk by chunk: what length it states is not believed."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.raw.read1(CHUNK_BYTES, decode_content=False):
        chunks.append(chunk)
        size += len(chunk)
        if size > most_bytes:
            raise TooMuch
    return b"".join(chunks)


def new_session() -> requests.Session:
    """A session whose requests keep to ``limits``."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session


def bound(manager: PoolManager) -> None:
    """Have all connections that a pool makes from now on keep to ``limits``."""
    pools = cast(
        "dict[str, type[HTTPConnectionPool]]",
        manager.pool_classes_by_scheme,  # pyright: ignore[reportUnknownMemberType] (urllib3 does not annotate it)
    )
    manager.pool_classes_by_scheme = {scheme: _bounded(pool) for scheme, pool in pools.items()}


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        bound(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        known = proxy in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **options)
        if not known:
            bound(manager)
        return manager


class _Reader(io.RawIOBase):
    """A connection's bytes, within limits."""

    def __init__(self, raw: Any, connection: Any, within: Limits) -> None:
        self._raw, self._connection, self._within = raw, connection, within

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._within.seconds())
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            raise self._within.too_slow() from None
        self._within.take(count or 0)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        within = getattr(_THREAD, "limits", None)
        if within is not None:
            self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock, within))


class _Connection(HTTPConnection):
    """Before any of urllib3's connections."""

    response_class = _Response
    sock: Any

    def connect(self) -> None:
        within = getattr(_THREAD, "limits", None)
        if within is not None:
            self.timeout = within.seconds()
        super().connect()

    def send(self, data: Any) -> None:
        within = getattr(_THREAD, "limits", None)
        if within is None or self.sock is None:  # in which case it connects first
            super().send(data)
            return
        self.sock.settimeout(within.seconds())
        try:
            super().send(data)
        except TimeoutError:
            raise within.too_slow() from None


@functools.cache
def _bounded(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
    """The pool whose connections keep to limits."""
    if issubclass(pool.ConnectionCls, _Connection):
        return pool
    connection = type(pool.ConnectionCls.__name__, (_Connection, pool.ConnectionCls), {})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


def way_fault(fault: BaseException) -> tuple[str, str] | None:
    """What is wrong on the way to a server, as the end of a sentence about it, and what to do.

    None where no certificate, TLS or proxy is to blame, but perhaps the server itself.
    """
    causes = list(_causes(fault))
    for each in causes:
        if isinstance(each, ssl.SSLCertVerificationError):
            return (
                f"has a certificate that this machine does not accept ({one_line(each.verify_message, _SHOWN)})",
                "check the host's name, or name its certificate's file in REQUESTS_CA_BUNDLE",
            )
    if any(isinstance(each, requests.exceptions.ProxyError | ProxyError) for each in causes):
        return (
            "cannot be reached through the proxy that this machine's environment names (HTTP_PROXY, HTTPS_PROXY)",
            "correct that, or name the host in NO_PROXY",
        )
    for each in causes:
        if isinstance(each, ssl.SSLError):
            return (
                f"does not speak TLS with this machine ({one_line(each.reason or str(each), _SHOWN)})",
                "check that the address begins with http:// or https:// as the server expects",
            )
    return None


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that it came from: libraries chain them, or keep them as arguments."""
    pending: list[object] = [fault]
    seen: set[int] = set()
    while pending:
        each = pending.pop()
        if isinstance(each, BaseException) and id(each) not in seen:
            seen.add(id(each))
            yield each
            pending += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
