"""Federations that continue another one: the earlier history is checked as far as the later one rests on it.

The later terms name a round of the earlier federation, the model that it closed with, and a block in which that is on
record. What the earlier federation did after this block does not matter, as long as the round stands.
"""

from dataclasses import dataclass, replace

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed, Record, Replaced
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.auditor import Auditor, Progress
from fedgrove.node.audit.content import closed_rounds
from fedgrove.node.audit.verdict import CannotTell, Predecessor, Verdict
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.bad_record import BadRecord, RuleBroken, bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.terms import Continues

_FIELD = "continues"


@dataclass(frozen=True)
class Continuation:
    """A model to continue from, and where it is on record.

    Attributes
    ----------
    continues : Continues
    model : bytes
    """

    continues: Continues
    model: bytes


def continuation(
    history: LedgerHistory, store: ContentReader, number: int | None = None, progress: Progress | None = None
) -> Continuation:
    """What a federation can continue from: the model of a round, once all that led to it is verified.

    Parameters
    ----------
    history : LedgerHistory
        Of the earlier federation; its blocks were verified.
    store : ContentReader
        Of that federation.
    number : int, optional
        The round; by default the last one that stands.
    progress : callable, optional
        As ``Auditor`` has it.

    Raises
    ------
    InvalidInput
        There is no such round, or the history up to it is not right.
    CannotTell, StoreError
        The store cannot be read.
    """
    deployment = history.deployment
    try:
        records = history.records()
        standing = closed_rounds(records)
        if not standing:
            raise InvalidInput(f"ledger {deployment.ledger} has no closed round, so there is no model to continue from")
        number = max(standing) if number is None else number
        if number not in standing:
            raise InvalidInput(f"round {number} of ledger {deployment.ledger} did not close: give one that did")
        result = _results(records, number)[-1]
        place = (result.at.block, history.block_hash(result.at.block).hex())
        continues = Continues(deployment.chain_id, deployment.ledger, number, *place)
        _verify(Predecessor(continues, result.model_digest.hex()), history, store, progress)
    except (RuleBroken, BadHistory) as fault:
        raise InvalidInput(f"ledger {deployment.ledger} cannot be continued from: {fault}") from None
    config = fetch_method(store, bytes.fromhex(deployment.terms.config)).config
    return Continuation(continues, store.fetch(result.model_digest, config.max_blob_bytes))


def with_before(
    verdict: Verdict, history: LedgerHistory, store: ContentReader, progress: Progress | None = None
) -> Verdict:
    """The verdict on a history that continues another, given that on itself and the other history with its store.

    Raises
    ------
    InvalidInput
        It continues no other, or not this one.
    """
    if verdict.verdict != "verified":
        return verdict
    before, deployment = verdict.before, history.deployment
    if before is None:
        raise InvalidInput("the terms of the audited federation continue no other one: leave --before out")
    continues = before.continues
    if (continues.chain_id, continues.ledger) != (deployment.chain_id, deployment.ledger):
        given = f"the history before it is of ledger {deployment.ledger} on chain {deployment.chain_id}"
        raise InvalidInput(f"{given}, but the terms continue {continues}: give that one's")
    try:
        _verify(before, history, store, progress)
    except CannotTell as fault:
        return replace(verdict, verdict="cannot tell", reason=f"{continues}: {fault}")
    except RuleBroken as failure:
        return contradicted(verdict, failure.record.reason if failure.record.field == _FIELD else str(failure))
    except BadHistory as fault:
        return contradicted(verdict, str(fault))
    return replace(verdict, before=replace(before, verified=True))


def contradicted(verdict: Verdict, reason: str) -> Verdict:
    """The verdict on a history that continues one which is not right, or not what the terms say of it."""
    record = BadRecord(None, None, _FIELD, f"{verdict.before.continues}: {reason}" if verdict.before else reason)
    return replace(verdict, verdict="bad record", first_bad_record=record, reason=str(record))


def _verify(before: Predecessor, history: LedgerHistory, store: ContentReader, progress: Progress | None) -> None:
    """Audit a history up to the block that is named, and compare its result with what is said of it.

    Raises
    ------
    RuleBroken, BadHistory
        A record is bad, or they differ.
    CannotTell
        The history ends before that block, or the store cannot be reached.
    """
    continues, deployment = before.continues, history.deployment
    head = continues.head_block
    # (1) the block that is named
    if head > history.head_block:
        raise CannotTell(f"this history ends at block {history.head_block}, before block {head}: get a later copy")
    if head < deployment.block or history.block_hash(head).hex() != continues.head_hash:
        raise bad(_FIELD, f"block {head} has a different hash in this history than in the terms")
    # (2) the result that is named, also in the light of what its members judged later
    records = history.records()
    results = _results(records, continues.round)
    if continues.round not in closed_rounds(records):
        raise bad(_FIELD, f"round {continues.round} did not close, or its members voided it")
    if results[-1].model_digest.hex() != before.model:
        raise bad(_FIELD, f"the round has another model than the one that training starts from, {before.model}")
    if all(each.at.block > head or each.model_digest.hex() != before.model for each in results):
        raise bad(_FIELD, f"the result of the round is not on record by block {head}")
    # (3) all that led to it
    facts = ChainFacts(deployment, head, history.block_hash, history.randomness)
    found = Auditor(facts, [each for each in records if each.at.block <= head], store, progress).run()
    if found.first_bad_record is not None:
        raise RuleBroken(found.first_bad_record)
    if found.verdict != "verified":
        raise CannotTell(found.reason)


def _results(records: list[Record], number: int) -> list[Closed | Replaced]:
    """What a round closed with, and what its members put in the place of that."""
    return [each for each in records if isinstance(each, Closed | Replaced) and each.round == number]
