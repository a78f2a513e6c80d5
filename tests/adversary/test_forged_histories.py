"""Somebody who delivers a history that never was, to make a training look better, or other, than it was.

It has everything but the members' keys: it can write any event, transaction, receipt, header and blob, and makes
everything fit that needs no key. What stops it: a record counts only if its author signed it, for this chain and this
contract, once and in its author's order (step 4 of ``node.audit.auditor``); seeds and orders follow from hashes of
blocks, and each closing names a block's hash under the signature of who closes, so that up to there nothing can be left
out or moved either (step 6). What is left is the end of a history: for that there are published heads (step 10).
"""

import copy
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from eth_abi import encode as abi_encode

from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import (
    Closed,
    Committed,
    Failed,
    LedgerFounded,
    Replaced,
    RoundOpened,
    Voided,
)
from fedgrove.chain.records.abi import functions
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.node.audit.archive import audit_directory
from fedgrove.node.audit.pins import Pins
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.protocol.content import Metrics
from tests.adversary.forgeries import catalogue
from tests.adversary.forgery import LIMIT, Draft, Forgery
from tests.adversary.forging import STRANGER, log_of
from tests.adversary.kept_runs import KINDS, Kept, forged_run, kept

SOME = {"weights": 44, "quantile": 8, "kmeans": 8}
"""Kinds of runs, and how many forgeries of each the default run tries."""
MOVED = ("an update exchanged and the model summed anew", "another first model all through")
"""Forgeries that the default run tries with each of these kinds: they write a model of the method's own."""


@dataclass
class Outcome:
    """What became of the forgeries of one run."""

    verified: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    refused: Counter = field(default_factory=Counter)
    at_the_end: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.refused.total() + len(self.at_the_end) + len(self.verified) + len(self.unnamed)


def forged(run: Kept, forgery: Forgery, target: Path) -> tuple[Path, LedgerHistory]:
    """The directory of a forged run, and the history in it."""
    draft = Draft(run, run.tape)
    forgery.edit(draft)
    history = draft.tape.encode()
    return forged_run(run, target, history, draft.blobs, draft.report), history


def vouched_block(run: Kept) -> int:
    """The block that the last closing names."""
    closed = [record for record in run.history.records() if isinstance(record, Closed)][-1]
    return Metrics.from_bytes(run.store.fetch(closed.metrics_digest, LIMIT)).head[0]


def first_difference(one: LedgerHistory, other: LedgerHistory) -> int:
    """The first block that is not the same in both."""
    pairs = zip(one.blocks, other.blocks, strict=False)
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one.blocks), len(other.blocks)))
    return one.first_block + same


