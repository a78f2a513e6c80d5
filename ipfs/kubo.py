"""A Kubo node as a ``ContentStore``, over its RPC API.

The node is trusted to keep and deliver blocks, never with their content: blobs are published as an archive (CAR), so
that the node cannot choose other CIDs, and every block read is hashed here. The RPC API gives full control over a node:
never expose it to a network without authorisation; reach a node on another machine through a tunnel, or over TLS.
"""

import io
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import ipfshttpclient
import requests
import urllib3
from ipfshttpclient import exceptions
from ipfshttpclient.http_requests import ClientSync
from requests.adapters import HTTPAdapter

from fedgrove.common.bounded_http import CHUNK_BYTES, UNREACHABLE, TooMuch, TooSlow, bound, limits, way_fault
from fedgrove.common.text import one_line
from fedgrove.ipfs import car
from fedgrove.ipfs.blobs import BlockReader
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.kubo_address import KuboAddress, read_address
from fedgrove.ipfs.password_file import read_password_file
from fedgrove.ipfs.store import Corrupt, NotFound, StoreError, TooLarge, Unreachable
from fedgrove.ipfs.unixfs import MAX_BLOCK_BYTES

Answer = TypeVar("Answer")

# ipfshttpclient passes urllib3 2 an option that only urllib3 3 refuses; users can do nothing about it.
warnings.filterwarnings("ignore", "The 'strict' parameter", FutureWarning)

PASSWORD_FILE_VARIABLE = "FEDGROVE_STORE_PASSWORD_FILE"
_MAX_WORDS = 200  # characters that are quoted of what a node says
_MAX_ANSWER_BYTES = 1 << 20  # of anything but blocks and lists
_MAX_LIST_BYTES = 64 << 20
_SLACK_SECONDS = 5.0  # the node gives up first and says why
_IMPORT_BYTES_PER_SECOND = 128 << 10  # of a slow line or disk: a node answers when it has written and pinned all
_BROKEN_CONNECTION = (
    exceptions.ConnectionError,
    exceptions.ProtocolError,
    *UNREACHABLE,
)
_MISSING = ("not found", "could not find", "deadline exceeded", "not pinned")


class _Api(Protocol):
    """The groups of calls of ``ipfshttpclient.Client`` in use; the library makes them when they are looked up."""

    @property
    def block(self) -> Any: ...

    @property
    def dag(self) -> Any: ...

    @property
    def pin(self) -> Any: ...

    @property
    def repo(self) -> Any: ...


