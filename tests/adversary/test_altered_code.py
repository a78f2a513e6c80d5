"""Whoever founds a federation deploys a ledger that states one coordinator and obeys another.

An immutable of Solidity stands in the code at each place where it is read. The founder puts the account that everybody
agreed on where the getter reads it, and its own where ``open``, ``recover`` and ``close`` do. A check of the code that
passes over the places of immutables sees nothing. What stops it: the code is compared with the shipped one, all values
filled in, and readers want the very transaction that creates the shipped contract.
"""

import pytest
from eth_utils import keccak, to_canonical_address, to_checksum_address

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import BadHistory, ContractRevert, WrongChain, artifact
from fedgrove.chain.face import founding
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.founding import LEDGER_GAS, REGISTRY_GAS, deploy, verify_code
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records.deployment import Deployment, created_address, creation_data, deployed_code
from fedgrove.node.protocol.ledger_view import LedgerView
from tests.chain.federations import MODEL, SETTINGS, TERMS
from tests.embedded_evm import py_evm

WORD = 32
SLOTS = 16
"""More than the constructor writes, beside the list of rates, which lies behind the hash of its slot."""


@pytest.fixture
def network():
    with py_evm() as running:
        yield running


@pytest.fixture
def agreed(network):
    """The coordinator whom all agreed on."""
    return funded(network)


@pytest.fixture
def founder(network):
    return funded(network)


def funded(network) -> Keys:
    keys = Keys.generate()
    network.fund(keys.address, 10)
    return keys


# --- the attack -------------------------------------------------------------------------------------------------------


def found_altered(network, founder: Keys, agreed: Keys) -> Deployment:
    """A federation whose ledger states ``agreed`` as its coordinator, and obeys the founder."""
    genuine = deploy(network, founder.account, agreed.address, SETTINGS, TERMS)
    nonce, block = network.nonce(founder.address), network.block_number() + 1
    addresses = [created_address(founder.address, each) for each in (nonce, nonce + 1)]
    accounts = (founder.address, agreed.address, founder.address, "approved", ())
    told = Deployment(network.chain_id, *addresses, block, *accounts, 1, SETTINGS, TERMS)
    code = altered_code(network, told, founder)
    sender = sender_of(network, founder.account)
    sender.transact(None, creation_data("ClientRegistry", told), REGISTRY_GAS)
    made = sender.transact(None, creation(code, storage(network, genuine.ledger)), LEDGER_GAS)
    assert (made.succeeded, made.contract) == (True, told.ledger)
    return told


def altered_code(network, told: Deployment, thief: Keys) -> bytes:
    """The shipped code with the thief in every place of the coordinator but the getter's."""
    code = bytearray(deployed_code("TrainingLedger", told))
    for place in artifact("TrainingLedger")["immutableReferences"]["coordinator"]:
        span = slice(place["start"], place["start"] + WORD)
        before = code[span]
        code[span] = to_canonical_address(thief.address).rjust(WORD, b"\0")
        # Another account tries it out, so that the thief's next contracts stay where they are to be.
        trial = sender_of(network, funded(network).account).transact(None, creation(bytes(code), {}), LEDGER_GAS)
        if stated(network, trial.contract) != told.coordinator:
            code[span] = before
    return bytes(code)


def stated(network, ledger: str) -> str:
    """The coordinator that a ledger states."""
    return to_checksum_address(Contract(network, "TrainingLedger", ledger).call("coordinator"))


def storage(network, ledger: str) -> dict[int, int]:
    """What a constructor wrote."""
    state, address = network._backend.chain.get_vm().state, to_canonical_address(ledger)
    lists = [int.from_bytes(keccak(slot.to_bytes(WORD, "big")), "big") for slot in range(SLOTS)]
    found = {slot: state.get_storage(address, slot) for slot in [*range(SLOTS), *lists]}
    return {slot: value for slot, value in found.items() if value}


