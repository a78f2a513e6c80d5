"""Every kind of tampering is found, and the right record is named.

The history is a real one: a real EVM, a real store, real training. A record is changed as a dishonest chain or exporter
would show it (below the receipt proofs, which ``tests/chain/network/test_history.py`` attacks on their own); a blob is
changed in a store, with the record that names it changed along where the villain could do so.
"""

import shutil
from dataclasses import dataclass, replace

import pytest
from msgspec import structs

from fedgrove.chain.records import (
    Closed,
    Committed,
    Drawn,
    Failed,
    Released,
    RoundOpened,
    Shared,
)
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.rounds import Rounds
from tests.node.audit import altered_content, altered_records
from tests.node.audit.altered_records import flip

OTHER = Metrics(1, "ab" * 32, (1, "cd" * 32), 0.5, 1, 0.5)


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

    def metrics(self, number):
        return Metrics.from_bytes(self.store.fetch(self.record(Closed, number).metrics_digest, 1 << 20))

    def state(self, number, **changes):
        """Let the closing of a round state something else."""
        changed = structs.replace(self.metrics(number), **changes)
        self.change(Closed, number, metrics_digest=self.store.put(changed.to_bytes()).digest)

    def dropped(self, number):
        """Clients that drew in a round and did not commit."""
        drew, committed = (
            {each.client for each in self.records if isinstance(each, kind) and each.round == number}
            for kind in (Drawn, Committed)
        )
        return drew - committed

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
            path.write_bytes(OTHER.to_bytes())
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


@pytest.fixture
def failed(scene):
    """Round 2 was not closed before it was overdue, and failed."""
    place = scene.find(Closed, 2)
    rounds = Rounds(scene.facts.settings.quorum)
    for record in scene.records[:place]:
        rounds.add(record)
    at = scene.records[place].at
    overdue = rounds.last.deadlines(scene.facts.settings).recover_end + 1
    scene.records[place:] = [Failed(at._replace(block=overdue), 2)]
    return scene


def remarked(scene) -> list[str]:
    verdict = scene.audit()
    assert verdict.verdict == "verified", verdict.reason
    return [remark.field for remark in verdict.remarks]


def test_a_round_that_failed_though_nobody_lied_names_nobody(failed):
    assert remarked(failed) == []


def test_a_round_that_failed_for_an_update_that_cannot_be_summed_names_its_client_only(failed):
    failed.change(Committed, 2, digest=failed.store.put(b"no update").digest)
    assert remarked(failed) == ["commit.content"]


def test_a_round_that_failed_for_a_release_that_cannot_be_had_names_its_client_only(failed):
    failed.change(Released, 2, digest=bytes(32))
    assert remarked(failed) == ["release.content"]


def test_a_round_that_failed_for_shares_that_are_none_names_their_client(failed):
    failed.change(Shared, 2, digest=failed.store.put(b"no shares").digest)
    assert "share.content" in remarked(failed)
