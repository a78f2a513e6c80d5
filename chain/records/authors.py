"""The account that answers for a record, and the check of the record against its transaction.

The contracts take direct calls of plain accounts only (``contracts/DirectCalls.sol``), so the calldata of a record's
transaction holds the record's content, under its author's signature. What the calldata alone cannot show (that an
account is the client that a record names, that a phase was open) is for ``node.protocol.law``.
"""

import re
from collections.abc import Sequence

from fedgrove.chain.records import KINDS, Approved, Call, Drawn, DrawRejected, FoundingRecord, Record
from fedgrove.chain.records.abi import functions
from fedgrove.chain.records.calldata import WORD
from fedgrove.chain.records.deployment import Deployment, created_address, creation_data
from fedgrove.chain.records.signed_draws import SignedDraw, batched_draw, batched_draws, is_signed
from fedgrove.chain.records.signed_transactions import SignedTransaction
from fedgrove.common.errors import InvalidContent

_LEAVES = {kind.CALLS[0]: f"{kind.__name__} " for kind in KINDS if kind.CALLS} | {
    name: expected for kind in KINDS for name, expected in kind.LEAVES.items()
}
"""By function, what a call that took effect leaves, as a regular expression over names of records."""


def author_of(record: Record, transaction: SignedTransaction, deployment: Deployment, item: int = 0) -> str:
    """The account that answers for a record: the transaction's sender, or who signed a draw in a batch.

    Parameters
    ----------
    item : int
        How many draws, taken or rejected, the same transaction recorded before this one. A batch records its items in
        their order, each once. Whoever hands a batch in can put copies of a draw under other accounts next to it.

    Raises
    ------
    InvalidContent
        The transaction does not imply the record; the message says why.
    """
    if isinstance(record, FoundingRecord):
        return _founder(record.CONTRACT, transaction, deployment)
    if isinstance(record, Approved) and transaction.to is None:  # those whom the founder names
        return _founder(record.CONTRACT, transaction, deployment)
    contract = record.CALLED or record.CONTRACT
    if transaction.to != deployment.contracts[contract]:
        raise InvalidContent("it calls another contract")
    call = _call(contract, transaction)
    if call.name not in record.CALLS:
        raise InvalidContent(f"it calls {call.name or 'no function of the contract'}")
    if call.name == "drawBatch" and isinstance(record, Drawn | DrawRejected):
        return _batched(record, batched_draw(transaction.data, item), call, deployment)
    if not record.follows_from(call):
        raise InvalidContent("its calldata differs from the record")
    return transaction.sender


def incomplete(transaction: SignedTransaction, kinds: Sequence[type[Record]], deployment: Deployment) -> str:
    """In what records of these kinds are not all that a transaction left that took effect, in a sentence; or empty."""
    contract = next((name for name, address in deployment.contracts.items() if address == transaction.to), "")
    name = _call(contract, transaction).name if contract else ""
    expected = _LEAVES.get(name, "")
    if transaction.to is None:
        name, expected = "a constructor", "(RegistryFounded (Approved )*|LedgerFounded )?"
    if not re.fullmatch(expected, "".join(f"{kind.__name__} " for kind in kinds)):
        return f"a transaction that took effect did not leave the records of a call of {name or 'another contract'}"
    if name == "drawBatch" and sum(kind in (Drawn, DrawRejected) for kind in kinds) != batched_draws(transaction.data):
        return "a batch did not leave a record of each draw"
    return ""


def _founder(contract: str, transaction: SignedTransaction, deployment: Deployment) -> str:
    created = created_address(transaction.sender, transaction.nonce)
    if transaction.to is not None or created != deployment.contracts[contract]:
        raise InvalidContent("it does not create the contract")
    if transaction.sender != deployment.founder:
        raise InvalidContent("it is not by the account that the history calls the founder")
    if transaction.data != creation_data(contract, deployment):
        raise InvalidContent(f"it does not create the {contract} of this version with these terms")
    return transaction.sender


def _call(contract: str, transaction: SignedTransaction) -> Call:
    """The call in a transaction; its name is empty for none of the contract's functions."""
    data = transaction.data
    name = next((name for name, function in functions(contract).items() if function.selector == data[:4]), "")
    words = [data[start : start + WORD].ljust(WORD, b"\0") for start in range(4, 4 + 8 * WORD, WORD)]
    return Call(name, words, data, transaction.sender)


def _batched(record: Drawn | DrawRejected, item: SignedDraw, call: Call, deployment: Deployment) -> str:
    """The account that answers for an item of a batch: its signer if it was accepted, otherwise the sender."""
    if call.number(0) != record.round:
        raise InvalidContent("the batch is for another round")
    if isinstance(record, DrawRejected):
        if item.account != record.account:
            raise InvalidContent("its calldata names another account at this place")
        return call.sender
    content = (record.samples, record.mask_key, record.seal_key)
    if (item.samples, item.mask_key, item.seal_key) != content or not item.gives(record.proof):
        raise InvalidContent("its calldata holds another draw at this place")
    if not is_signed(item, deployment, record.round):
        raise InvalidContent("the draw at this place is not signed by its account")
    return item.account
