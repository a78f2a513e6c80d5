"""Founding a federation on a chain, finding one, and checking that its contracts run the shipped code."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eth_utils import to_checksum_address

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.errors import ChainError, WrongChain
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.ledger import APPROVE_GAS_PER_ACCOUNT, MAX_APPROVED, Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records.abi import created_with
from fedgrove.chain.records.deployment import (
    MEMBERSHIPS,
    MOST_NAMED,
    Deployment,
    LedgerSettings,
    Membership,
    Terms,
    created_address,
    creation_data,
    deployed_code,
)
from fedgrove.chain.records.signed_transactions import decode_transaction
from fedgrove.common.errors import InvalidInput

REGISTRY_GAS = 4_000_000
LEDGER_GAS = 10_000_000
NOBODY = "0x" + 40 * "0"
_SOON = 1_000  # blocks after the registry's in which the ledger's creation is looked for first


def deploy(
    network: Network,
    deployer: Account,
    coordinator: str,
    settings: LedgerSettings,
    terms: Terms,
    members: Sequence[str] = (),
    membership: Membership = "named",
    admin: str | None = None,
    activation_delay: int = 1,
) -> Deployment:
    """Create registry and ledger, each of which names the other.

    Parameters
    ----------
    deployer : Account
        Pays; has no rights afterwards, but that it can name further members before the first round.
    members : sequence of str
        Checksummed addresses of who may take part; none where membership is open.
    admin : str, optional
        Approves members where membership is approved; by default the deployer.

    Raises
    ------
    ChainError
        The chain refused a transaction; the error says why.
    """
    sender = sender_of(network, deployer)
    nonce = sender.next_nonce()
    founded = Deployment(
        chain_id=network.chain_id,
        registry=created_address(deployer.address, nonce),
        ledger=created_address(deployer.address, nonce + 1),
        block=0,
        founder=deployer.address,
        coordinator=to_checksum_address(coordinator),
        admin=to_checksum_address(admin or deployer.address) if membership == "approved" else NOBODY,
        membership=membership,
        members=tuple(members[:MOST_NAMED]),
        activation_delay=activation_delay,
        settings=settings,
        terms=terms,
    )
    gas = REGISTRY_GAS + APPROVE_GAS_PER_ACCOUNT * len(founded.members)
    registry = sender.transact(None, creation_data("ClientRegistry", founded), gas)
    ledger = sender.transact(None, creation_data("TrainingLedger", founded), LEDGER_GAS)
    if (registry.contract, ledger.contract) != (founded.registry, founded.ledger):
        raise ChainError("Another transaction of the deployer came between the registry and the ledger; deploy again.")
    founded = replace(founded, block=registry.block)
    ledger_of_founder = Ledger(network, founded, deployer)
    for start in range(MOST_NAMED, len(members), MAX_APPROVED):
        ledger_of_founder.approve(*members[start : start + MAX_APPROVED])
    return founded


def read_deployment(network: Network, ledger: str, first_block: int | None = None) -> Deployment:
    """Read a federation's description from the transactions that created its contracts, given the ledger's address.

    ``first_block`` spares the search for the first record.

    Raises ConnectionFailed: no ledger answers at the address.
    """
    ledger = to_checksum_address(ledger)
    registry = to_checksum_address(Contract(network, "TrainingLedger", ledger).call("registry"))
    try:
        block, founder, members = _creation(network, "ClientRegistry", registry, first_block)
        _, _, rounds = _creation(network, "TrainingLedger", ledger, block)
        mode, admin, _, activation_delay, named = members
        membership: Membership = MEMBERSHIPS[int(mode)]
        _, coordinator, (*settings, count, repeats), (config, model, rates) = rounds
        return Deployment(
            chain_id=network.chain_id,
            registry=registry,
            ledger=ledger,
            block=block,
            founder=founder,
            coordinator=to_checksum_address(coordinator),
            admin=to_checksum_address(admin),
            membership=membership,
            members=tuple(map(to_checksum_address, named)),
            activation_delay=activation_delay,
            settings=LedgerSettings(*settings),
            terms=Terms(config.hex(), model.hex(), tuple(map(tuple, rates)), count, repeats),
        )
    except InvalidInput as fault:
        raise WrongChain(
            f"The contract at {ledger} states terms that a fedgrove ledger cannot have: {fault}."
        ) from None


def _creation(
    network: Network, contract: str, address: str, first_block: int | None
) -> tuple[int, str, tuple[Any, ...]]:
    """Block and author of the transaction that created a contract, and the constructor's arguments in it."""
    latest = network.block_number()
    first = first_block or 0
    for last in sorted({min(first + _SOON, latest), latest}):
        log = next(iter(network.logs(first, last, (address,))), None)
        if log is not None:
            break
    else:
        raise WrongChain(f"No transaction created the contract at {address}; check the address and the chain.")
    transaction = decode_transaction(network.signed_transaction(log.at.transaction))
    if created_address(transaction.sender, transaction.nonce) != address:
        raise WrongChain(f"The first record of the contract at {address} is not of its creation; do not trust it.")
    return log.at.block, transaction.sender, created_with(contract, transaction.data)


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
