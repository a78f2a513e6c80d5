"""A Kubo node as a ``ContentStore``, over its RPC API.

The node is trusted to keep and deliver blocks, never with their content: blobs are published as an archive (CAR), so
that the node cannot choose other CIDs, and every block read is hashed here. The RPC API gives full control over a node:
never expose it to a network without authorisation; reach a node on another machine through a tunnel, or over TLS.

``ipfshttpclient`` reads addresses, connects (over a Unix socket, too) and encodes what is sent. Its own calls read an
answer without bound or deadline, and follow what their environment says of proxies and passwords, so requests are
plain ones, within limits.
"""

import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import requests
import urllib3
from ipfshttpclient import multipart, requests_wrapper
from ipfshttpclient.http_common import multiaddr_to_url_data
from requests.adapters import HTTPAdapter

from fedgrove.common.bounded_http import UNREACHABLE, TooMuch, TooSlow, answered, body, bound, way_fault
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
_PIECE_BYTES = 1 << 20
_SLACK_SECONDS = 5.0  # the node gives up first and says why
_IMPORT_BYTES_PER_SECOND = 128 << 10  # of a slow line or disk: a node answers when it has written and pinned all
_MISSING = ("not found", "could not find", "deadline exceeded", "not pinned")


class _Refusal(Exception):
    """The node says no; the message is its own."""


