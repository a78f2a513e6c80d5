"""Layout of a testnet's directory, and the record that marks it as complete."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedgrove.chain.crypto.regular_file import read_regular
from fedgrove.common.wire import parse_json
from fedgrove.node.base.files import write_atomically
from fedgrove.node.devnet.method_option import TRAINING, ledger_rounds
from fedgrove.node.tasks.folder import remove_folder

if TYPE_CHECKING:
    from fedgrove.node.devnet.demo import DemoPlan

FORMAT = 1
MAX_RECORD_BYTES = 1 << 20
_OURS = re.compile(
    r"\.unfinished|(coordinator|client-\d\d|kubo-\d+|store|chain|logs|explorer|swarm\.key"
    r"|federation\.toml|(testnet|supervisor|processes)\.json)(\.tmp)?"
)


class TestnetError(RuntimeError):
    """The testnet cannot do what was asked; one sentence says why and what to do."""

    __test__ = False  # its name is no test's


class UnfitDirectory(TestnetError):
    """The directory cannot hold a testnet: another is to be given."""


@dataclass(frozen=True)
class TestnetPlan:
    """Plan of a testnet; the fields are the options of ``fedgrove network up``.

    With ``k`` above 0 its clients cluster points, and it runs until it is taken down. With ``method`` they find out
    who is like whom in rounds before the ``rounds``, and train in clusters. With ``task``, a folder, they train that
    on ``data``, contained as ``sandbox`` says; ``bases`` are paths of its frozen bases by name, ``settings`` tables
    with other values for keys of its ``terms.toml``, and ``table_format`` says how its source writes tables. ``chain``
    is ``anvil`` or, in py-evm, ``embedded``.
    """

    __test__ = False

    clients: int = 8
    rounds: int = 3
    dataset: str = "digits"
    alpha: float = 0.3
    strategy: str = "fedaom"
    store: str = "kubo"
    kubo_nodes: int = 2
    block_seconds: float = 1.0
    standby: int = 1
    seed: int = 0
    epsilon: float = 0.0
    explorer: bool = False
    k: int = 0
    method: str = TRAINING
    task: str = ""
    data: str = ""
    sandbox: Literal["auto", "strict", "contained", "off"] = "auto"
    chain: str = "anvil"
    bases: dict[str, str] = field(default_factory=dict)
    masking: Literal["bbtsa", "pairwise"] = "bbtsa"
    held_out: float = 0.0
    patience: int = 0
    portable: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    table_format: dict[str, str] = field(default_factory=dict)

    def as_demo(self) -> "DemoPlan":
        """The part of the plan that a demonstration has as well."""
        from fedgrove.node.devnet.demo import DemoPlan  # brings torch

        return DemoPlan(
            clients=self.clients,
            rounds=self.rounds,
            alpha=self.alpha,
            strategy=self.strategy,
            masking=self.masking,
            seed=self.seed,
            epsilon=self.epsilon,
            method=self.method,
            held_out=self.held_out,
            patience=self.patience,
            portable=self.portable,
        )

    @property
    def ledger_rounds(self) -> int:
        """Rounds on the ledger: before clusters train, their clients compare their data."""
        return ledger_rounds(self.rounds, self.method)

    @property
    def groups(self) -> int:
        """How many stores there are, each for a group of clients."""
        return min(self.kubo_nodes, self.clients) if self.store == "kubo" else 1

    def group_of(self, client: int) -> int:
        """The group (from 1) of a client; the coordinator, client 0, belongs to the first."""
        return (client - 1) % self.groups + 1 if client else 1


@dataclass(frozen=True)
class Testnet:
    """A complete testnet: its plan, and where on its own chain the federation is.

    Attributes
    ----------
    chain_id : int
    registry, ledger : str
        Checksummed addresses.
    block : int
        Block of the deployment.
    accounts : dict of str to str
        Address of each participant, by name.
    ports : dict of str to int
        Ports on 127.0.0.1, by process name; taken again when they are free.
    sources : dict of str to list of str
        With a task, the options of each participant's service that say what its data are.
    """

    __test__ = False

    plan: TestnetPlan
    chain_id: int
    registry: str
    ledger: str
    block: int
    accounts: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class TestnetPaths:
    """The paths of a testnet in ``root``."""

    root: Path

    @property
    def record(self) -> Path:
        """Written when everything else is there: a directory without it is not complete."""
        return self.root / "testnet.json"

    @property
    def unfinished(self) -> Path:
        """There while the directory is being made, so that what is half made can be told from what is somebody's."""
        return self.root / ".unfinished"

    @property
    def config(self) -> Path:
        """The federation's TOML file, for whoever looks at it from outside."""
        return self.root / "federation.toml"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def chain(self) -> Path:
        """The chain's state, as anvil writes it."""
        return self.root / "chain" / "state.json"

    @property
    def blocks(self) -> Path:
        """The blocks of an embedded chain."""
        return self.root / "chain" / "blocks.jsonl"

    @property
    def swarm_key(self) -> Path:
        """The secret that the testnet's Kubo nodes share, and nobody else has."""
        return self.root / "swarm.key"

    @property
    def supervisor(self) -> Path:
        """The supervisor's process, while there is one."""
        return self.root / "supervisor.json"

    @property
    def processes(self) -> Path:
        """The supervisor's report on its processes."""
        return self.root / "processes.json"

    @property
    def explorer(self) -> Path:
        """Folder of the explorer's index."""
        return self.root / "explorer"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def participant(self, name: str) -> "ParticipantPaths":
        return ParticipantPaths(self.root / name)

    def store(self, plan: TestnetPlan, group: int) -> Path:
        """Folder of a group's store: a disk store, or the repository of a Kubo node."""
        return self.root / (kubo_name(group) if plan.store == "kubo" else "store")