class KuboStore(BlockReader):
    """A ``ContentStore`` in a Kubo node (0.22 is tested).

    Parameters
    ----------
    address
        Of the RPC API, such as ``http://127.0.0.1:5001``; see ``kubo_address``.
    timeout
        Seconds the node may take to find a block in the network, and to answer at all; longer to import a large blob.
    password
        For basic authorisation.

    Attributes
    ----------
    url
        The address as people may see it.
    """

    networked = True

    def __init__(self, address: str, timeout: float = 30.0, password: str = "") -> None:
        found = read_address(address)
        self.url = found.shown
        self.timeout = timeout
        self._client = _connect(found, timeout + _SLACK_SECONDS, password)

    def put(self, data: bytes) -> CID:
        blocks = self._split(data)
        root = blocks[-1].cid
        if self._is_pinned(root):
            return root
        self._import(root, io.BufferedReader(_Pieces(car.write(root, blocks))), len(data))
        return root

    def add(self, chunks: Iterable[bytes]) -> CID:
        """As ``ContentStore`` says; the archive is a temporary file, as its header names the root, which comes last."""
        with tempfile.NamedTemporaryFile() as archive:  # ipfshttpclient reads its name
            root = CID.of_block(b"", RAW)
            archive.write(b"".join(car.write(root, [])))
            for block in self._chunked(chunks):
                archive.writelines(car.section(block))
                root = block.cid
            size = archive.tell()
            archive.seek(0)
            archive.write(b"".join(car.write(root, [])))
            archive.seek(0)
            self._import(root, archive, size)
        return root

    def _import(self, root: CID, archive: IO[bytes], size: int) -> None:
        """Send an archive of about ``size`` bytes and pin its root."""
        seconds = self._answer_seconds + size / _IMPORT_BYTES_PER_SECOND
        with self._answers(seconds):
            imported = self._client.dag.imprt(archive, opts={"pin-roots": "true"}, timeout=seconds)["Root"]
            if imported["Cid"]["/"] != str(root) or imported["PinErrorMsg"]:
                reason = one_line(str(imported["PinErrorMsg"] or "it reported a different root"), _MAX_WORDS)
                raise StoreError(f"the IPFS node at {self.url} did not keep {root}: {reason}")

    def pin(self, digest: bytes) -> None:
        root = self._read_root(CID.from_digest(digest, RAW)).cid
        self._call(root, lambda: self._client.pin.add(str(root), opts=self._patience()))

    def unpin(self, digest: bytes) -> None:
        for codec in (RAW, DAG_PB):  # a pin has a codec, a digest has none
            cid = CID.from_digest(digest, codec)
            if self._is_pinned(cid):
                self._call(cid, lambda cid=cid: self._client.pin.rm(str(cid)))

    def collect_garbage(self) -> int:
        """Let the node remove every block that none of its pins needs, whoever stored it; return how many."""
        with self._answers(most_bytes=_MAX_LIST_BYTES):
            return sum("Key" in removed for removed in self._client.repo.gc())

    def _is_pinned(self, cid: CID) -> bool:
        try:
            self._call(cid, lambda: self._client.pin.ls(str(cid), type="recursive"))
        except NotFound:
            return False
        return True

    def _has_block(self, cid: CID) -> bool:
        try:
            self._call(cid, lambda: self._client.block.stat(str(cid), offline=True))
        except NotFound:
            return False
        return True

    def _finder(self) -> Callable[[CID], bool]:
        """Return what lets the node find a block and keep it; it finds none once this store's timeout is over."""
        deadline = time.monotonic() + self.timeout

        def find(cid: CID) -> bool:
            if time.monotonic() > deadline:
                raise NotFound(cid, f"the IPFS node at {self.url} did not find it in {self.timeout:g} s")
            self._call(cid, lambda: self._client.block.stat(str(cid), opts=self._patience()))
            return True

        return find

    def _read_block(self, cid: CID, max_bytes: int) -> bytes:
        data = self._call(cid, lambda: self._receive(cid), MAX_BLOCK_BYTES)
        if sha256(data).digest() != cid.digest:
            raise Corrupt(cid, f"the IPFS node at {self.url} returned bytes that do not match this CID")
        if len(data) > max_bytes:
            raise TooLarge(cid, f"the block has {len(data)} bytes, but at most {max_bytes} are allowed")
        return data

    def _receive(self, cid: CID) -> bytes:
        """Read a block as the node delivers it: never more than a block's size."""
        data = bytearray()
        with self._client.block.get(str(cid), stream=True, opts=self._patience()) as chunks:
            for chunk in chunks:
                data += chunk
                if len(data) > MAX_BLOCK_BYTES:
                    raise Corrupt(cid, f"the IPFS node at {self.url} returned more bytes than a block can have")
        return bytes(data)

    @property
    def _answer_seconds(self) -> float:
        return self.timeout + _SLACK_SECONDS

    def _patience(self) -> dict[str, str]:
        """The option that makes the node itself give up looking for a block."""
        return {"timeout": f"{max(1, round(self.timeout * 1000))}ms"}

    def _call(self, cid: CID, request: Callable[[], Answer], most_bytes: int = _MAX_ANSWER_BYTES) -> Answer:
        """Send a request about one CID; the node's word that it has no such thing is ``NotFound``."""
        with self._answers(most_bytes=most_bytes):
            try:
                return request()
            except exceptions.ErrorResponse as refusal:
                if any(phrase in str(refusal) for phrase in _MISSING):
                    raise NotFound(cid, f"the IPFS node at {self.url} did not find it in {self.timeout:g} s") from None
                raise

    @contextmanager
    def _answers(self, seconds: float | None = None, most_bytes: int = _MAX_ANSWER_BYTES) -> Iterator[None]:
        """Hold a request to its limits, and turn everything that can go wrong with its answer into one sentence."""
        seconds = seconds or self._answer_seconds
        try:
            with limits(seconds, most_bytes):
                yield
        except (exceptions.TimeoutError, urllib3.exceptions.TimeoutError, TooSlow) as fault:
            raise Unreachable(
                f"the IPFS node at {self.url} did not answer within {round(seconds, 1):g} s: "
                "check that it is not overloaded, then try again"
            ) from fault
        except TooMuch as fault:
            raise Unreachable(f"the IPFS node at {self.url} sends more than it was asked for: check the URL") from fault
        except exceptions.ErrorResponse as fault:
            raise StoreError(f"the IPFS node at {self.url} refused: {one_line(str(fault), _MAX_WORDS)}") from fault
        except _BROKEN_CONNECTION as fault:
            why, advice = way_fault(fault) or ("cannot be reached", "start it, or name another store")
            raise Unreachable(f"the IPFS node at {self.url} {why}: {advice}") from fault
        except (exceptions.Error, AssertionError, KeyError, TypeError, RecursionError) as fault:
            # The client library asserts on the number of answers it gets.
            raise Unreachable(f"the server at {self.url} is not the RPC API of a Kubo node: check the URL") from fault


