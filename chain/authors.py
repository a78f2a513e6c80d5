"""The account that answers for a record, and the check of the record against its transaction.

The contracts take direct calls of plain accounts only (``contracts/DirectCalls.sol``), so the calldata of a record's
transaction holds the record's content, under its author's signature. What the calldata alone cannot show (that an
account is the client that a record names, that a phase was open) is for ``node.protocol.ledger_rules``.
"""

import re
from collections.abc import Sequence
from typing import Any

from fedgrove.chain import tree
from fedgrove.chain.abi import functions
from fedgrove.chain.calldata import WORD, byte_argument, list_length
from fedgrove.chain.deployment import Deployment, created_address, creation_data
from fedgrove.chain.draws import SignedDraw, batched_draw, batched_draws, is_signed
from fedgrove.chain.records import (
    AbsenceRecorded,
    Approved,
    Closed,
    CommitEnded,
    Committed,
    Disputed,
    DrawEnded,
    Drawn,
    DrawRejected,
    Failed,
    FailureReason,
    LedgerFounded,
    MailboxKeyRotated,
    Record,
    Recovered,
    Registered,
    RegistryFounded,
    Released,
    Revoked,
    RoundOpened,
    SealChunk,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
    Voided,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.signed_transactions import SignedTransaction

_REGISTRY = (Registered, Approved, Revoked, VrfKeyRotated, MailboxKeyRotated, Withdrawn)
_FUNCTIONS: dict[type[Record], tuple[str, ...]] = {
    Registered: ("register",),
    Approved: ("approve",),
    Revoked: ("revoke",),
    VrfKeyRotated: ("rotateVrfKey",),
    MailboxKeyRotated: ("rotateMailboxKey",),
    Withdrawn: ("withdraw",),
    AbsenceRecorded: ("reportAbsences",),
    RoundOpened: ("open",),
    SeedFixed: ("fixSeed", "draw", "drawBatch"),
    Drawn: ("draw", "drawBatch"),
    DrawRejected: ("drawBatch",),
    DrawEnded: ("draw", "drawBatch"),
    Sealed: ("seal", "sealChunk"),
    SealChunk: ("sealChunk",),
    Skipped: ("skip",),
    Shared: ("share",),
    ShareEnded: ("share",),
    Committed: ("commit",),
    CommitEnded: ("commit",),
    Released: ("release",),
    Recovered: ("recover",),
    Closed: ("close",),
    Failed: ("fail",),
    Disputed: ("disputeRound",),
    Voided: ("disputeRound",),
}
"""The functions whose calls leave a record."""

_LEAVES = {
    "draw": "(SeedFixed )?Drawn (DrawEnded )?",
    "drawBatch": "(SeedFixed )?((Drawn|DrawRejected) )*(DrawEnded )?(DrawRejected )*",
    "share": "Shared (ShareEnded )?",
    "commit": "Committed (CommitEnded )?",
    "sealChunk": "SealChunk (Sealed )?",
    "disputeRound": "Disputed (Voided ){0,2}",
    "reportAbsences": "(AbsenceRecorded )*",
    "register": "(Registered )?",
    "approve": "(Approved )?",
    "revoke": "(Revoked )?",
}
"""What a call that took effect leaves where that is not one record: nothing where it changed nothing."""


def author_of(record: Record, transaction: SignedTransaction, deployment: Deployment, item: int = 0) -> str:
    """The account that answers for a record: the transaction's sender, or who signed a draw in a batch.

    Parameters
    ----------
    item : int
        How many draws, taken or rejected, the same transaction recorded before this one. A batch records its items in
        their order, each once. Whoever hands a batch in can put copies of a draw under other accounts next to it.

    Raises
    ------
    ValueError
        The transaction does not imply the record; the message says why.
    """
    if isinstance(record, RegistryFounded | LedgerFounded):
        return _founder(record, transaction, deployment)
    contract = "ClientRegistry" if isinstance(record, _REGISTRY) else "TrainingLedger"
    target = deployment.registry if contract == "ClientRegistry" else deployment.ledger
    if transaction.to != target:
        raise ValueError("it calls another contract")
    name, words = _call(contract, transaction.data)
    if name not in _FUNCTIONS[type(record)]:
        raise ValueError(f"it calls {name or 'no function of the contract'}")
    if name == "drawBatch" and isinstance(record, Drawn | DrawRejected):
        return _batched(record, batched_draw(transaction.data, item), transaction, deployment)
    if not _says(record, words, transaction.sender):
        raise ValueError("its calldata differs from the record")
    if isinstance(record, RoundOpened) and list_length(transaction.data, 1) != record.barred:
        raise ValueError("its calldata names another number of barred clients")
    if name == "seal" and isinstance(record, Sealed) and not _orders(record, transaction.data):
        raise ValueError("its calldata gives a different order")
    return transaction.sender


def incomplete(transaction: SignedTransaction, kinds: Sequence[type[Record]], deployment: Deployment) -> str:
    """In what records of these kinds are not all that a transaction left that took effect, in a sentence; or empty."""
    contract = {deployment.registry: "ClientRegistry", deployment.ledger: "TrainingLedger"}.get(transaction.to or "")
    name = _call(contract, transaction.data)[0] if contract else ""
    own = next((kind.__name__ for kind, names in _FUNCTIONS.items() if names[0] == name), "")
    expected = _LEAVES.get(name, f"{own} " if own else "")
    if transaction.to is None:
        name, expected = "a constructor", "(RegistryFounded |LedgerFounded )?"
    if not re.fullmatch(expected, "".join(f"{kind.__name__} " for kind in kinds)):
        return f"a transaction that took effect did not leave the records of a call of {name or 'another contract'}"
    if name == "drawBatch" and sum(kind in (Drawn, DrawRejected) for kind in kinds) != batched_draws(transaction.data):
        return "a batch did not leave a record of each draw"
    return ""


def _founder(record: Record, transaction: SignedTransaction, deployment: Deployment) -> str:
    contract = "ClientRegistry" if isinstance(record, RegistryFounded) else "TrainingLedger"
    address = deployment.registry if contract == "ClientRegistry" else deployment.ledger
    if transaction.to is not None or created_address(transaction.sender, transaction.nonce) != address:
        raise ValueError("it does not create the contract")
    if transaction.data != creation_data(contract, deployment):
        raise ValueError(f"it does not create the {contract} of this version with these terms")
    return transaction.sender


def _call(contract: str, data: bytes) -> tuple[str, Sequence[bytes]]:
    """Name of the function, empty for none of the contract's, and the first words of its arguments.

    Static arguments come first in every function that leaves records, so that no offset has to be followed.
    """
    name = next((name for name, function in functions(contract).items() if function.selector == data[:4]), "")
    words = [data[start : start + WORD].ljust(WORD, b"\0") for start in range(4, 4 + 8 * WORD, WORD)]
    return name, words


def _says(record: Any, words: Sequence[bytes], sender: str) -> bool:
    """Whether calldata with these first words leaves this record."""
    number = [int.from_bytes(word, "big") for word in words]
    match record:
        case Registered():
            keys = (record.vrf_x, record.vrf_y, record.mailbox_key)
            return sender == record.account and (number[0], number[1], words[2]) == keys
        case VrfKeyRotated():
            return sender == record.account and (number[0], number[1]) == (record.vrf_x, record.vrf_y)
        case MailboxKeyRotated():
            return sender == record.account and words[0] == record.mailbox_key
        case Withdrawn():
            return sender == record.account and (number[0], words[1]) == (record.points, record.digest)
        case Approved() | Revoked():
            return words[0][12:].hex() == record.account[2:].lower()
        case AbsenceRecorded():
            return True  # that the client was absent, and in which round, is for the rules
        case RoundOpened():
            return words[0] == record.model_digest
        case Drawn():
            drawn = (record.round, record.mask_key, record.seal_key, record.samples)
            return (number[0], words[3], words[4], number[5]) == drawn
        case Shared() | Released() | Recovered():
            return (number[0], words[1]) == (record.round, record.digest)
        case Committed():
            return (number[0], words[1], words[2]) == (record.round, record.digest, record.seed_hash)
        case Closed():
            return (number[0], words[1], words[2]) == (record.round, record.model_digest, record.metrics_digest)
        case Failed():
            reason = record.reason in (number[1], FailureReason.DEADLINE)
            return reason and (number[0], words[2]) == (record.round, record.evidence)
        case Disputed():
            return (number[0], words[1]) == (record.round, record.evidence)
        case Voided():
            return True  # a dispute voids the round that runs, too; which ones is for the rules
        case _:
            return number[0] == record.round


def _orders(record: Sealed, data: bytes) -> bool:
    """Whether the calldata of ``seal`` gives the order of a record: tickets of 16 bytes, and a permutation of them."""
    packed, permutation = byte_argument(data, 1), byte_argument(data, 2)
    tickets = [int.from_bytes(packed[start : start + 16], "big") for start in range(0, len(packed), 16)]
    indices = [int.from_bytes(permutation[start : start + 2], "big") for start in range(0, len(permutation), 2)]
    if not len(tickets) == len(indices) == record.drawn or any(index >= len(tickets) for index in indices):
        return False
    return tree.order_root([tickets[index] for index in indices]) == record.order_root


def _batched(
    record: Drawn | DrawRejected, item: SignedDraw, transaction: SignedTransaction, deployment: Deployment
) -> str:
    """The account that answers for an item of a batch: its signer if it was accepted, otherwise the sender."""
    _, words = _call("TrainingLedger", transaction.data)
    if int.from_bytes(words[0], "big") != record.round:
        raise ValueError("the batch is for another round")
    if isinstance(record, DrawRejected):
        if item.account != record.account:
            raise ValueError("its calldata names another account at this place")
        return transaction.sender
    content = (record.samples, record.mask_key, record.seal_key)
    if (item.samples, item.mask_key, item.seal_key) != content or not item.gives(record.proof):
        raise ValueError("its calldata holds another draw at this place")
    if not is_signed(item, deployment, record.round):
        raise ValueError("the draw at this place is not signed by its account")
    return item.account