class _Api:
    """The RPC API at an address: one request at a time, each on a connection of its own.

    Raises StoreError where it cannot be an address.
    """

    def __init__(self, address: KuboAddress, password: str) -> None:
        try:
            self._url, _, self._family, _ = multiaddr_to_url_data(address.multiaddr, address.base)
        except Exception as fault:  # multiaddr raises whatever its parsers meet
            raise StoreError(f"{address.shown!r} is not the address of an IPFS node") from fault
        self._auth = (address.user, password) if address.user or password else None

    def post(
        self,
        command: str,
        options: Mapping[str, str],
        seconds: float,
        most_bytes: int = _MAX_ANSWER_BYTES,
        archive: Iterable[bytes] | None = None,
    ) -> bytes:
        """The answer to a command; _Refusal where the node says no, ValueError where it is no node."""
        data, headers = (None, {}) if archive is None else multipart.stream_bytes(chunk for chunk in archive)
        headers |= {"Accept-Encoding": "identity"}
        sent: dict[str, Any] = {"params": options, "data": data, "headers": headers}
        with self._session() as session, answered(session, self._url + command, seconds, most_bytes, **sent) as answer:
            content = body(answer, most_bytes)
        if answer.status_code != requests.codes.ok:  # a redirection is no answer either
            raise _Refusal(str(json.loads(content)["Message"]))
        return content

    def _session(self) -> requests.Session:
        session = requests_wrapper.Session()
        session.family, session.auth = self._family, self._auth
        session.trust_env = False  # the API is not for proxies, nor for passwords from ~/.netrc
        session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
        for adapter in session.adapters.values():
            assert isinstance(adapter, HTTPAdapter)
            bound(adapter.poolmanager)
        return session


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
        self._api = _Api(found, password)

    def put(self, data: bytes) -> CID:
        blocks = self._split(data)
        root = blocks[-1].cid
        if not self._is_pinned(root):
            self._import(root, car.write(root, blocks), len(data))
        return root

    def add(self, chunks: Iterable[bytes]) -> CID:
        """As ``ContentStore`` says; the archive is a temporary file, as its header names the root, which comes last."""
        with tempfile.TemporaryFile() as archive:
            root = CID.of_block(b"", RAW)
            archive.write(b"".join(car.write(root, [])))
            for block in self._chunked(chunks):
                archive.writelines(car.section(block))
                root = block.cid
            size = archive.tell()
            archive.seek(0)
            archive.write(b"".join(car.write(root, [])))
            archive.seek(0)
            self._import(root, iter(lambda: archive.read(_PIECE_BYTES), b""), size)
        return root

    def _import(self, root: CID, archive: Iterable[bytes], size: int) -> None:
        """Send an archive of about ``size`` bytes and pin its root."""
        seconds = self._answer_seconds + size / _IMPORT_BYTES_PER_SECOND
        with self._answers(seconds):
            answer = self._api.post("dag/import", {"pin-roots": "true"}, seconds, archive=archive)
            imported = json.loads(answer)["Root"]
            if imported["Cid"]["/"] != str(root) or imported["PinErrorMsg"]:
                reason = one_line(str(imported["PinErrorMsg"] or "it reported a different root"), _MAX_WORDS)
                raise StoreError(f"the IPFS node at {self.url} did not keep {root}: {reason}")

    def pin(self, digest: bytes) -> None:
        self._ask(self._read_root(CID.from_digest(digest, RAW)).cid, "pin/add", self._patience())

    def unpin(self, digest: bytes) -> None:
        for codec in (RAW, DAG_PB):  # a pin has a codec, a digest has none
            cid = CID.from_digest(digest, codec)
            if self._is_pinned(cid):
                self._ask(cid, "pin/rm", {})

    def collect_garbage(self) -> int:
        """Let the node remove every block that none of its pins needs, whoever stored it; return how many."""
        with self._answers(self._answer_seconds):
            lines = self._api.post("repo/gc", {}, self._answer_seconds, _MAX_LIST_BYTES).splitlines()
            return sum("Key" in json.loads(line) for line in lines)

    def _is_pinned(self, cid: CID) -> bool:
        return self._has("pin/ls", cid, {"type": "recursive"})

    def _has_block(self, cid: CID) -> bool:
        return self._has("block/stat", cid, {"offline": "true"})

    def _has(self, command: str, cid: CID, options: Mapping[str, str]) -> bool:
        try:
            self._ask(cid, command, options)
        except NotFound:
            return False
        return True

    def _finder(self) -> Callable[[CID], bool]:
        """Return what lets the node find a block and keep it; it finds none once this store's timeout is over."""
        deadline = time.monotonic() + self.timeout

        def find(cid: CID) -> bool:
            if time.monotonic() > deadline:
                raise self._not_found(cid)
            self._ask(cid, "block/stat", self._patience())
            return True

        return find

    def _read_block(self, cid: CID, max_bytes: int) -> bytes:
        with self._answers(self._answer_seconds):
            try:
                data = self._call(cid, "block/get", self._patience(), MAX_BLOCK_BYTES)
            except TooMuch:
                raise Corrupt(cid, f"the IPFS node at {self.url} returned more bytes than a block can have") from None
        if sha256(data).digest() != cid.digest:
            raise Corrupt(cid, f"the IPFS node at {self.url} returned bytes that do not match this CID")
        if len(data) > max_bytes:
            raise TooLarge(cid, f"the block has {len(data)} bytes, but at most {max_bytes} are allowed")
        return data

    @property
    def _answer_seconds(self) -> float:
        return self.timeout + _SLACK_SECONDS

    def _patience(self) -> dict[str, str]:
        """The option that makes the node itself give up looking for a block."""
        return {"timeout": f"{max(1, round(self.timeout * 1000))}ms"}

    def _not_found(self, cid: CID) -> NotFound:
        return NotFound(cid, f"the IPFS node at {self.url} did not find it in {self.timeout:g} s")

    def _ask(self, cid: CID, command: str, options: Mapping[str, str]) -> Any:
        """What a node says about one CID; that it has no such thing is ``NotFound``."""
        with self._answers(self._answer_seconds):
            return json.loads(self._call(cid, command, options, _MAX_ANSWER_BYTES))

    def _call(self, cid: CID, command: str, options: Mapping[str, str], most_bytes: int) -> bytes:
        """Send a request about one CID."""
        try:
            return self._api.post(command, {"arg": str(cid), **options}, self._answer_seconds, most_bytes)
        except _Refusal as refusal:
            if any(phrase in str(refusal) for phrase in _MISSING):
                raise self._not_found(cid) from None
            raise

    @contextmanager
    def _answers(self, seconds: float) -> Iterator[None]:
        """Turn everything that can go wrong with an answer into one sentence."""
        try:
            yield
        except (requests.Timeout, urllib3.exceptions.TimeoutError, TooSlow) as fault:
            raise Unreachable(
                f"the IPFS node at {self.url} did not answer within {round(seconds, 1):g} s: "
                "check that it is not overloaded, then try again"
            ) from fault
        except TooMuch as fault:
            raise Unreachable(f"the IPFS node at {self.url} sends more than it was asked for: check the URL") from fault
        except _Refusal as fault:
            raise StoreError(f"the IPFS node at {self.url} refused: {one_line(str(fault), _MAX_WORDS)}") from fault
        except UNREACHABLE as fault:
            why, advice = way_fault(fault) or ("cannot be reached", "start it, or name another store")
            raise Unreachable(f"the IPFS node at {self.url} {why}: {advice}") from fault
        except (ValueError, KeyError, TypeError, RecursionError) as fault:
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
