"""Founding a federation on a chain, finding one, and checking that its contracts run the shipped code."""

from dataclasses import replace

from eth_utils import to_checksum_address

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.errors import ChainError, WrongChain
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records.deployment import (
    Deployment,
    LedgerSettings,
    Terms,
    created_address,
    creation_data,
    deployed_code,
)
from fedgrove.common.errors import InvalidInput

REGISTRY_GAS = 4_000_000
LEDGER_GAS = 10_000_000


def deploy(
    network: Network,
    deployer: Account,
    coordinator: str,
    settings: LedgerSettings,
    terms: Terms,
    open_membership: bool = True,
    admin: str | None = None,
    activation_delay: int = 1,
) -> Deployment:
    """Create registry and ledger, each of which names the other.

    Parameters
    ----------
    deployer : Account
        Pays; has no rights afterwards.
    admin : str, optional
        Approves members where membership is not open; by default the deployer.

    Raises
    ------
    ChainError
        The chain refused a transaction; the error says why.
    """
    sender = sender_of(network, deployer)
    admin = to_checksum_address(admin or deployer.address)
    nonce = sender.next_nonce()
    founded = Deployment(
        chain_id=network.chain_id,
        registry=created_address(deployer.address, nonce),
        ledger=created_address(deployer.address, nonce + 1),
        block=0,
        coordinator=to_checksum_address(coordinator),
        admin=admin,
        open_membership=open_membership,
        activation_delay=activation_delay,
        settings=settings,
        terms=terms,
    )
    registry = sender.transact(None, creation_data("ClientRegistry", founded), REGISTRY_GAS)
    ledger = sender.transact(None, creation_data("TrainingLedger", founded), LEDGER_GAS)
    if (registry.contract, ledger.contract) != (founded.registry, founded.ledger):
        raise ChainError("Another transaction of the deployer came between the registry and the ledger; deploy again.")
    return replace(founded, block=registry.block)


def read_deployment(network: Network, ledger: str, first_block: int | None = None) -> Deployment:
    """Read a federation's description from its contracts, given the ledger's address.

    ``first_block`` spares the search for the first record.

    Raises ConnectionFailed: no ledger answers at the address.
    """
    ledger = to_checksum_address(ledger)
    book = Contract(network, "TrainingLedger", ledger)
    registry = to_checksum_address(book.call("registry"))
    members = Contract(network, "ClientRegistry", registry)
    if first_block is None:
        first_block = _first_record(network, registry, ledger)
    *settings, rounds, repeats = book.call("settings")
    config, model, rates = book.call("terms")
    try:
        return Deployment(
            chain_id=network.chain_id,
            registry=registry,
            ledger=ledger,
            block=first_block,
            coordinator=to_checksum_address(book.call("coordinator")),
            admin=to_checksum_address(members.call("admin")),
            open_membership=members.call("openMembership"),
            activation_delay=members.call("activationDelay"),
            settings=LedgerSettings(*settings),
            terms=Terms(config.hex(), model.hex(), tuple(map(tuple, rates)), rounds, repeats),
        )
    except InvalidInput as fault:
        raise WrongChain(
            f"The contract at {ledger} states terms that a fedgrove ledger cannot have: {fault}."
        ) from None


def verify_code(network: Network, deployment: Deployment) -> None:
    """Check that both contracts run the code that this package ships, with these terms in every place of it.

    The code on the chain must be the shipped code with the values of the immutables filled in, byte for byte: where a
    value stands in several places, a contract could state one of them and act by another.

    Raises
    ------
    WrongChain
        The network is not the deployment's.
    WrongChain
        A contract's code differs, so nothing that its records claim was checked.
    """
    if network.chain_id != deployment.chain_id:
        raise WrongChain(
            f"The federation is on chain {deployment.chain_id}, but the node serves chain {network.chain_id}."
        )
    for name, address in deployment.contracts.items():
        if network.code(address) != deployed_code(name, deployment):
            raise WrongChain(
                f"The code at {address} is not the {name} that this version ships, with the terms of the federation; "
                "do not trust it, or use the version that deployed it."
            )
    found = read_deployment(network, deployment.ledger, deployment.block)
    if found != deployment:
        raise WrongChain(
            f"The terms of the ledger at {deployment.ledger} differ from its description; read them again."
        )


def _first_record(network: Network, registry: str, ledger: str) -> int:
    """The block of the first record, or the latest block when there is none."""
    latest = network.block_number()
    logs = network.logs(0, latest, (registry, ledger))
    return logs[0].at.block if logs else latest
