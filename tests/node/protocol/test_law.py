"""Rules on who may draw, on the records of a real history under other terms than it ran under."""

from collections.abc import Sequence
from dataclasses import replace

from fedgrove.chain.records import AbsenceRecorded, Approved, Drawn, Record, Registered, RoundOpened
from fedgrove.chain.records.deployment import Deployment
from fedgrove.node.protocol.bad_record import BadRecord, RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import Rounds


def first_bad(facts: ChainFacts, records: Sequence[Record]) -> BadRecord | None:
    """The first record that breaks a rule."""
    rounds = Rounds()
    rules = Law(facts, rounds)
    for record in records:
        try:
            rules.check(record)
        except RuleBroken as broken:
            return broken.record
        rounds.add(record)
    return None


def under(facts: ChainFacts, **changes) -> tuple[ChainFacts, Deployment]:
    """The facts with other terms, and these."""
    deployment = replace(facts.deployment, **changes)
    return replace(facts, deployment=deployment), deployment


def approvals(records: Sequence[Record], admin: str, left_out: int = 0) -> list[Record]:
    """The records, with an approval of every client but one as soon as it has registered."""
    found = []
    for record in records:
        found.append(record)
        if isinstance(record, Registered) and record.client != left_out:
            found.append(Approved(record.at._replace(author=admin), record.account))
    return found


def test_the_history_breaks_no_rule(run):
    assert first_bad(run.facts, run.records) is None


def test_a_draw_by_a_member_that_was_not_approved_is_bad(run):
    facts, deployment = under(run.facts, open_membership=False)
    assert first_bad(facts, approvals(run.records, deployment.admin)) is None
    client = next(record for record in run.records if isinstance(record, Drawn)).client
    bad = first_bad(facts, approvals(run.records, deployment.admin, left_out=client))
    assert (bad.round, bad.client, bad.field, bad.reason) == (1, client, "draw.client", "the client was not approved")


def test_a_draw_by_a_member_that_sits_out_is_bad(run):
    """Under terms that allow no absence, who was absent in round 1 may not draw in round 2."""
    second = next(place for place, each in enumerate(run.records) if isinstance(each, RoundOpened) and each.round == 2)
    absent = {record.client for record in run.records[:second] if isinstance(record, AbsenceRecorded)}
    first = next(each for each in run.records[second:] if isinstance(each, Drawn) and each.client in absent)
    facts, _ = under(run.facts, settings=replace(run.facts.settings, absence_limit=1))
    bad = first_bad(facts, run.records)
    assert (bad.round, bad.client, bad.field) == (2, first.client, "draw.client")
    assert bad.reason == "the client sits out because of its absences"