def open_kubo(address: str, timeout: float = 30.0, password_file: str | None = "") -> KuboStore:
    """A Kubo node, with the password in the file that is named here or by the environment; without one for None.

    Raises
    ------
    StoreError
        The address cannot be one, or the file cannot be read.
    """
    named = "" if password_file is None else password_file or os.environ.get(PASSWORD_FILE_VARIABLE, "")
    return KuboStore(address, timeout, _read_password(Path(named)) if named else "")


def _read_password(path: Path) -> str:
    try:
        return read_password_file(path)
    except (OSError, UnicodeDecodeError):
        raise StoreError(f"cannot read the password file {path} of the store") from None


class _Pieces(io.RawIOBase):
    """Bytes that come in chunks, as a file to read once: a large blob is sent from where it lies."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


class _BoundedClient(ClientSync):
    """The library's HTTP client, except that it keeps to limits, and that answers come as the network delivers them."""

    def _make_session(self) -> requests.Session:
        session = super()._make_session()
        session.trust_env = False  # the API is not for proxies, nor for passwords from ~/.netrc
        session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
        for adapter in session.adapters.values():
            assert isinstance(adapter, HTTPAdapter)
            bound(adapter.poolmanager)
        session.max_redirects = 0  # a store must not send this machine's requests to another service, as its own node
        return session

    def _request(self, *args: Any, **options: Any):
        closables, _ = super()._request(*args, **options)
        return closables, _receive_chunks(closables[0])  # pyright: ignore[reportArgumentType] (it is the response)


def _receive_chunks(response: requests.Response) -> Iterator[bytes]:
    while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
        yield chunk


def _connect(address: KuboAddress, timeout: float, password: str) -> _Api:
    """Return a client for the API at an address, without talking to it.

    ``ipfshttpclient.connect`` would refuse daemons newer than itself.
    """
    auth = (address.user, password) if address.user or password else None
    try:
        client = ipfshttpclient.Client(address.multiaddr, address.base, timeout=timeout)
        client._client = _BoundedClient(address.multiaddr, address.base, timeout=timeout, auth=auth)
    except Exception as fault:  # multiaddr raises whatever its parsers meet
        raise StoreError(f"{address.shown!r} is not the address of an IPFS node") from fault
    return client
