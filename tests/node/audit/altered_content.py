"""Blobs that are not what they must be, with the records that name them changed along.

Each function changes a ``Scene`` (``test_tampering``) and says what is to be found: round, client and field.
"""

import json
from dataclasses import replace

import numpy as np

from fedgrove.chain.records import (
    Closed,
    Committed,
    RoundOpened,
)
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.methods.terms import fetch_method

LIMIT = 1 << 26


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
    data = scene.store.fetch(bytes.fromhex(scene.metrics(1).recovery), LIMIT)
    middle = len(data) // 2
    digit = b"0" if data[middle : middle + 1] != b"0" else b"1"
    scene.state(1, recovery=scene.store.put(data[:middle] + digit + data[middle + 1 :]).digest.hex())
    return 1, None, "recovery.content"


def recovery_record_of_another_round(scene):
    scene.state(2, recovery=scene.metrics(1).recovery)
    return 2, None, "recovery.content"


def head_before_the_commits_had_ended(scene):
    block = scene.record(Committed, 2).at.block - 1
    scene.state(2, head=(block, scene.facts.block_hash(block).hex()))
    return 2, None, "closed.metrics"


def head_of_another_chain(scene):
    scene.state(2, head=(scene.metrics(2).head[0], "ab" * 32))
    return 2, None, "closed.metrics"


def metrics_of_another_round(scene):
    scene.change(Closed, 2, metrics_digest=scene.record(Closed, 1).metrics_digest)
    return 2, None, "recovery.content"  # they name that of the other round


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


ALTERATIONS = [
    swapped_update,
    wrong_aggregate_by_one_unit_in_one_parameter,
    edited_recovery_record,
    recovery_record_of_another_round,
    head_before_the_commits_had_ended,
    head_of_another_chain,
    metrics_of_another_round,
    boasted_metrics,
    other_terms,
    terms_that_are_no_terms,
    a_model_with_a_hole,
]
