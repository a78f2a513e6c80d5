"""Members of a federation that one user makes: a folder for each of them, and contracts with funds for all."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.networks import Network
from fedgrove.chain.network.anvil_state import was_written
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import RunFailed
from fedgrove.node.protocol.founding import found
from fedgrove.node.protocol.terms import FederationConfig

COORDINATOR = "coordinator"
FUNDS_ETHER = 100
# The password lies next to the keystore and the accounts hold test ether: the work factor guards nothing here, and with
# the usual one every start of twenty services would take half a minute.
_COST = 1 << 14


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

    def equip(self, keys: Keys) -> None:
        """Make the folder, with a keystore and the password that opens it."""
        self.root.mkdir(mode=0o700)
        self.password.touch(mode=0o600)
        password = secrets.token_urlsafe(24)
        self.password.write_text(password + "\n")
        save(self.keystore, keys, password, cost=_COST)


def client_name(number: int) -> str:
    """``client-07``."""
    return f"client-{number:02d}"


def found_with_funds(network: Network, config: FederationConfig, everyone: Mapping[str, Keys]) -> Deployment:
    """Deploy the contracts for these participants, by name, and give each of them test ether."""
    for keys in everyone.values():
        network.fund(keys.address, FUNDS_ETHER)
    founder = everyone[COORDINATOR]
    return found(network, founder.account, config, founder.address)


def check_written(state: Path) -> None:
    """Raise RunFailed unless anvil, which has ended, wrote its state: on a full disk it says nothing."""
    if not was_written(state):
        raise RunFailed("the disk has no room for the chain's state: make room and run the command again")
