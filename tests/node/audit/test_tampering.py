"""Every kind of tampering is found, and the right record is named.

The history is a real one: a real EVM, a real store, real training. A record is changed as a dishonest chain or exporter
would show it (below the receipt proofs, which ``tests/chain/test_history.py`` attacks on their own); a blob is changed
in a store, with the record that names it changed along where the villain could do so.
"""

import json
import shutil
from dataclasses import dataclass, replace

import numpy as np
import pytest
from fedgrove.chain.records import (
    AbsenceRecorded,
    Closed,
    Committed,
    DrawEnded,
    Drawn,
    Failed,
    FailureReason,
    Recovered,
    Registered,
    Released,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Withdrawn,
)
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.content import Metrics

LIMIT = 1 << 26


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


def flip(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


def test_the_untouched_history_is_verified(scene):
    verdict = scene.audit()
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.rounds == 2 and verdict.records == len(scene.records) and not verdict.remarks


# --- records ----------------------------------------------------------------------------------------------------------


def forged_draw_proof(scene):
    record = scene.record(Drawn, 1)
    scene.change(Drawn, 1, proof=flip(record.proof, 50))
    return 1, record.client, "draw.proof"


def draw_proof_of_another_round(scene):
    record = scene.record(Drawn, 2)
    earlier = next(r for r in scene.records if isinstance(r, Drawn) and r.round == 1 and r.client == record.client)
    scene.change(Drawn, 2, proof=earlier.proof)
    return 2, record.client, "draw.proof"


def draw_by_a_stranger(scene):
    scene.change(Drawn, 1, client=99)
    return 1, 99, "draw.client"


def draw_under_another_clients_name(scene):
    first, second = scene.record(Drawn, 1, 0), scene.record(Drawn, 1, 1)
    scene.change(Drawn, 1, 0, client=second.client)
    assert first.client != second.client
    return 1, second.client, "draw.author"


def draw_twice(scene):
    place = scene.find(Drawn, 1)
    scene.records.insert(place + 1, scene.records[place])
    return 1, scene.records[place].client, "draw"


def draw_by_a_member_that_was_not_active_yet(scene):
    """It registers in the block in which the round is opened: it is active from the next round on."""
    opened, draw = scene.record(RoundOpened, 1), scene.record(Drawn, 1)
    place = scene.find(Registered, index=draw.client - 1)
    at = scene.records[place].at._replace(block=opened.at.block)
    delay = scene.facts.deployment.activation_delay
    scene.records[place] = replace(scene.records[place], at=at, active_from=opened.at.block + delay)
    return 1, draw.client, "draw.client"


def draw_by_a_member_that_has_left(scene):
    draw = scene.record(Drawn, 1)
    place = scene.find(Registered, index=draw.client - 1)
    joined = scene.records[place]
    scene.records.insert(place + 1, Withdrawn(joined.at, joined.account, joined.client, 0, bytes(32)))
    return 1, draw.client, "draw.client"


def false_sample_count(scene):
    record = scene.record(Drawn, 1)
    scene.change(Drawn, 1, samples=record.samples + 1)
    return 1, None, "recovery.content"  # the transcript in it covers every draw


def absurd_sample_count(scene):
    record = scene.change(Drawn, 1, samples=(1 << 32) - 1)
    return 1, record.client, "draw.samples"


def late_draw(scene):
    record = scene.record(Drawn, 1)
    scene.change(Drawn, 1, at=record.at._replace(block=record.at.block + 1000))
    return 1, record.client, "draw.block"


def foreign_registration_proof(scene):
    first, second = scene.record(Registered, index=0), scene.record(Registered, index=1)
    scene.change(Registered, index=1, proof=first.proof)
    return None, second.client, "registration.proof"


def registration_of_a_key_twice(scene):
    first = scene.record(Registered, index=0)
    second = scene.change(Registered, index=1, vrf_x=first.vrf_x, vrf_y=first.vrf_y)
    return None, second.client, "registration.vrf key"


def backdated_activation(scene):
    record = scene.record(Registered, index=2)
    scene.change(Registered, index=2, active_from=record.active_from - 1)
    return None, record.client, "registration.active from"


def removed_registration(scene):
    place = scene.find(Registered, index=1)
    later = scene.records[scene.find(Registered, index=2)]
    del scene.records[place]
    return None, later.client, "registration.index"


def another_seed_block_hash(scene):
    scene.change(SeedFixed, 1, block_hash=bytes(32))
    return 1, None, "seed.block hash"


def another_seed(scene):
    scene.change(SeedFixed, 2, seed=bytes(32))
    return 2, None, "seed"


def reordered_tree(scene):
    scene.change(Sealed, 1, order_root=bytes(31) + b"\1")
    return 1, None, "order.root"


def a_draw_left_out_of_the_order(scene):
    record = scene.record(Sealed, 1)
    scene.change(Sealed, 1, drawn=record.drawn - 1)
    return 1, None, "order.count"


def a_removed_draw(scene):
    del scene.records[scene.find(Drawn, 1)]
    return 1, None, "phase end"


def a_removed_end_of_the_draws(scene):
    del scene.records[scene.find(DrawEnded, 1)]
    return 1, None, "phase end"


def an_end_of_the_draws_in_another_block(scene):
    place = scene.find(DrawEnded, 1)
    at = scene.records[place].at
    scene.records[place] = DrawEnded(at._replace(block=at.block + 1, transaction=bytes(32)), 1)
    return 1, None, "phase end"


def a_barred_client_that_may_draw(scene):
    scene.change(RoundOpened, 1, barred=1)
    return 1, None, "opened.barred"


def a_dropped_survivor(scene):
    del scene.records[scene.find(Committed, 1)]
    return 1, None, "recovery.survivors"


def a_dropped_survivor_with_an_adjusted_count(scene):
    client = scene.record(Committed, 1).client
    count = scene.record(Recovered, 1).survivors
    del scene.records[scene.find(Committed, 1)]
    scene.change(Recovered, 1, survivors=count - 1)
    assert client
    return 1, None, "recovery.content"


def a_commit_without_a_share(scene):
    client = scene.record(Committed, 1).client
    del scene.records[scene.find(ShareEnded, 1)]
    scene.records = [r for r in scene.records if not (isinstance(r, Shared) and r.round == 1 and r.client == client)]
    return 1, client, "commit"


def a_commit_of_two_updates(scene):
    place = scene.find(Committed, 1)
    scene.records.insert(place + 1, scene.records[place])
    return 1, scene.records[place].client, "commit"


def a_late_share(scene):
    record = scene.record(Shared, 2)
    scene.change(Shared, 2, at=record.at._replace(block=record.at.block + 500))
    return 2, record.client, "share.block"


def an_early_release(scene):
    record = scene.record(Released, 1)
    scene.change(Released, 1, at=record.at._replace(block=scene.record(Sealed, 1).at.block))
    return 1, record.client, "release.block"


def double_close(scene):
    place = scene.find(Closed, 1)
    scene.records.insert(place + 1, scene.records[place])
    return 1, None, "closed"


def a_close_without_recovery(scene):
    del scene.records[scene.find(Recovered, 1)]
    return 1, None, "closed"


def a_replayed_round(scene):
    opened = scene.record(RoundOpened, 1)
    scene.records.append(opened)
    return 1, None, "opened"


def a_skipped_round_number(scene):
    scene.change(RoundOpened, 2, round=3)
    return 3, None, "opened"


def a_foreign_model_to_train_from(scene):
    scene.change(RoundOpened, 2, model_digest=scene.record(RoundOpened, 1).model_digest)
    return 2, None, "opened.model"


def another_opening_block(scene):
    """Windows would be a block longer; the seed block moves along."""
    opened = scene.record(RoundOpened, 1)
    scene.change(RoundOpened, 1, opened_at=opened.opened_at + 1, seed_block=opened.seed_block + 1)
    return 1, None, "opened.block"


def another_seed_block(scene):
    scene.change(RoundOpened, 1, seed_block=scene.record(RoundOpened, 1).seed_block + 1)
    return 1, None, "opened.seed block"


def another_sampling_rate(scene):
    scene.change(RoundOpened, 1, sampling_rate=999_999)
    return 1, None, "opened.sampling rate"


def a_failure_without_a_passed_deadline(scene):
    place = scene.find(Recovered, 2)
    at = scene.records[place].at
    scene.records[place] = Failed(round=2, reason=FailureReason.DEADLINE, evidence=bytes(32), at=at)
    return 2, None, "failed"


# --- content ----------------------------------------------------------------------------------------------------------


def swapped_update(scene):
    first, second = scene.record(Committed, 1, 0), scene.record(Committed, 1, 1)
    scene.change(Committed, 1, 0, digest=second.digest)
    assert first.digest != second.digest
    return 1, None, "closed.model"


def wrong_aggregate_by_one_unit_in_one_parameter(scene):
    model = load(scene.store.fetch(scene.record(Closed, 2).model_digest, LIMIT))
    name = sorted(model)[0]
    model[name] = model[name].copy()
    model[name].flat[0] = np.nextafter(model[name].flat[0], np.float32(9))
    scene.change(Closed, 2, model_digest=scene.store.put(dump(model)).digest)
    return 2, None, "closed.model"


def edited_recovery_record(scene):
    data = scene.store.fetch(scene.record(Recovered, 1).digest, LIMIT)
    middle = len(data) // 2
    digit = b"0" if data[middle : middle + 1] != b"0" else b"1"
    scene.change(Recovered, 1, digest=scene.store.put(data[:middle] + digit + data[middle + 1 :]).digest)
    return 1, None, "recovery.content"


def recovery_record_of_another_round(scene):
    scene.change(Recovered, 2, digest=scene.record(Recovered, 1).digest)
    return 2, None, "recovery.content"


def metrics_of_another_round(scene):
    scene.change(Closed, 2, metrics_digest=scene.record(Closed, 1).metrics_digest)
    return 2, None, "closed.metrics"


def boasted_metrics(scene):
    boast = json.dumps({"round": 1, "accuracy": 1.5, "loss": 0.0, "samples": 10}).encode()
    scene.change(Closed, 1, metrics_digest=scene.store.put(boast).digest)
    return 1, None, "closed.metrics"


def other_terms(scene):
    config = fetch_method(scene.store, scene.record(RoundOpened, 1).config_digest).config
    weaker = replace(config, ledger=replace(config.ledger, quorum=config.ledger.quorum + 1))
    scene.change(RoundOpened, 1, config_digest=scene.store.put(weaker.to_bytes()).digest)
    return 1, None, "opened.config"


def terms_that_are_no_terms(scene):
    scene.change(RoundOpened, 1, config_digest=scene.store.put(b"anything goes").digest)
    return 1, None, "opened.config"


def a_model_with_a_hole(scene):
    model = load(scene.store.fetch(scene.record(RoundOpened, 1).model_digest, LIMIT))
    model[sorted(model)[0]] = np.full_like(model[sorted(model)[0]], np.nan)
    scene.change(RoundOpened, 1, model_digest=scene.store.put(dump(model)).digest)
    return 1, None, "opened.model"


VILLAINS = [
    forged_draw_proof,
    draw_proof_of_another_round,
    draw_by_a_stranger,
    draw_under_another_clients_name,
    draw_twice,
    draw_by_a_member_that_was_not_active_yet,
    draw_by_a_member_that_has_left,
    false_sample_count,
    absurd_sample_count,
    late_draw,
    foreign_registration_proof,
    registration_of_a_key_twice,
    backdated_activation,
    removed_registration,
    another_seed_block_hash,
    another_seed,
    reordered_tree,
    a_draw_left_out_of_the_order,
    a_removed_draw,
    a_removed_end_of_the_draws,
    an_end_of_the_draws_in_another_block,
    a_barred_client_that_may_draw,
    a_dropped_survivor,
    a_dropped_survivor_with_an_adjusted_count,
    a_commit_without_a_share,
    a_commit_of_two_updates,
    a_late_share,
    an_early_release,
    double_close,
    a_close_without_recovery,
    a_replayed_round,
    a_skipped_round_number,
    a_foreign_model_to_train_from,
    another_opening_block,
    another_seed_block,
    another_sampling_rate,
    a_failure_without_a_passed_deadline,
    swapped_update,
    wrong_aggregate_by_one_unit_in_one_parameter,
    edited_recovery_record,
    recovery_record_of_another_round,
    metrics_of_another_round,
    boasted_metrics,
    other_terms,
    terms_that_are_no_terms,
    a_model_with_a_hole,
]


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
            path.write_bytes(Metrics(1, 0.5, 0.5, 1).to_bytes())
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
