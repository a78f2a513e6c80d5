"""Machines for tests: network namespaces with addresses, loopbacks and folders of their own; or two of loopback's.

Nothing here needs root: an outer user namespace holds the wire, and what runs on a machine runs as a common user.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedgrove.chain.face.networks import free_port

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).with_name("ipfs_stand_in.py")
NAMES = ("founder", "member")
ADDRESSES = {"founder": "10.77.0.1", "member": "10.77.0.2"}
USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
PATIENCE = 60.0
_KEEP_STATE = "trap 'export -p > .exported' EXIT\n[ ! -e .exported ] || . ./.exported\n"


class Machine:
    """One machine: a folder, and how a command is run there.

    Parameters
    ----------
    enter : tuple of str
        Put in front of a command, so that it runs on this machine.
    rename : dict of str to str
        What commands say other than here, addresses and ports.
    """

    def __init__(self, folder: Path, enter: tuple[str, ...], rename: dict[str, str]) -> None:
        self.folder, self._enter, self._rename = folder, enter, rename
        self._servers: list[subprocess.Popen] = []
        self._bin = folder / "bin"

    def prepare(self) -> None:
        """A copy of what the page wants there, and ``ipfs``."""
        self._bin.mkdir(parents=True)
        shutil.copytree(ROOT / "deploy" / "nginx", self.folder / "deploy" / "nginx")
        # Started by root, nginx reads its files as nobody, to whom this folder is closed.
        account = "" if self._enter or os.geteuid() else "user root;\n"
        for file in self.folder.rglob("*.conf"):
            file.write_text((account if file.name == "nginx.conf" else "") + self.translated(file.read_text()))
        (self.folder / "node_modules").symlink_to(ROOT / "node_modules")
        script = self._bin / "ipfs"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
        script.chmod(0o755)

    def run(self, text: str, seconds: float = 300) -> str:
        """Run commands of a page to their end; what they export is there for those that come."""
        done = subprocess.run(
            self._command(_KEEP_STATE + text), env=self._environment(), capture_output=True, text=True, timeout=seconds
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{self.logs()}"
        return done.stdout

    def start(self, text: str, port: int = 0) -> subprocess.Popen:
        """Start commands of a page in a terminal of their own; with a port, wait until something listens there."""
        with open(self.folder / f"terminal-{len(self._servers)}.log", "wb") as log:
            server = subprocess.Popen(
                self._command("[ ! -e .exported ] || . ./.exported\n" + text),
                env=self._environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._servers.append(server)
        deadline = time.monotonic() + PATIENCE
        while port and not self.listens(port):
            assert server.poll() is None and time.monotonic() < deadline, f"{text}\n{self.logs()}"
            time.sleep(0.1)
        return server

    def listens(self, port: int, host: str = "127.0.0.1") -> bool:
        """Whether something listens at an address, as seen from here."""
        probe = f"exec 3<>/dev/tcp/{host}/{port}"
        return subprocess.run(self._command(probe), capture_output=True, env=self._environment()).returncode == 0

    def sees(self, path: Path) -> bool:
        """Whether a path exists, as seen from here."""
        return subprocess.run(self._command(f"test -e '{path}'"), env=self._environment()).returncode == 0

    def hand_over(self, folder: str, to: "Machine", name: str) -> None:
        """Copy a folder to another machine, as a stick would."""
        shutil.copytree(self.folder / folder, to.folder / name)
        for file in (to.folder / name).iterdir():
            file.write_text(to.translated(_renamed(file.read_text(), {new: old for old, new in self._rename.items()})))

    def logs(self) -> str:
        """The ends of all logs there."""
        return "\n".join(f"--- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(self.folder.glob("*.log")))

    def end(self) -> None:
        """End what was started."""
        for server in self._servers:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
        for server in self._servers:
            server.wait(timeout=20)

    def translated(self, text: str) -> str:
        """Text of a page, in this machine's addresses and ports."""
        return _renamed(text, self._rename)

    def _command(self, text: str) -> list[str]:
        return [*self._enter, "bash", "-c", f"cd '{self.folder}'\nset -euo pipefail\n{self.translated(text)}"]

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self._bin), str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FEDGROVE_")}
        return {**kept, "PATH": path, "HOME": str(self.folder)}


