"""Errors of the chain, as typed exceptions whose message is one sentence that says what to do."""

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from eth_abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils import keccak

from fedgrove.common.errors import Error


class ChainError(Error):
    """Base of all errors of this package that a user can act on."""


class ConnectionFailed(ChainError):
    """The node does not answer, or answers what it must not."""


class WrongChain(ChainError):
    """The node serves another chain than the one expected."""


class TransactionRefused(ChainError):
    """The node did not take a transaction, for a reason other than funds."""


class NonceConflict(TransactionRefused):
    """Another transaction of the account took the nonce."""


class Underpriced(TransactionRefused):
    """The node wants higher fees, or its pool holds a transaction of the same nonce that pays as much."""


class FeeAboveCap(ChainError):
    """The chain asks for higher fees than this node may pay."""


class InsufficientFunds(ChainError):
    """The account cannot pay for a transaction."""


class BadHistory(ChainError):
    """Blocks that contradict themselves; ``block`` is the first bad one (None: a file's head), ``what`` the fault."""

    def __init__(self, block: int | None, what: str) -> None:
        place = "The history" if block is None else f"Block {block} of the history"
        super().__init__(f"{place} does not hold: {what}; get it again from a node that you trust.")
        self.block = block
        self.what = what


class ContractRevert(ChainError):
    """A contract refused a transaction.

    Attributes
    ----------
    name : str
        Name of the Solidity error; empty when the contract gave no reason that the shipped ABIs know.
    arguments : mapping
        Its parameters by their Solidity names.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.arguments = dict(arguments or {})
        super().__init__(_sentence(name, self.arguments))


_PHASES = (
    "none", "seeding", "draw", "seal", "share", "commit", "vouch", "affirm", "recover",
    "closed", "skipped", "failed", "overdue", "voided",
)  # fmt: skip

_SENTENCES = {
    # registry
    "AlreadyRegistered": "Account {account} is already client {client}, with other keys; rotate the keys instead.",
    "NotRegistered": "Account {account} is not registered; run `fedgrove register` first.",
    "KeyTaken": "This VRF key belongs or belonged to account {owner}; make a fresh one with `fedgrove keys rotate`.",
    "NotOnCurve": "The VRF public key is not a point on secp256k1; make a fresh one with `fedgrove keys rotate`.",
    "ZeroMailboxKey": "The mailbox key is zero; make a fresh one with `fedgrove keys rotate`.",
    "NotAdmin": "Account {caller} is not the federation's admin; ask the admin to do this.",
    "MembershipIsOpen": "Membership of this federation is open to all; there is nothing to approve or revoke.",
    "MembersFixed": "Its first round fixed the members of this federation; deploy one that continues it with others.",
    "WrongAdmin": "Admin {admin} does not go with membership {membership}; name one exactly where it is approved.",
    "ZeroAddress": "The {parameter} address must not be zero; give a valid address.",
    "ActivationDelayOutOfRange": "An activation delay of {blocks} blocks is out of range; give 1 to 2^32 - 1.",
    # deployment
    "ZeroCoordinator": "The coordinator's address must not be zero; give a valid address.",
    "WrongRegistry": "Registry {registry} serves ledger {itsLedger}; deploy the registry and the ledger together.",
    "RatesInvalid": "Rate {index} is out of range or order; give rates from 1 to 1,000,000, ordered by round from 1.",
    "SettingOutOfRange": "The setting {setting} must not be {value}; choose another value.",
    # rounds
    "WrongPhase": "Round {round} is in phase {current}, this needs phase {required}; wait for it or a new round.",
    "WrongModel": "The round must start from the model in force; open it with digest {currentModel}.",
    "ZeroDigest": "The digest of a model in round {round} must not be zero; store the model and give its digest.",
    "FederationOver": (
        "The federation is over: {closed} rounds closed, {failed} failed; deploy one that continues it to go on."
    ),
    "RoundEnded": "Round {round} is not running (phase {current}); act in the current round.",
    "RoundRunning": "Round {round} is still running (phase {current}); wait until it has ended.",
    "DrawStillOpen": "Clients can draw in round {round} until block {drawEnd}; wait for the block after.",
    "QuorumReached": "Round {round} has {drawn} clients, which is the quorum of {quorum}; seal it instead.",
    "QuorumMissed": "Round {round} has {drawn} clients and needs {quorum}; skip it instead.",
    "NotBarred": "Account {account} may draw in round {round}; leave it out of the barred ones.",
    "BarredNotAscending": "Account {account} is out of order; sort the barred accounts by address.",
    "MembersUnchanged": (
        "Round {round} waits for its quorum, and no member changed since it opened; wait for those who are absent."
    ),
    "CommitsMissing": "Only {committed} of {drawn} clients are left in round {round}; let it fail instead.",
    "ReleasesMissing": "Round {round} has released shares of {released} clients, {required} are needed; wait for more.",
    "ReleasesListed": "Shares of {released} clients are listed in round {round}; judge its closing instead.",
    "OnlyNothing": "Before round {round} is closed only zeros are a judgement; wait for its closing.",
    "NotJudgeable": "The closing of round {round} cannot be judged; only that of round {standing} can be (0: none).",
    # callers
    "IsStruck": "A closing of account {account} was replaced, so it may not open, skip or close a round any more.",
    "NotDirect": "Account {caller} did not send the transaction itself, or runs code; use a plain account.",
    "OnlyCoordinator": "Only the coordinator may do this until block {until}; wait for the block after.",
    "NotActiveClient": "Account {account} is not an active client; register and wait until it is active.",
    "NotDrawn": "Account {account} was not drawn in round {round}; wait for the next round.",
    "NotShared": "Client {client} has not shared in round {round}, so it cannot commit; wait for the next round.",
    "AlreadyShared": "Client {client} has already shared in round {round}; go on with the next step.",
    "AlreadyCommitted": "Client {client} has already committed in round {round}; go on with the next step.",
    "AlreadyReleased": "Client {client} has already released its shares in round {round}; go on with the next step.",
    "NotCommitted": "Account {account} did not commit in round {round}; only those who did go on with it.",
    "AlreadyJudged": "Client {client} has already judged round {round}; wait for the other clients.",
    # bounds
    "AlreadyVouched": "Client {client} has already vouched in round {round}; go on with the next step.",
    "AlreadyAffirmed": "Client {client} has already affirmed in round {round}; go on with the next step.",
    "RevealsUsedUp": "Client {client} may not reveal more often in round {round}; put more points into one record.",
    "SketchBlockNotPast": "The sketch of round {round} comes from block {sketchBlock}; wait for the block after.",
    "WrongBlockHash": "The sketch of round {round} comes from block hash {known} here; read the ledger again.",
    "StageNotOpen": "Stage {stage} of round {round} takes no shares of this client; read the ledger again.",
    # draws
    "SeedFixedAlready": "The seed of round {round} is already fixed; go on with the next step.",
    "SeedBlockNotPast": "The seed of round {round} comes from block {seedBlock}; wait for the block after.",
    "BlockHashUnavailable": "The hash of block {number} is no longer available; let round {round} fail.",
    "BlockHashDisputed": "The chain gives two hashes for block {number}, so nobody can use it; let round {round} fail.",
    "AccountNotRegistered": "Account {account} is not registered; run `fedgrove register` first.",
    "NotApproved": "Account {account} is not approved; ask the federation's admin.",
    "NotYetActive": (
        "Account {account} is active from block {activeFrom}, after the opening in {openedAt}; wait for the next round."
    ),
    "ListedAsIdle": "Client {client} was idle when round {round} opened; wait for the next round.",
    "HasLeft": "Account {account} took back all its data and left for good; register another account to take part.",
    "KeyMismatch": "This is not the VRF key that {account} registered; use the registered key or rotate it.",
    "AlreadyDrawn": "Client {client} has already drawn in round {round}; go on with the next step.",
    "RoundFull": "Round {round} is full with {maxClients} clients; wait for the next round.",
    "SamplesOutOfRange": "A sample count of {samples} is out of range; give 1 to {maxSamples}.",
    "NotSelected": "This client is not in the round's sample; wait for the next round.",
    "BadSignature": "The signature under the draw of {account} is not valid; sign it again.",
    "DrawNotChecked": "The gas did not suffice to check the draw of {account}; send it again.",
    # order
    "OrderBlockNotPast": "The order of round {round} comes from block {orderBlock}; wait for the block after.",
    "WrongHeader": "The header is not that of block {orderBlock}, which orders round {round}; give that header.",
    "HeaderTooShort": "A header of {length} bytes is cut off; give the whole header.",
    "MixMissing": "There is no RANDAO mix at byte {place} of the header; deploy the federation without randao.",
    "WrongTickets": "The tickets are not those drawn in round {round}; give all of them in the order of their draws.",
    "TicketBytesInvalid": "The round cannot take {length} bytes of tickets; give 16 bytes for each drawn client.",
    "UnknownTicket": "Ticket {ticket} was not drawn in round {round}; give the drawn tickets only.",
    "TicketsNotAscending": "Ticket {ticket} at position {position} comes too early; sort the tickets by their keys.",
    "PermutationIndexOutOfRange": "The permutation holds {index} at position {position}; give each index once.",
    "LengthMismatch": "The permutation has {given} bytes instead of {expected}; give one index for each ticket.",
}


def _sentence(name: str, arguments: Mapping[str, Any]) -> str:
    if not name:
        return "The contract refused the transaction without a reason; check the gas limit and the address."
    shown = {key: _shown(key, value) for key, value in arguments.items()}
    template = _SENTENCES.get(name)
    if template is not None:
        return template.format(**shown)
    listed = ", ".join(f"{key} = {value}" for key, value in shown.items())
    return f"The contract refused the transaction with {name}({listed}); correct that and send it again."


def _shown(key: str, value: Any) -> str:
    if key in ("current", "required") and isinstance(value, int) and value < len(_PHASES):
        return _PHASES[value]
    if isinstance(value, bytes):
        text = value.rstrip(b"\0")
        # Names of settings come as ASCII in a bytes32; everything else is a digest.
        return text.decode() if text and text.isascii() and text.isalpha() else "0x" + value.hex()
    return str(value)


@functools.cache
def artifact(name: str) -> dict[str, Any]:
    """A shipped contract: ABI, bytecode, deployed bytecode, immutable references. ``name`` is the contract's."""
    file = resources.files("fedgrove.chain.artifacts") / f"{name}.json"
    return json.loads(file.read_text("utf-8"))


@functools.cache
def _errors() -> dict[bytes, tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Selector → error name, parameter types, parameter names, from the shipped ABIs."""
    table = {}
    for contract in ("ClientRegistry", "TrainingLedger"):
        for item in artifact(contract)["abi"]:
            if item["type"] == "error":
                types = tuple(parameter["type"] for parameter in item["inputs"])
                names = tuple(parameter["name"] for parameter in item["inputs"])
                table[keccak(text=f"{item['name']}({','.join(types)})")[:4]] = (item["name"], types, names)
    return table


def decode_revert(data: bytes) -> ContractRevert:
    """The error in a call's revert data; one without a name when the data holds none of the contracts' errors."""
    known = _errors().get(data[:4])
    if known is None:
        return ContractRevert("")
    name, types, names = known
    try:
        values = decode(types, data[4:])
    except DecodingError:
        return ContractRevert("")
    return ContractRevert(name, dict(zip(names, values, strict=True)))


def error_name(selector: bytes) -> str:
    """The name behind a 4-byte selector, as in ``DrawRejected.reason``; empty when unknown."""
    known = _errors().get(selector)
    return known[0] if known else ""
