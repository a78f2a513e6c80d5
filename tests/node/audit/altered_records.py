"""Records as a dishonest chain or exporter would show them.

Each function changes a ``Scene`` (``test_tampering``) and says what is to be found: round, client and field.
"""

from dataclasses import replace

from fedgrove.chain.records import (
    Closed,
    Committed,
    DrawEnded,
    Drawn,
    Failed,
    Registered,
    Released,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Withdrawn,
)


def flip(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


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


def draw_that_is_late_although_the_quorum_had_drawn(scene):
    place = scene.find(Drawn, 1, scene.facts.settings.quorum)
    record = scene.records[place]
    scene.records[place] = replace(record, at=record.at._replace(block=record.at.block + 1000))
    return 1, record.client, "draw.block"


def early_draw(scene):
    record, opened = scene.record(Drawn, 1), scene.record(RoundOpened, 1)
    scene.change(Drawn, 1, at=record.at._replace(block=opened.seed_block))
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
    scene.change(RoundOpened, 1, barred=(scene.record(Registered).account,))
    return 1, None, "opened.barred"


def a_dropped_survivor(scene):
    del scene.records[scene.find(Committed, 1)]
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


def a_close_without_releases(scene):
    scene.records = [r for r in scene.records if not (isinstance(r, Released) and r.round == 1)]
    return 1, None, "closed"


def a_close_by_who_did_not_commit(scene):
    gone = scene.record(Registered, index=next(iter(scene.dropped(1))) - 1)
    place = scene.find(Closed, 1)
    late = scene.records[place].at.block + 2 * scene.facts.settings.coordinator_grace
    scene.records[place:] = [
        replace(scene.records[place], at=scene.records[place].at._replace(block=late, author=gone.account))
    ]
    return 1, None, "closed.author"


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
    place = scene.find(Closed, 2)
    scene.records[place] = Failed(scene.records[place].at, 2)
    return 2, None, "failed"


ALTERATIONS = [
    forged_draw_proof,
    draw_proof_of_another_round,
    draw_by_a_stranger,
    draw_under_another_clients_name,
    draw_twice,
    draw_by_a_member_that_was_not_active_yet,
    draw_by_a_member_that_has_left,
    false_sample_count,
    absurd_sample_count,
    draw_that_is_late_although_the_quorum_had_drawn,
    early_draw,
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
    a_commit_without_a_share,
    a_commit_of_two_updates,
    a_late_share,
    an_early_release,
    double_close,
    a_close_without_releases,
    a_close_by_who_did_not_commit,
    a_replayed_round,
    a_skipped_round_number,
    a_foreign_model_to_train_from,
    another_opening_block,
    another_seed_block,
    another_sampling_rate,
    a_failure_without_a_passed_deadline,
]
