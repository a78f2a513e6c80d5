"""Rounds that rest on a closing that their members made void spoil no history, and stop no audit."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from eth_utils import to_checksum_address

from fedgrove.chain.records import (
    Closed,
    Committed,
    Failed,
    Position,
    Record,
    Released,
    RoundOpened,
    Shared,
    Skipped,
)
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import Unreachable
from fedgrove.node.audit.content import ContentRules
from fedgrove.node.audit.verdict import CannotTell
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.founding import terms_of
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig, LedgerSettings, MembershipSettings, StartSettings

NOBODY = "0x" + 40 * "0"
AT = Position(1, bytes(32), 0)
FIRST = ClusterState.first({"w": np.zeros(1, np.float32)})
CLIENTS = (1, 2, 3)


class History:
    """Round 1 closed with a state whose statement is missing; round 2 was opened on it, and records came."""

    def __init__(self, directory: Path, void: set[int]) -> None:
        self.store, self.rounds = DiskStore(directory), Rounds()
        terms = {
            "method": ProCflTerms(counter="ab" * 32, signer="0x" + "ab" * 20),
            "ledger": LedgerSettings(max_clients=100),
            "membership": MembershipSettings("approved"),
        }
        start = StartSettings(self.store.put(FIRST.to_bytes()).digest.hex())
        self.config = FederationConfig(
            task=TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10)), start=start, **terms
        )
        self.terms = self.store.put(self.config.to_bytes()).digest
        counted = replace(FIRST, stage="count", sets={n: ("ab" * 32, 9) for n in CLIENTS}, clients=CLIENTS)
        self.lie = self.store.put(counted.to_bytes()).digest
        places = (*(to_checksum_address("0x" + 20 * each) for each in ("1b", "5f")), 1, *3 * [NOBODY])
        deployment = Deployment(1, *places, "approved", (), 1, self.config.ledger, terms_of(self.config))
        facts = ChainFacts(deployment, 1, lambda number: bytes(32), lambda number: bytes(32))
        self.rules = ContentRules(facts, self.store, self.rounds, frozenset(), frozenset(void))
        metrics = self.store.put(Metrics(1, "ab" * 32, (1, "cd" * 32)).to_bytes()).digest
        self.rounds.add(self.opened(1, self.store.put(FIRST.to_bytes()).digest))
        self.rounds.add(Closed(AT, 1, self.lie, metrics))

    def opened(self, number: int, model: bytes) -> RoundOpened:
        return RoundOpened(AT, number, model, self.terms, 1_000_000, 1, 2, ())

    def check(self, *records: Record) -> None:
        for record in records:
            self.rules.check(record)
            self.rounds.add(record)

    def sealed(self) -> None:
        self.rounds.latest.order = CLIENTS

    def records(self) -> tuple[Record, ...]:
        blob = self.store.put(b"what a member said").digest
        said = (Shared(AT, 2, 1, blob), Committed(AT, 2, 1, blob, bytes(32)), Released(AT, 2, 1, bytes(32), blob, 0))
        return (*said, Failed(AT, 2))


def test_what_was_said_in_a_round_that_fell_with_its_base_is_one_remark(tmp_path):
    history = History(tmp_path, {1, 2})
    history.check(history.opened(2, history.lie))
    history.sealed()
    history.check(*history.records())
    (remark,) = history.rules.findings.remarks
    assert (remark.round, remark.field) == (2, "opened.model") and "missing" in remark.reason


def test_a_round_that_ended_before_its_base_was_void_fell_with_it_too(tmp_path):
    history = History(tmp_path, {1})
    history.check(history.opened(2, bytes(32)), Skipped(AT, 2, 0), history.opened(3, history.lie))
    assert [(each.round, each.field) for each in history.rules.findings.remarks] == [(2, "opened.model")]


def test_what_rests_on_a_closing_that_stands_is_a_bad_record(tmp_path):
    history = History(tmp_path, set())
    history.check(history.opened(2, history.lie))
    history.sealed()
    with pytest.raises(RuleBroken, match=r"round 2, opened\.model"):
        history.check(*history.records())
    with pytest.raises(RuleBroken, match="not in the store"):
        history.check(history.opened(3, bytes(32)))


def test_a_store_that_is_away_says_nothing_of_what_a_round_rests_on(tmp_path):
    history = History(tmp_path, {1, 2})
    history.check(history.opened(2, history.lie))
    history.sealed()
    first, *_ = history.records()
    fetch, history.store.fetch = history.store.fetch, _away
    with pytest.raises(CannotTell):
        history.rules._inputs()
    history.store.fetch = fetch
    history.check(first)


def _away(digest: bytes, most: int) -> bytes:
    raise Unreachable("the store is away")


def test_whether_the_budget_lasts_is_asked_of_the_round_that_would_follow(tmp_path, monkeypatch):
    asked = SimpleNamespace(exhausted=lambda number: f"too little for round {number}")
    monkeypatch.setattr(ContentRules, "_spending", lambda self: asked)
    history = History(tmp_path, set())
    assert history.rules.exhausted() == ""  # its terms have not been read
    history.check(history.opened(2, history.lie))
    assert history.rules.exhausted() == "too little for round 3"
