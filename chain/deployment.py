"""Founding a federation on a chain, and finding one: addresses, terms, and whether the code is the shipped code."""

import json
from dataclasses import asdict, astuple, dataclass
from typing import Any

import rlp
from eth_account.signers.local import LocalAccount
from eth_utils import is_checksum_address, keccak, to_canonical_address, to_checksum_address

from chain.access import Network
from chain.contract import Contract, creation
from chain.errors import ChainError, WrongChain, WrongCode, artifact

REGISTRY_GAS = 4_000_000
LEDGER_GAS = 10_000_000
MAX_JSON_BYTES = 1 << 14
_UINT16, _UINT32, _UINT64 = 2**16 - 1, 2**32 - 1, 2**64 - 1
_MAY_BE_ZERO = ("coordinator_grace", "absence_rounds")


@dataclass(frozen=True)
class Settings:
    """Windows (in blocks) and limits of a federation, fixed at deployment; the ledger's immutables.

    Attributes
    ----------
    seed_delay : int
        Blocks from the opening to the block whose hash seeds the round.
    draw_window, seal_window, share_window, commit_window, recover_window, close_window : int
        Length of each phase.
    coordinator_grace : int
        Blocks in which the coordinator may act alone before any active client may act in its stead.
    quorum, max_clients : int
        Fewest and most clients of a round.
    absence_limit, absence_rounds : int
        After every so many absences a client sits out so many rounds.
    max_samples : int
        Highest sample count that a client may state.
    """

    seed_delay: int = 2
    draw_window: int = 50
    seal_window: int = 20
    share_window: int = 50
    commit_window: int = 100
    recover_window: int = 50
    close_window: int = 50
    coordinator_grace: int = 20
    quorum: int = 3
    max_clients: int = 1000
    absence_limit: int = 3
    absence_rounds: int = 1
    max_samples: int = 1 << 24

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            highest = _UINT32 if name == "max_samples" else _UINT16
            lowest = 0 if name in _MAY_BE_ZERO else 1
            if type(value) is not int or not lowest <= value <= highest:
                raise ValueError(f"{name} must be a whole number from {lowest} to {highest}, not {value!r}")
        if self.max_clients < self.quorum:
            raise ValueError(f"max_clients must be at least the quorum of {self.quorum}, not {self.max_clients}")


