"""Layout of a testnet's directory, and the record that marks it as complete."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from fedgrove.common.errors import RunFailed
from fedgrove.common.regular_file import read_regular
from fedgrove.common.wire import Malformed, Table
from fedgrove.node.base.files import write_atomically
from fedgrove.node.devnet.members import ParticipantPaths
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.tasks.folder import remove_folder

_OURS = re.compile(
    r"\.unfinished|(coordinator|client-\d\d|kubo-\d+|store|chain|logs|explorer|swarm\.key"
    r"|federation\.toml|(testnet|supervisor|processes)\.json)(\.tmp)?"
)


def groups(scenario: Scenario) -> int:
    """How many stores a testnet has, each for a group of clients."""
    return min(scenario.run.kubo_nodes, scenario.cast.clients) if scenario.run.store == "kubo" else 1


def group_of(scenario: Scenario, client: int) -> int:
    """The group (from 1) of a client; the coordinator, client 0, belongs to the first."""
    return (client - 1) % groups(scenario) + 1 if client else 1


class Testnet(Table, frozen=True, dict=True, tag_field="format", tag=2):
    """A complete testnet: its scenario, and where on its own chain the federation is.

    Attributes
    ----------
    tables : dict
        The scenario's, as its file has them.
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
        The options of each participant's service that say what its data are.
    """

    __test__ = False

    tables: dict[str, Any] = msgspec.field(name="scenario")
    chain_id: int
    registry: str
    ledger: str
    block: int
    accounts: dict[str, str] = msgspec.field(default_factory=dict)
    ports: dict[str, int] = msgspec.field(default_factory=dict)
    sources: dict[str, list[str]] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.scenario

    @cached_property
    def scenario(self) -> Scenario:
        """What the testnet was asked for."""
        return Scenario.from_tables(self.tables)


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

    def participant(self, name: str) -> ParticipantPaths:
        return ParticipantPaths(self.root / name)

    def store(self, scenario: Scenario, group: int) -> Path:
        """Folder of a group's store: a disk store, or the repository of a Kubo node."""
        return self.root / (kubo_name(group) if scenario.run.store == "kubo" else "store")


def is_ours(path: Path) -> bool:
    """Whether a path in a testnet's directory has a name that making or running a testnet uses."""
    return _OURS.fullmatch(path.name) is not None


def clear(layout: TestnetPaths) -> None:
    """Remove what an attempt to make a testnet left, except for the mark; other people's files stay."""
    for path in layout.root.iterdir():
        if path != layout.unfinished and is_ours(path):
            remove_folder(path)


def kubo_name(group: int) -> str:
    """``kubo-1``."""
    return f"kubo-{group}"


def write_record(layout: TestnetPaths, testnet: Testnet) -> None:
    """Write, or replace, the record of a complete testnet."""
    write_atomically(layout.record, testnet.to_bytes(), 0o600)


def read_record(layout: TestnetPaths) -> Testnet:
    """The testnet in a directory.

    Raises
    ------
    RunFailed
        There is none, or its record cannot be read.
    """
    try:
        return Testnet.from_bytes(read_regular(layout.record, Testnet.max_bytes))
    except FileNotFoundError:
        raise RunFailed(f"there is no testnet in {layout.root}: make one with `fedgrove network up`") from None
    except (OSError, Malformed):
        raise RunFailed(
            f"{layout.record} cannot be read: stop it with `fedgrove network down --delete` and start again"
        ) from None
