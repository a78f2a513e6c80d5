"""Histories that are read without an audit: none is believed that honest members would not have let come about."""

from functools import cache

from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.policy import refusals
from fedgrove.node.protocol.rounds import Rounds


def lawful_rounds(history: LedgerHistory, store: ContentReader) -> Rounds:
    """The records of a verified history, sorted: each keeps the rules, and no closing stands that members refuse.

    What the models are made of is the audit's to recompute.

    Raises
    ------
    InvalidContent
        A record breaks a rule, or is of a round that honest members refuse; or the terms are none.
    StoreError
        The store lacks the terms.
    """
    rounds = Rounds(history.deployment.settings.quorum)
    law, refused = Law(chain_facts(history), rounds), dict[int, str]()
    config_of = cache(lambda digest: fetch_method(store, digest).config)
    for record in history.records():
        try:
            law.check(record)
        except RuleBroken as broken:
            raise InvalidContent(f"the history breaks a rule of its ledger: {broken}") from None
        if isinstance(record, Closed):
            current = rounds.rounds[record.round]
            refused[record.round] = next(refusals(rounds, current, config_of(current.opened.config_digest)), "")
        rounds.add(record)
    for number, refusal in refused.items():
        if refusal and rounds.rounds[number].stands:
            raise InvalidContent(f"round {number} closed, though its members refuse that: {refusal}")
    return rounds
