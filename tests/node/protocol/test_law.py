"""A real history breaks no rule, and breaks one under any other terms than those it ran under."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fedgrove.chain.records import Record
from fedgrove.node.protocol.bad_record import BadRecord, RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import Rounds

STRANGER = "0x" + 40 * "5"


def first_bad(facts: ChainFacts, records: Sequence[Record]) -> BadRecord | None:
    """The first record that breaks a rule."""
    rules = Law(facts, Rounds(facts.settings.quorum))
    for record in records:
        try:
            rules.check(record)
        except RuleBroken as broken:
            return broken.record
        rules.rounds.add(record)
    return None


def test_the_history_breaks_no_rule(run):
    assert first_bad(run.facts, run.records) is None


@pytest.mark.parametrize(
    ("field", "part", "changes"),
    [
        ("approval", "", {"members": (STRANGER,)}),
        ("approval", "", {"membership": "open", "members": ()}),
        ("registration.proof", "", {"registry": STRANGER}),
        ("registration.active from", "", {"activation_delay": 9}),
        ("opened.author", "", {"coordinator": STRANGER}),
        ("draw.proof", "", {"ledger": STRANGER}),
        ("opened", "terms", {"rounds": 1}),
        ("opened.model", "terms", {"model": 64 * "5"}),
        ("opened.config", "terms", {"config": 64 * "5"}),
        ("opened.sampling rate", "terms", {"rates": ((1, 1),)}),
        ("opened.seed block", "settings", {"seed_delay": 9}),
        ("order", "settings", {"order_delay": 99}),
        ("order.seed", "settings", {"randao": True}),
        ("order.count", "settings", {"quorum": 9, "max_clients": 9}),
        ("phase end", "settings", {"max_clients": 4}),
        ("draw.samples", "settings", {"max_samples": 1}),
        ("release.block", "settings", {"recover_window": 1, "coordinator_grace": 0}),
    ],
)
def test_it_breaks_one_under_other_terms(run, field, part, changes):
    deployment = run.facts.deployment
    other = {part: replace(getattr(deployment, part), **changes)} if part else changes
    bad = first_bad(replace(run.facts, deployment=replace(deployment, **other)), run.records)
    assert bad is not None and bad.field == field, bad