def _renamed(text: str, names: dict[str, str]) -> str:
    """Text with whole words renamed: no digits in the midst of a key or a hash."""
    words = "|".join(map(re.escape, names)) or "$^"
    return re.sub(rf"(?<![0-9A-Za-z])({words})(?![0-9A-Za-z])", lambda found: names[found[0]], text)


def why_no_namespaces() -> str:
    """Why this machine allows no network namespaces; empty where it does."""
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--", "sh", "-c"]
    command += ["ip link add wire-a type veth peer name wire-b && mount -t tmpfs none /mnt"]
    tried = subprocess.run(command, capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"this machine allows no namespaces: {tried.stderr.strip()[-200:]}"


@contextmanager
def in_namespaces(base: Path):
    """Two machines on one wire; neither sees the other's loopback or folder."""
    for name in NAMES:
        (base / name).mkdir()
    with ExitStack() as stack:
        outer = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--")
        wire = stack.enter_context(_held(outer, "true"))
        on_wire = ("nsenter", f"--target={wire}", "--user", "--net", "--mount", "--preserve-credentials")
        machines = {}
        for name, other in zip(NAMES, reversed(NAMES), strict=True):
            hide = f"mount --make-rprivate / && mount -t tmpfs none '{base / other}'"
            holder = stack.enter_context(_held((*on_wire, "--", "unshare", "--net", "--mount", "--"), hide))
            enter = ("nsenter", f"--target={holder}", "--user", "--net", "--mount", "--preserve-credentials", "--")
            machines[name] = (holder, enter)
        _lay([*on_wire, "--"], machines)
        made = {name: Machine(base / name, (*enter, *USER), {}) for name, (_, enter) in machines.items()}
        yield _prepared(stack, made)


@contextmanager
def on_loopback(base: Path):
    """Two machines that are only folders and addresses of loopback: nothing keeps them apart."""
    founder, member = "127.77.0.1", "127.77.0.2"
    cross = {"10.77.0.1": founder, "10.77.0.2": member, "8545": str(free_port()), "tcp/4001": f"tcp/{free_port()}"}
    own = {name: {port: str(free_port()) for port in ("8547", "5001", "5101")} for name in NAMES}
    with ExitStack() as stack:
        yield _prepared(stack, {name: Machine(base / name, (), cross | own[name]) for name in NAMES})


def _prepared(stack: ExitStack, machines: dict[str, Machine]) -> dict[str, Machine]:
    for machine in machines.values():
        machine.prepare()
        stack.callback(machine.end)
    return machines


def _lay(on_wire: list[str], machines: dict[str, tuple[int, tuple[str, ...]]]) -> None:
    """Join the machines by a cable, and give each end its address."""

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    run(*on_wire, "ip", "link", "add", NAMES[0], "type", "veth", "peer", "name", NAMES[1])
    for name, (holder, enter) in machines.items():
        run(*on_wire, "ip", "link", "set", name, "netns", str(holder))
        run(*enter, "ip", "address", "add", f"{ADDRESSES[name]}/24", "dev", name)
        run(*enter, "ip", "link", "set", name, "up")
        run(*enter, "ip", "link", "set", "lo", "up")


@contextmanager
def _held(enter: tuple[str, ...], first: str):
    """A process that holds namespaces open until the end; its id, once it has run ``first``."""
    script = f"{first} && echo $$ && exec cat"
    command = [*enter, "sh", "-c", script]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield int(holder.stdout.readline())
    finally:
        holder.stdin.close()
        holder.wait(timeout=20)
        holder.stdout.close()
