"""A federation that continues another: what its terms say of the earlier one is compared with that one's history."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed, Position, Replaced, RoundOpened, Voided
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.disk import DiskReader, DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import STORE, audit_directory, opened_run
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.succession import continuation, with_before
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.protocol.terms import StartSettings
from fedgrove.node.scenario.reading import scenario
from tests.node.conftest import Run, run_federation


@pytest.fixture(scope="module")
def later(run, tmp_path_factory) -> Run:
    """Fewer members, other accounts and another coordinator go on from the last model of the session's run."""
    earlier = continuation(run.history, run.store)
    place = tmp_path_factory.mktemp("later") / "kept"
    DiskStore(place / STORE).put(earlier.model)
    start = StartSettings(cid_of(earlier.model).digest.hex(), earlier.continues)
    return run_federation(place, scenario(clients=3, rounds=1, strategy="fedavg"), start=start)


def audited(later: Run) -> Verdict:
    return Auditor(later.facts, later.records, later.store).run()


def closings(made: Run) -> dict[int, Closed]:
    return {record.round: record for record in made.records if isinstance(record, Closed)}


def test_what_is_continued_is_said_and_verified_only_once_it_was_looked_at(run, later):
    alone = audited(later)
    place = f"round 2 of ledger {run.history.deployment.ledger} on chain {run.history.chain_id}"
    assert alone.exit_code == 0 and str(alone.before) == f"continues {place} (not looked at)"
    both = with_before(alone, run.history, run.store)
    assert both.exit_code == 0 and str(both.before) == f"continues {place} (verified)"
    assert replace(both, before=alone.before) == alone
    assert both.to_dict()["before"]["verified"] and both.to_dict()["before"]["continues"]["round"] == 2


def test_the_first_round_trains_from_the_model_that_the_earlier_one_closed_with(run, later):
    opened = next(record for record in later.records if isinstance(record, RoundOpened))
    assert opened.model_digest == closings(run)[2].model_digest
    assert later.report["rounds"][0]["accuracy"] > run.report["rounds"][0]["accuracy"]


def test_the_report_says_what_is_continued_and_an_audit_derives_it_again(run, later, tmp_path):
    assert later.report["continues"] == later.report["config"]["start"]["continues"]
    assert "continues" not in run.report and "continues" not in run.report["config"]["start"]
    assert audit_directory(later.directory).exit_code == 0


def test_any_closed_round_can_be_continued_from_and_no_other(run):
    first = continuation(run.history, run.store, 1)
    assert cid_of(first.model).digest == closings(run)[1].model_digest
    assert first.continues.head_block == closings(run)[1].at.block
    assert bytes.fromhex(first.continues.head_hash) == run.history.block_hash(first.continues.head_block)
    with pytest.raises(InvalidInput, match=r"round 3 of ledger 0x.* did not close"):
        continuation(run.history, run.store, 3)
    empty = LedgerHistory(run.history.deployment, run.history.blocks[:5])
    with pytest.raises(InvalidInput, match="no closed round"):
        continuation(empty, run.store)


# --- what a liar may write into the terms -----------------------------------------------------------------------------


def saying(verdict: Verdict, model: str | None = None, **changes) -> Verdict:
    """The verdict on the same history with other terms."""
    assert verdict.before is not None
    continues = replace(verdict.before.continues, **changes)
    return replace(verdict, before=replace(verdict.before, continues=continues, model=model or verdict.before.model))


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"model": "ab" * 32}, "another model"),
        ({"round": 1}, "another model"),
        ({"round": 7}, "round 7 did not close"),
        ({"head_hash": "ab" * 32}, "a different hash"),
        ({"head_block": 0}, "a different hash"),
    ],
    ids=["a model of its own", "another round", "no round", "a made-up block", "a block before the contracts"],
)
def test_terms_that_say_something_else_of_the_earlier_history_are_a_bad_record(run, later, lie, reason):
    found = with_before(saying(audited(later), **lie), run.history, run.store)
    assert found.exit_code == 1 and found.first_bad_record.field == "continues"
    assert reason in found.reason and not found.before.verified


def test_a_block_in_which_the_result_was_not_on_record_yet_is_none(run, later):
    block = closings(run)[2].at.block - 1
    lie = saying(audited(later), head_block=block, head_hash=run.history.block_hash(block).hex())
    assert "not on record by block" in with_before(lie, run.history, run.store).reason
    later_block = run.history.head_block
    truth = saying(audited(later), head_block=later_block, head_hash=run.history.block_hash(later_block).hex())
    assert with_before(truth, run.history, run.store).exit_code == 0


@pytest.mark.parametrize("other", [{"chain_id": 5}, {"ledger": "0x" + 40 * "1"}])
def test_the_history_of_another_federation_is_refused(run, later, other):
    with pytest.raises(InvalidInput, match="but the terms continue round 2 of ledger"):
        with_before(saying(audited(later), **other), run.history, run.store)


def test_a_federation_that_continues_nothing_has_nothing_before_it(run):
    with pytest.raises(InvalidInput, match="leave --before out"):
        with_before(Auditor(run.facts, run.records, run.store).run(), run.history, run.store)


# --- what the earlier history may be ----------------------------------------------------------------------------------


def test_a_copy_that_ends_too_early_cannot_tell(run, later):
    short = LedgerHistory(run.history.deployment, run.history.blocks[:-20])
    found = with_before(audited(later), short, run.store)
    assert found.exit_code == 2 and "get a later copy" in found.reason


@pytest.fixture
def damaged(run, tmp_path) -> Path:
    """The earlier run, in which the second round's model is not what is on record."""
    shutil.copytree(run.directory, tmp_path / "damaged")
    block = tmp_path / "damaged" / STORE / "blocks" / closings(run)[2].model_digest.hex()
    block.chmod(0o644)
    block.write_bytes(block.read_bytes()[:-1] + b"?")
    return tmp_path / "damaged"


def test_an_earlier_history_with_a_bad_record_spoils_what_rests_on_it(later, damaged):
    with opened_run(damaged) as (history, store):
        found = with_before(audited(later), history, store)
        assert found.exit_code == 1 and "round 2, closed.model" in found.reason
        with pytest.raises(InvalidInput, match=r"cannot be continued from: round 2, closed\.model"):
            continuation(history, store)


def test_what_came_after_the_round_that_is_continued_does_not_matter(damaged):
    with opened_run(damaged) as (history, store):
        assert continuation(history, store, 1).continues.round == 1


@pytest.mark.parametrize(
    ("judged", "code"),
    [
        (Voided(Position(1 << 20, bytes(32), 0), 2, bytes(32)), 1),
        (Replaced(Position(1 << 20, bytes(32), 0), 2, bytes(32), bytes(32)), 1),
        (Voided(Position(1 << 20, bytes(32), 0), 1, bytes(32)), 0),
    ],
    ids=["voided", "replaced", "another round voided"],
)
def test_a_round_that_its_members_overruled_later_does_not_stand(run, later, judged, code):
    class Overruled(LedgerHistory):
        def records(self) -> list:
            return [*super().records(), judged]

    history = Overruled(run.history.deployment, run.history.blocks)
    assert with_before(audited(later), history, run.store).exit_code == code


def test_a_store_without_the_earlier_blobs_is_a_bad_record(run, later, tmp_path):
    DiskStore(tmp_path / "empty")
    found = with_before(audited(later), run.history, DiskReader(tmp_path / "empty"))
    assert found.exit_code == 1 and "not in the store" in found.reason