def try_all(run: Kept, forgeries: list[Forgery], directory: Path) -> Outcome:
    """Deliver each forgery, and say what the audit made of it; whatever it raises is a failure."""
    outcome, vouched = Outcome(), vouched_block(run)
    head = (run.history.head_block, run.history.block_hash(run.history.head_block))
    for forgery in forgeries:
        target, history = forged(run, forgery, directory / "forged")
        verdict = audit_directory(target)
        assert isinstance(verdict, Verdict)
        if verdict.verdict == "bad record":
            named = verdict.first_bad_record
            if named is not None and named.field and named.reason:
                outcome.refused[named.field] += 1
            else:
                outcome.unnamed.append(forgery.name)
        elif forgery.hides and first_difference(run.history, history) > vouched and verdict.unpinned:
            assert audit_directory(target, pins=Pins(heads=(head,))).verdict == "bad record", forgery.name
            outcome.at_the_end.append(forgery.name)
        else:
            outcome.verified.append(f"{forgery.name}: {verdict.verdict}, {verdict.reason}")
        shutil.rmtree(target)
    return outcome


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Kept runs by kind, each made once."""
    made: dict[str, Kept] = {}

    def of(kind: str) -> Kept:
        if kind not in made:
            made[kind] = kept(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return of


def check(outcome: Outcome, tried: int) -> None:
    print(f"{outcome.tried} tried, {outcome.refused.total()} refused, behind the last closing: {outcome.at_the_end}")
    assert not outcome.verified
    assert not outcome.unnamed
    assert outcome.tried == tried


@pytest.mark.parametrize("kind", list(SOME))
def test_no_forgery_of_some_is_verified(runs, kind, tmp_path):
    run = runs(kind)
    forgeries = catalogue(run)
    chosen = forgeries[3 :: len(forgeries) // SOME[kind]][: SOME[kind]]
    moved = [forgery for forgery in forgeries if forgery.name in MOVED and forgery not in chosen]
    check(try_all(run, chosen + moved, tmp_path), len(chosen + moved))


@pytest.mark.statistics
@pytest.mark.parametrize("kind", KINDS)
def test_no_forgery_is_verified(runs, kind, tmp_path):
    run = runs(kind)
    forgeries = catalogue(run)
    assert len({forgery.name for forgery in forgeries}) == len(forgeries) >= 200
    check(try_all(run, forgeries, tmp_path), len(forgeries))


# --- the end ----------------------------------------------------------------------------------------------------------


def cut(run: Kept, last: int, target: Path) -> Verdict:
    """What is said of a run without the blocks after one, against no head, and against the one that it should have."""
    tape, head = run.tape, run.history.head_block
    tape.cut(last)
    forged_run(run, target, tape.encode())
    later = Pins(heads=((head, run.history.block_hash(head)),))
    refused = audit_directory(target, pins=later)
    assert refused.first_bad_record.field == "pinned head", refused.reason
    return audit_directory(target)


def check_cuts(run: Kept, blocks: Sequence[int], directory: Path) -> None:
    """A history that ends early says how far it goes, and that whoever delivered it may have left something out."""
    for last in blocks:
        target = directory / str(last)
        verdict = cut(run, last, target)
        closed = any(isinstance(each, Closed) and each.at.block <= last for each in run.history.records())
        assert verdict.verdict == ("verified" if closed else "consistent, no round closed"), (last, verdict.reason)
        assert verdict.head_block == last and verdict.head_hash == "0x" + run.history.block_hash(last).hex()
        assert (
            "not checked against a published head" in verdict.unpinned
            and "missing its latest blocks" in verdict.unpinned
        )
        shutil.rmtree(target)


def ends(run: Kept) -> list[int]:
    """The blocks with which a history can end, once it is founded; where a lie stands that falls later, none."""
    records = run.history.records()
    void = {record.round: record.at.block for record in records if isinstance(record, Voided | Replaced)}
    lies = [
        range(each.at.block, void[each.round]) for each in records if isinstance(each, Closed) and each.round in void
    ]
    founded = run.tape.number(run.tape.first(LedgerFounded))
    return [block for block in range(founded, run.history.head_block) if not any(block in lie for lie in lies)]


def test_a_history_without_its_end_is_refused_by_a_later_head_alone(runs, tmp_path):
    run = runs("weights")
    check_cuts(run, ends(run)[::9], tmp_path)


@pytest.mark.statistics
@pytest.mark.parametrize("kind", KINDS)
def test_a_history_that_ends_anywhere_is_refused_by_a_later_head_alone(runs, kind, tmp_path):
    run = runs(kind)
    check_cuts(run, ends(run), tmp_path)


def test_an_end_that_anybody_may_write_is_refused_by_a_later_head_alone(runs, tmp_path):
    """The last round closed; the forger has it fail for its deadline, which any account may record."""
    run = runs("weights")
    tape, opened = run.tape, run.tape.last(RoundOpened).record
    call = copy.deepcopy(tape.call(tape.last(Closed)))
    place = tape.last(Closed)
    tape.cut(tape.number(tape.last(Committed)))
    tape.go_on(Deadlines.of(opened.opened_at, tape.deployment.settings, Ends()).recover_end + 1)
    tape.insert(len(tape.sheets) - 1, call)
    failed = Failed(place.record.at, opened.round)
    function = functions("TrainingLedger")["fail"]
    call.data = function.selector + abi_encode(function.inputs, [opened.round])
    call.logs = [log_of(failed, tape.deployment)]
    call.sign(STRANGER, tape.deployment.chain_id)
    target = forged_run(run, tmp_path / "failed", tape.encode())
    verdict = audit_directory(target)
    assert verdict.verdict == "verified" and verdict.rounds == 2, verdict.reason
    assert "missing its latest blocks" in verdict.unpinned
    published = run.history.block_hash(place.block + run.history.first_block)
    pins = Pins(heads=((tape.number(place), published),))
    assert audit_directory(target, pins=pins).first_bad_record.field == "pinned head"


@pytest.mark.parametrize("kind", list(SOME))
def test_the_run_that_they_begin_from_is_verified(runs, kind):
    """Taken apart and put together again it is the same."""
    run = runs(kind)
    assert run.tape.encode() == run.history
    verdict = audit_directory(run.directory)
    assert verdict.verdict == "verified", verdict.reason
    assert f"after block {vouched_block(run)}" in verdict.unpinned
