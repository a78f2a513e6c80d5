"""The streaming sum: any chunks, exact lengths, each survivor once, memory of one model."""

import tracemalloc

import numpy as np
import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate, InvalidUpdate
from fedgrove.node.masking.client import mask_update
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.sealing import MaskingRefused
from tests.node.masking.rounds import Round

N = 6
EVERYBODY = tuple(range(N))
SURVIVORS = (0, 1, 2, 4, 5)


@pytest.fixture(scope="module")
def work():
    return Round.make(N)


@pytest.fixture(scope="module")
def record(work):
    blobs = {p: work.blob(p) for p in EVERYBODY}
    return work.record(blobs, SURVIVORS, SURVIVORS)


@pytest.fixture(scope="module")
def updates(work):
    return {p: work.masked(p, EVERYBODY).tobytes() for p in SURVIVORS}


@pytest.fixture
def aggregate(work, record):
    return Aggregate(work.graph, EVERYBODY, SURVIVORS, record, work.layout, work.bound)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 16, 1000])
def test_chunks_may_be_of_any_size(work, aggregate, updates, size):
    for position, data in updates.items():
        aggregate.add(position, [b"", *(data[i : i + size] for i in range(0, len(data), size)), b""])
    assert aggregate.close().tobytes() == work.integer_mean(SURVIVORS).tobytes()


def test_the_order_of_updates_does_not_matter(work, aggregate, updates):
    for position in reversed(SURVIVORS):
        aggregate.add(position, [updates[position]])
    assert aggregate.close().tobytes() == work.integer_mean(SURVIVORS).tobytes()


@pytest.mark.parametrize(
    "change", [lambda d: d[:-1], lambda d: d[:-4], lambda d: d + b"\0", lambda d: d * 2, lambda d: b""]
)
@pytest.mark.parametrize("size", [3, 1000])
def test_an_update_of_another_length_names_the_client_and_spoils_the_sum(aggregate, updates, change, size):
    aggregate.add(0, [updates[0]])
    wrong = change(updates[1])
    with pytest.raises(InvalidUpdate, match="update of client 5 is not exactly 88 bytes") as caught:
        aggregate.add(1, [wrong[i : i + size] for i in range(0, len(wrong), size)])
    assert caught.value.client == 5
    with pytest.raises(InvalidUpdate, match="cannot be used"):
        aggregate.add(1, [updates[1]])
    with pytest.raises(InvalidUpdate, match="cannot be used"):
        aggregate.close()


def test_a_stream_that_breaks_spoils_the_sum(aggregate, updates):
    def broken():
        yield updates[1][:20]
        raise OSError("the store went away")

    with pytest.raises(OSError):
        aggregate.add(1, broken())
    with pytest.raises(InvalidUpdate, match="cannot be used"):
        aggregate.add(1, [updates[1]])


def test_each_survivor_is_added_once_and_nobody_else(aggregate, updates):
    aggregate.add(0, [updates[0]])
    for position in (0, 3):
        with pytest.raises(InvalidUpdate, match="not a survivor, or its update was already added"):
            aggregate.add(position, [updates[0]])


def test_a_missing_survivor_is_named(aggregate, updates):
    for position in (0, 1, 4, 5):
        aggregate.add(position, [updates[position]])
    with pytest.raises(InvalidUpdate, match="client 8 is not in the sum"):
        aggregate.close()


def test_a_record_for_other_lists_is_refused(work, record):
    with pytest.raises(ValueError, match="another round or list"):
        Aggregate(work.graph, EVERYBODY, EVERYBODY, record, work.layout, work.bound)
    with pytest.raises(MaskingRefused):
        Aggregate(work.graph, EVERYBODY, (0, 1), record, work.layout, work.bound)


def test_one_unit_in_one_update_shows_in_the_model(work, aggregate, updates):
    for position, data in updates.items():
        words = np.frombuffer(data, "<u4").copy()
        words[3] += (position == 2) * 64
        aggregate.add(position, [words.tobytes()])
    differing = np.flatnonzero(aggregate.close() != work.integer_mean(SURVIVORS))
    assert differing.tolist() == [3]


def test_the_mean_of_integers_is_near_that_of_floats(work):
    plain = work.integer_mean(SURVIVORS)
    weights = np.array([work.graph.participants[p].samples for p in SURVIVORS], float)
    average = np.average(np.array([work.vectors[p] for p in SURVIVORS], float), axis=0, weights=weights)
    assert np.abs(plain - average).max() < 1e-6


def test_memory_does_not_grow_with_the_number_of_clients():
    """Peak below three models of 1 MiB for 6 as for 40 clients (a naive sum would hold 40)."""
    layout = Layout(("w",), ((1 << 18,),))
    for n in (6, 40):
        work = Round.make(n, layout=layout)
        record = work.record({p: work.blob(p) for p in range(n)}, range(n), range(n))
        piece = bytes(1 << 16)
        tracemalloc.start()
        aggregate = Aggregate(work.graph, range(n), range(n), record, layout, work.bound)
        for position in range(n):
            aggregate.add(position, (piece for _ in range(16)))
        aggregate.close()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 << 20


def test_the_record_is_all_an_auditor_needs(work, record, updates):
    """Whoever has graph, lists and hashes from the ledger gets the same bytes from the record's blob."""
    parsed = RecoveryRecord.parse(record.to_bytes(), work.graph, EVERYBODY, SURVIVORS, work.seed_hashes(SURVIVORS))
    aggregate = Aggregate(work.graph, frozenset(EVERYBODY), list(SURVIVORS), parsed, work.layout, work.bound)
    for position in SURVIVORS:
        aggregate.add(position, [updates[position]])
    assert aggregate.close().tobytes() == work.integer_mean(SURVIVORS).tobytes()


# --- the client's refusals --------------------------------------------------------------------------------------------


def test_a_client_that_did_not_share_does_not_mask(work):
    with pytest.raises(MaskingRefused, match="has not shared"):
        work.masked(0, (1, 2, 3))


def test_a_client_without_a_sharing_partner_does_not_mask(work):
    strangers = [p for p in EVERYBODY if p not in work.graph.neighbours[0]]
    with pytest.raises(MaskingRefused, match="masked by 0 pairs, but 1 are needed"):
        work.masked(0, strangers)


def test_a_client_does_not_mask_with_secrets_of_other_keys(work):
    with pytest.raises(MaskingRefused, match="do not match the keys"):
        mask_update(work.graph, 0, work.secrets[1], EVERYBODY, work.vectors[0], work.layout, bound=8.0)


def test_with_kappa_below_one_each_tensor_needs_two_pairs():
    thin = Round.make(8, kappa=0.5)
    with pytest.raises(
        MaskingRefused, match="tensor 'kernel' of client 2 would be masked by 1 pairs, but 2 are needed"
    ):
        thin.masked(0, range(8))
    assert Round.make(8, kappa=0.75).masked(0, range(8)).shape == (22,)


def test_a_value_over_the_bound_is_refused_before_anything_is_masked(work):
    vector = work.vectors[0].copy()
    vector[-1] = 8.5
    with pytest.raises(InvalidContent, match=r"tensor 'norm' holds 8\.5"):
        mask_update(work.graph, 0, work.secrets[0], EVERYBODY, vector, work.layout, bound=8.0)


def test_masking_leaves_the_vector_alone(work):
    before = work.vectors[0].copy()
    masked = work.masked(0, EVERYBODY)
    assert np.array_equal(before, work.vectors[0])
    assert masked.dtype == np.dtype("<u4") and masked.shape == before.shape