def creation(code: bytes, slots: dict[int, int]) -> bytes:
    """Data of a transaction that creates a contract with this code and storage, and says that a ledger was founded."""
    push32, push2, sstore, log1, codecopy, give = b"\x7f", b"\x61", b"\x55", b"\xa1", b"\x39", b"\xf3"
    words = [(slot.to_bytes(WORD, "big"), value.to_bytes(WORD, "big")) for slot, value in slots.items()]
    writes = b"".join(push32 + value + push32 + slot + sstore for slot, value in words)
    log = push32 + keccak(text="LedgerFounded()") + b"\x5f\x5f" + log1
    size = push2 + len(code).to_bytes(2, "big")
    end = len(writes) + len(log) + 2 * len(size) + 3 + 1 + 1 + 1 + 1
    copy = size + push2 + end.to_bytes(2, "big") + b"\x5f" + codecopy + size + b"\x5f" + give
    return writes + log + copy + code


def rules(network, told: Deployment, thief: Keys, agreed: Keys) -> bool:
    """Whether the ledger obeys the thief, and not the coordinator that it states."""
    assert stated(network, told.ledger) == agreed.address
    with pytest.raises(ContractRevert) as refusal:
        Ledger(network, told, agreed.account).open(MODEL)
    Ledger(network, told, thief.account).open(MODEL)
    return refusal.value.name == "OnlyCoordinator"


def masked_code(name: str, deployment: Deployment) -> bytes:
    """The shipped code as it was compared before: the places of immutables are passed over."""
    return masked(name, bytes.fromhex(artifact(name)["deployedBytecode"][2:]))


def masked(name: str, code: bytes) -> bytes:
    found = bytearray(code)
    for places in artifact(name)["immutableReferences"].values():
        for place in places:
            found[place["start"] : place["start"] + place["length"]] = bytes(place["length"])
    return bytes(found)


def mask_the_places(monkeypatch, network, told: Deployment) -> None:
    """The mutant: both codes are compared with the places of immutables masked, and nobody looks at their creation."""
    names = {address: name for name, address in told.contracts.items()}
    code = network.code
    monkeypatch.setattr(founding, "deployed_code", masked_code)
    monkeypatch.setattr(founding, "read_deployment", lambda *where: told)
    monkeypatch.setattr(network, "code", lambda address: masked(names[address], code(address)))


# --- what stops it ----------------------------------------------------------------------------------------------------


def test_the_altered_ledger_is_refused(network, founder, agreed):
    told = found_altered(network, founder, agreed)
    with pytest.raises(WrongChain, match="TrainingLedger"):
        verify_code(network, told)


def test_nobody_who_reads_its_records_follows_it(network, founder, agreed):
    told = found_altered(network, founder, agreed)
    with pytest.raises(BadHistory, match="does not create the"):
        LedgerView(Ledger(network, told)).refresh()


@pytest.mark.mutants
def test_a_check_that_passes_over_immutables_lets_the_thief_rule(network, founder, agreed, monkeypatch):
    told = found_altered(network, founder, agreed)
    mask_the_places(monkeypatch, network, told)
    verify_code(network, told)
    assert rules(network, told, founder, agreed)


@pytest.mark.parametrize("contract", ["ClientRegistry", "TrainingLedger"])
def test_no_place_of_any_immutable_can_differ(network, agreed, founder, contract, monkeypatch):
    told = deploy(network, founder.account, agreed.address, SETTINGS, TERMS)
    verify_code(network, told)
    address = told.contracts[contract]
    genuine, code = network.code, network.code(address)
    for name, places in artifact(contract)["immutableReferences"].items():
        for place in places:
            changed = bytearray(code)
            changed[place["start"] + place["length"] - 1] ^= 1
            monkeypatch.setattr(
                network, "code", lambda asked, changed=bytes(changed): changed if asked == address else genuine(asked)
            )
            with pytest.raises(WrongChain, match=contract):
                verify_code(network, told)
            assert name
