"""Several validators of one chain on this machine: `injectived`, that is CometBFT with an EVM behind JSON-RPC.

More than two thirds of them must run for the chain to make blocks, and what it made is final. The program comes from
the PyPI package `injective-core` (`pip install ".[validators]"`); its licence lets us test with it, not ship it.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

import requests
import tomli_w

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.face.networks import dying_with_parent
from tests.chain.network.block_hashes import HISTORY, code_hash, history_code

COSMOS_CHAIN_ID = "injective-777"
CHAIN_ID = 1776
STAKE = "100000000000000000000stake"
FUNDS = "1000000000000000000000000inj"
BLOCK_GAS = 30_000_000
COMMIT_TIME, PROPOSE_TIME = "400ms", "500ms"
PORTS = 5
LISTENING = range(20_000, 32_000)
START_SECONDS = 120.0
LOG_TAIL = 2000
PAUSE_SECONDS = 0.1


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody uses now; none that Linux gives to outgoing connections, for they are kept."""
    found: list[int] = []
    for port in random.sample(LISTENING, len(LISTENING)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


class Missing(RuntimeError):
    """The program is not installed."""


def find_injectived() -> str:
    """Path of the program: beside this Python, or on PATH. Raises Missing."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("injectived", path=places)
    if found is None:
        raise Missing('injectived is not installed: run `pip install ".[validators]"`')
    return found


@dataclass(frozen=True)
class Block:
    """A block's hash, and the root of the state upon which its transactions act; 32 bytes each."""

    hash: bytes
    state_root: bytes


class Validator:
    """One validator: its home, its ports on 127.0.0.1, and its process while it runs."""

    def __init__(self, program: str, home: Path, name: str, ports: Sequence[int]) -> None:
        self.home = home
        self.name = name
        self._program = program
        self._peer_port, self._comet_port, self._grpc_port, self._rpc_port, self._socket_port = ports
        self._process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        """Its EVM JSON-RPC endpoint."""
        return f"http://127.0.0.1:{self._rpc_port}"

    @property
    def pid(self) -> int:
        """Process id, 0 while it was never started."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    # --- preparing --------------------------------------------------------------------------------------------------

    def run(self, *arguments: str) -> str:
        """Run the program once on this home; what it printed."""
        command = [self._program, *arguments, "--home", str(self.home)]
        done = subprocess.run(command, stdin=DEVNULL, capture_output=True, text=True, timeout=START_SECONDS)
        assert done.returncode == 0, f"{' '.join(arguments[:2])}: {done.stderr[-LOG_TAIL:]}"
        return done.stdout

    def initialise(self) -> None:
        """Make its home, its keys and the account that its stake comes from."""
        self.run("init", self.name, "--chain-id", COSMOS_CHAIN_ID)
        self.run("keys", "add", self.name, "--keyring-backend", "test")

    def account(self) -> str:
        """The account that its stake comes from."""
        return self.run("keys", "show", self.name, "--address", "--keyring-backend", "test").strip()

    def peer(self) -> str:
        """How the others reach it."""
        return f"{self.run('comet', 'show-node-id').strip()}@127.0.0.1:{self._peer_port}"

    def configure(self, peers: list[str]) -> None:
        """Loopback only, short blocks, nothing but consensus and the EVM endpoints."""
        settings = {
            "rpc": {"laddr": f"tcp://127.0.0.1:{self._comet_port}", "pprof_laddr": ""},
            "p2p": {
                "laddr": f"tcp://127.0.0.1:{self._peer_port}",
                "persistent_peers": ",".join(peers),
                "persistent_peers_max_dial_period": "1s",
                "pex": False,
                "addr_book_strict": False,
                "allow_duplicate_ip": True,
            },
            "consensus": {"timeout_commit": COMMIT_TIME, "timeout_propose": PROPOSE_TIME},
        }
        _change(self.home / "config" / "config.toml", settings)
        services = {
            "api": {"enable": False},
            # The EVM's endpoints are not served without gRPC.
            "grpc": {"address": f"127.0.0.1:{self._grpc_port}"},
            "grpc-web": {"enable": False},
            "json-rpc": {"address": f"127.0.0.1:{self._rpc_port}", "ws-address": f"127.0.0.1:{self._socket_port}"},
        }
        _change(self.home / "config" / "app.toml", services)

    # --- running ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it; it ends with this process, however that ends."""
        command = [self._program, "start", "--home", str(self.home), "--chain-id", COSMOS_CHAIN_ID]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                dying_with_parent(command, signal.SIGKILL), stdin=DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """End it with SIGKILL, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def head(self) -> int:
        """Its last block, by its consensus engine; 0 while it does not answer."""
        status = self._comet("status")
        return 0 if status is None else int(status["sync_info"]["latest_block_height"])

    def block(self, number: int) -> Block:
        """A block as its consensus engine has it."""
        found = self._comet("block", height=number)
        assert found is not None, f"{self.name} does not answer: {self.log_tail()}"
        return Block(bytes.fromhex(found["block_id"]["hash"]), bytes.fromhex(found["block"]["header"]["app_hash"]))

    def votes(self) -> tuple[int, int]:
        """The height that it votes on, and how many votes it has in the height's first round."""
        state = self._comet("consensus_state")
        if state is None:
            return 0, 0
        state = state["round_state"]
        height = int(state["height/round/step"].split("/")[0])
        return height, state["height_vote_set"][0]["prevotes_bit_array"].count("x")

    def log_tail(self) -> str:
        """The end of its log."""
        return (self.home / "log").read_text(errors="replace")[-LOG_TAIL:]

    def _comet(self, method: str, **parameters: object) -> dict | None:
        try:
            answer = requests.get(f"http://127.0.0.1:{self._comet_port}/{method}", params=parameters, timeout=10)
        except requests.RequestException:
            return None
        return answer.json().get("result")


class Validators:
    """A chain of ``count`` validators with equal stakes; ``rich`` is an account with plenty of its currency.

    Use it as a context manager: everything ends with it.
    """

    def __init__(self, directory: Path, rich: Account, count: int = 4) -> None:
        program = find_injectived()
        ports = free_ports(count * PORTS)
        self.all = [
            Validator(program, directory / f"v{number}", f"v{number}", ports[number::count]) for number in range(count)
        ]
        self.rich = rich
        self._found()

    @property
    def urls(self) -> list[str]:
        """All EVM JSON-RPC endpoints."""
        return [validator.url for validator in self.all]

    def _found(self) -> None:
        """Make all homes and the genesis that they share."""
        first = self.all[0]
        for validator in self.all:
            validator.initialise()
        rich, history = (_native(first, address) for address in (self.rich.address, HISTORY))
        balances = {validator.account(): STAKE for validator in self.all} | {rich: FUNDS, history: "1inj"}
        for account, balance in balances.items():
            first.run("genesis", "add-genesis-account", account, balance, "--chain-id", COSMOS_CHAIN_ID)
        (first.home / "config" / "gentx").mkdir()
        for validator in self.all:
            self._stake(validator)
        first.run("genesis", "collect-gentxs")
        _set_terms(_genesis(first), history, history_code(self.rich.address))
        peers = [validator.peer() for validator in self.all]
        for number, validator in enumerate(self.all):
            if validator is not first:
                shutil.copy(_genesis(first), _genesis(validator))
            validator.configure(peers[:number] + peers[number + 1 :])

    def _stake(self, validator: Validator) -> None:
        """Let a validator sign its stake, upon the balances of the first one's genesis."""
        first = self.all[0]
        if validator is not first:
            shutil.copy(_genesis(first), _genesis(validator))
        signed = first.home / "config" / "gentx" / f"{validator.name}.json"
        keys = ("--keyring-backend", "test", "--chain-id", COSMOS_CHAIN_ID)
        validator.run("genesis", "gentx", validator.name, STAKE, *keys, "--output-document", str(signed))

    def start(self) -> None:
        """Start those that do not run."""
        for validator in self.all:
            if not validator.running:
                validator.start()

    def wait(self, block: int) -> None:
        """Return once each of them has this block."""
        behind = self.all
        deadline = time.monotonic() + START_SECONDS
        while behind := [validator for validator in behind if validator.head() < block]:
            first = behind[0]
            assert first.running, f"{first.name} ended: {first.log_tail()}"
            assert time.monotonic() < deadline, f"{first.name} did not reach block {block}: {first.log_tail()}"
            time.sleep(PAUSE_SECONDS)

    def wait_until_halted(self) -> int:
        """Return once those that run have all the votes that they will get, and these are too few; the head."""
        running = [validator for validator in self.all if validator.running]
        assert 3 * len(running) <= 2 * len(self.all), "they can go on"
        deadline = time.monotonic() + START_SECONDS
        while True:
            heights, votes = zip(*(validator.votes() for validator in running), strict=True)
            if len(set(heights)) == 1 and set(votes) == {len(running)}:
                return heights[0] - 1
            assert time.monotonic() < deadline, f"they vote on: {running[0].log_tail()}"
            time.sleep(PAUSE_SECONDS)

    def __enter__(self) -> "Validators":
        try:
            self.start()
            self.wait(2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for validator in self.all:
            validator.kill()


def _genesis(validator: Validator) -> Path:
    return validator.home / "config" / "genesis.json"


def _native(validator: Validator, address: str) -> str:
    """An account's address as a genesis states it."""
    return json.loads(validator.run("keys", "parse", address[2:], "--output", "json"))["formats"][0]


def _set_terms(path: Path, history: str, code: bytes) -> None:
    """Room for our contracts in a block, no seat lost by who was killed for a while, and the contract of EIP-2935."""
    genesis = json.loads(path.read_text())
    genesis["consensus"]["params"]["block"]["max_gas"] = str(BLOCK_GAS)
    state = genesis["app_state"]
    state["slashing"]["params"]["signed_blocks_window"] = "100000"
    state["evm"]["params"]["chain_config"]["eip155_chain_id"] = str(CHAIN_ID)
    state["evm"]["accounts"].append({"address": HISTORY, "code": code.hex(), "storage": []})
    for account in state["auth"]["accounts"]:
        if account["base_account"]["address"] == history:
            account["code_hash"] = code_hash(code)
    path.write_text(json.dumps(genesis))


def _change(path: Path, changes: dict[str, dict[str, object]]) -> None:
    """Change some keys of some tables of a TOML file."""
    settings = tomllib.loads(path.read_text())
    for table, values in changes.items():
        settings[table].update(values)
    path.write_text(tomli_w.dumps(settings))
