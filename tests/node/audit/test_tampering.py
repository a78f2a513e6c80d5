"""Every kind of tampering is found, and the right record is named.

The history is a real one: a real EVM, a real store, real training. A record is changed as a dishonest chain or exporter
would show it (below the receipt proofs, which ``tests/chain/network/test_history.py`` attacks on their own); a blob is
changed in a store, with the record that names it changed along where the villain could do so.
"""

import shutil
from dataclasses import dataclass, replace

import pytest

from fedgrove.chain.records import (
    AbsenceRecorded,
    Closed,
    Committed,
    Failed,
    FailureReason,
    Recovered,
    Released,
    RoundOpened,
    Shared,
)
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.protocol.content import Metrics
from tests.node.audit import altered_content, altered_records
from tests.node.audit.altered_records import flip


@dataclass
class Scene:
    """Records and a private copy of the store, for one villain."""

    records: list
    store: DiskStore
    facts: object

    def find(self, kind, number=None, index=0):
        chosen = [
            place
            for place, record in enumerate(self.records)
            if isinstance(record, kind) and (number is None or getattr(record, "round", None) == number)
        ]
        return chosen[index]

    def change(self, kind, number=None, index=0, **fields):
        place = self.find(kind, number, index)
        self.records[place] = replace(self.records[place], **fields)
        return self.records[place]

    def record(self, kind, number=None, index=0):
        return self.records[self.find(kind, number, index)]

    def audit(self):
        return Auditor(self.facts, self.records, self.store).run()


@pytest.fixture
def scene(run, tmp_path):
    shutil.copytree(run.store.path, tmp_path / "store")
    return Scene(list(run.records), DiskStore(tmp_path / "store"), run.facts)


def test_the_untouched_history_is_verified(scene):
    verdict = scene.audit()
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.rounds == 2 and verdict.records == len(scene.records) and not verdict.remarks


VILLAINS = [*altered_records.ALTERATIONS, *altered_content.ALTERATIONS]


@pytest.mark.parametrize("villain", VILLAINS, ids=lambda villain: villain.__name__)
def test_a_villain_is_found_and_named(scene, villain):
    number, client, field = villain(scene)
    verdict = scene.audit()
    assert verdict.verdict == "bad record"
    first = verdict.first_bad_record
    assert (first.round, first.client, first.field) == (number, client, field), verdict.reason


# --- stored blocks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "attribute", "field"),
    [
        (RoundOpened, "model_digest", "opened.model"),
        (RoundOpened, "config_digest", "opened.config"),
        (Shared, "digest", "share.content"),
        (Committed, "digest", "commit.content"),
        (Released, "digest", "release.content"),
        (Recovered, "digest", "recovery.content"),
        (Closed, "model_digest", "closed.model"),
        (Closed, "metrics_digest", "closed.metrics"),
    ],
)
@pytest.mark.parametrize("how", ["flipped", "deleted", "truncated", "replaced"])
def test_a_stored_block_that_changed_is_found_at_its_record(scene, kind, attribute, field, how):
    record = scene.record(kind, 1)
    path = scene.store.path / "blocks" / getattr(record, attribute).hex()
    data = path.read_bytes()
    path.chmod(0o644)
    match how:
        case "flipped":
            path.write_bytes(flip(data, len(data) // 2))
        case "deleted":
            path.unlink()
        case "truncated":
            path.write_bytes(data[:-1])
        case "replaced":
            path.write_bytes(Metrics(1, 0.5, 1, 0.5).to_bytes())
    verdict = scene.audit()
    if how == "deleted" and kind in (Shared, Released):
        # No model depends on it, and it may never have been published: the client is named, the history stands.
        (remark,) = verdict.remarks
        assert verdict.verdict == "verified"
        assert (remark.round, remark.client, remark.field) == (1, record.client, field)
        return
    assert verdict.verdict == "bad record"
    first = verdict.first_bad_record
    assert (first.round, first.client, first.field) == (1, getattr(record, "client", None), field), verdict.reason


# --- rounds that are recorded as failed -------------------------------------------------------------------------------


def failed(scene, reason: FailureReason) -> list[str]:
    """What is remarked of round 2 if it had failed, instead of closing, for this reason; nobody was absent then."""
    place = scene.find(Closed, 2)
    scene.records = [
        each for at, each in enumerate(scene.records) if at <= place or not isinstance(each, AbsenceRecorded)
    ]
    scene.records[place] = Failed(scene.records[place].at, 2, reason, scene.store.put(b"{}").digest)
    verdict = scene.audit()
    assert verdict.verdict == "verified", verdict.reason
    return [remark.field for remark in verdict.remarks]


WANTON = [reason for reason in FailureReason if reason > FailureReason.TOO_FEW_SURVIVORS]


@pytest.mark.parametrize("reason", WANTON)
def test_a_round_that_failed_for_no_reason_is_a_remark(scene, reason):
    """Else a coordinator could keep every vote from counting that goes against an accomplice."""
    assert failed(scene, reason) == ["failed.reason"]


def test_a_round_that_failed_for_no_reason_before_it_was_recovered_is_a_remark(scene):
    del scene.records[scene.find(Recovered, 2)]
    assert failed(scene, FailureReason.INVALID_UPDATE) == ["failed.reason"]


def test_a_round_that_failed_for_an_update_that_cannot_be_summed_names_its_client_only(scene):
    scene.change(Committed, 2, digest=scene.store.put(b"no update").digest)
    assert failed(scene, FailureReason.INVALID_UPDATE) == ["commit.content"]


def test_a_round_that_failed_for_a_recovery_that_is_none_is_as_it_says(scene):
    scene.change(Recovered, 2, digest=scene.store.put(b"no recovery").digest)
    assert failed(scene, FailureReason.INVALID_RELEASE) == ["recovery.content"]


def test_what_releases_say_cannot_be_told_without_them(scene):
    """Who looks later may find fewer of them than the coordinator did."""
    scene.change(Released, 2, digest=bytes(32))
    assert failed(scene, FailureReason.UPDATE_UNAVAILABLE) == ["release.content"]