@dataclass(frozen=True)
class Deployment:
    """Where a federation's contracts are, and the terms that are fixed in them.

    Attributes
    ----------
    chain_id : int
    registry, ledger : str
        Checksummed addresses.
    block : int
        No record lies below this block.
    coordinator, admin : str
        Checksummed addresses; the admin is zero where membership is open and none was named.
    open_membership : bool
    activation_delay : int
        Blocks from a registration to the first round that may draw the client.
    settings : Settings
    """

    chain_id: int
    registry: str
    ledger: str
    block: int
    coordinator: str
    admin: str
    open_membership: bool
    activation_delay: int
    settings: Settings

    def to_json(self) -> str:
        """Canonical JSON, one line."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Deployment":
        """Parse what ``to_json`` wrote. Raises ValueError on anything else."""
        if len(text) > MAX_JSON_BYTES:
            raise ValueError("a deployment is described in fewer bytes")
        try:
            fields = json.loads(text)
            settings = Settings(**fields.pop("settings"))
            deployment = cls(**fields, settings=settings)
            deployment._check()
        except (AttributeError, KeyError, TypeError, RecursionError) as fault:
            raise ValueError(f"this is no deployment: {fault}") from None
        return deployment

    def _check(self) -> None:
        for name in ("registry", "ledger", "coordinator", "admin"):
            if not is_checksum_address(getattr(self, name)):
                raise ValueError(f"{name} must be a checksummed address")
        for name in ("chain_id", "block", "activation_delay"):
            value = getattr(self, name)
            highest = 2**256 - 1 if name == "chain_id" else _UINT64
            if type(value) is not int or not 0 <= value <= highest:
                raise ValueError(f"{name} must be a whole number from 0 to {highest}")
        if type(self.open_membership) is not bool:
            raise ValueError("open_membership must be true or false")


def deploy(
    network: Network,
    deployer: LocalAccount,
    coordinator: str,
    settings: Settings,
    open_membership: bool = True,
    admin: str | None = None,
    activation_delay: int = 1,
) -> Deployment:
    """Create registry and ledger, each of which names the other.

    Parameters
    ----------
    deployer : LocalAccount
        Pays; has no rights afterwards.
    admin : str, optional
        Approves members where membership is not open; by default the deployer.

    Raises
    ------
    ChainError
        The chain refused a transaction; the error says why.
    """
    sender = network.sender(deployer)
    admin = to_checksum_address(admin or deployer.address)
    ledger = _created_address(deployer.address, sender.next_nonce() + 1)
    terms = (open_membership, admin, ledger, activation_delay)
    registry = sender.transact(None, creation("ClientRegistry", terms), REGISTRY_GAS)
    arguments = (registry.contract, coordinator, astuple(settings))
    created = sender.transact(None, creation("TrainingLedger", arguments), LEDGER_GAS)
    if created.contract != ledger:
        raise ChainError("Another transaction of the deployer came between registry and ledger; deploy again.")
    return read_deployment(network, ledger, registry.block)


def read_deployment(network: Network, ledger: str, first_block: int | None = None) -> Deployment:
    """What the contracts themselves say of a federation, given the ledger's address.

    ``first_block`` spares the search for the first record.

    Raises
    ------
    ConnectionFailed
        No ledger answers at the address.
    """
    ledger = to_checksum_address(ledger)
    book = Contract(network, "TrainingLedger", ledger)
    registry = to_checksum_address(book.call("registry"))
    members = Contract(network, "ClientRegistry", registry)
    if first_block is None:
        first_block = _first_record(network, registry, ledger)
    return Deployment(
        chain_id=network.chain_id,
        registry=registry,
        ledger=ledger,
        block=first_block,
        coordinator=to_checksum_address(book.call("coordinator")),
        admin=to_checksum_address(members.call("admin")),
        open_membership=members.call("openMembership"),
        activation_delay=members.call("activationDelay"),
        settings=Settings(*book.call("settings")),
    )


def verify_code(network: Network, deployment: Deployment) -> None:
    """Check that both contracts run the code that this package ships, whatever their immutables.

    Raises
    ------
    WrongChain
        The network is not the deployment's.
    WrongCode
        A contract's code differs, so nothing that its records claim was checked.
    """
    if network.chain_id != deployment.chain_id:
        raise WrongChain(f"The federation is on chain {deployment.chain_id}, the node serves {network.chain_id}.")
    for name, address in (("ClientRegistry", deployment.registry), ("TrainingLedger", deployment.ledger)):
        shipped = artifact(name)
        references = [place for places in shipped["immutableReferences"].values() for place in places]
        expected = _masked(bytes.fromhex(shipped["deployedBytecode"][2:]), references)
        if _masked(network.code(address), references) != expected:
            raise WrongCode(
                f"The code at {address} is not the {name} that this version ships; do not trust it, or use its version."
            )
    told = read_deployment(network, deployment.ledger, deployment.block)
    if told != deployment:
        raise WrongCode(f"The ledger at {deployment.ledger} states other terms than its description; read them anew.")


def _masked(code: bytes, references: list[dict[str, int]]) -> bytes:
    masked = bytearray(code)
    for place in references:
        if place["start"] + place["length"] <= len(masked):
            masked[place["start"] : place["start"] + place["length"]] = bytes(place["length"])
    return bytes(masked)


def _created_address(sender: str, nonce: int) -> str:
    return to_checksum_address(keccak(rlp.encode([to_canonical_address(sender), nonce]))[12:])


def _first_record(network: Network, registry: str, ledger: str) -> int:
    """The block of the first record, or the latest block when there is none."""
    latest = network.block_number()
    logs: list[Any] = network.logs(0, latest, (registry, ledger))
    return logs[0].at.block if logs else latest