@dataclass(frozen=True)
class ParticipantPaths:
    """The files of a client or the coordinator; nobody else reads them."""

    root: Path

    @property
    def keystore(self) -> Path:
        return self.root / "keystore.json"

    @property
    def password(self) -> Path:
        return self.root / "password"

    @property
    def data(self) -> Path:
        return self.root / "data.npz"

    @property
    def config(self) -> Path:
        return self.root / "federation.toml"

    @property
    def state(self) -> Path:
        """The service's own files."""
        return self.root / "state"


def is_ours(path: Path) -> bool:
    """Whether a path in a testnet's directory has a name that making or running a testnet uses."""
    return _OURS.fullmatch(path.name) is not None


def clear(layout: TestnetPaths) -> None:
    """Remove what an attempt to make a testnet left, except for the mark; other people's files stay."""
    for path in layout.root.iterdir():
        if path != layout.unfinished and is_ours(path):
            remove_folder(path)


def client_name(number: int) -> str:
    """``client-07``."""
    return f"client-{number:02d}"


def kubo_name(group: int) -> str:
    """``kubo-1``."""
    return f"kubo-{group}"


def write_record(layout: TestnetPaths, testnet: Testnet) -> None:
    """Write, or replace, the record of a complete testnet."""
    write_atomically(layout.record, _json({"format": FORMAT} | asdict(testnet)), 0o600)


def read_record(layout: TestnetPaths) -> Testnet:
    """The testnet in a directory.

    Raises
    ------
    TestnetError
        There is none, or its record cannot be read.
    """
    try:
        fields = parse_json(read_regular(layout.record, MAX_RECORD_BYTES))
        if fields.pop("format") != FORMAT:
            raise ValueError("another format")
        return Testnet(**fields | {"plan": TestnetPlan(**fields["plan"])})
    except FileNotFoundError:
        raise TestnetError(f"there is no testnet in {layout.root}: make one with `fedgrove network up`") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise TestnetError(
            f"{layout.record} cannot be read: stop it with `fedgrove network down --delete` and start again"
        ) from None


def _json(value: dict) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
