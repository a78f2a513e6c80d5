"""An update is opened by its client's mask secret, or by all its partners': exactly as it was sent, or not at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import Error
from fedgrove.node.masking.opening import open_update, valid_secrets
from fedgrove.node.masking.ring import encode
from fedgrove.node.masking.x_only import ORDER
from tests.node.masking.rounds import Round


def sent(work: Round, position: int) -> np.ndarray:
    samples = work.graph.participants[position].samples
    return encode(work.vectors[position], work.layout, samples, work.graph.total_samples, work.bound)


@settings(max_examples=25, deadline=None)
@given(st.integers(5, 14), st.integers(0, 2**32), st.sampled_from(["bbtsa", "pairwise"]), st.data())
def test_what_is_opened_is_what_was_sent(n, seed, mode, data):
    """Any tree, who did not share, who dropped out, who tells its secret: exact, or closed to who lacks a mask."""
    everybody = range(n)
    work = Round.make(n, seed, mode=mode, degree=data.draw(st.integers(0, 3)))
    subsets = st.lists(st.sampled_from(everybody), unique=True)
    unshared = set(data.draw(subsets)[: n // 5])
    sharers = set(everybody) - unshared
    survivors = sorted(sharers - set(data.draw(subsets)[: n // 5]))
    blobs = {p: work.blob(p) for p in sharers}
    try:
        record = work.record(blobs, survivors, survivors)
    except (Error, ValueError):
        return  # too few are left, or not connected: nothing is summed
    told = {p: work.secrets[p].mask_secret for p in data.draw(subsets)}
    for position in survivors:
        try:
            masked = work.masked(position, sharers)
        except (Error, ValueError):
            continue  # none of its partners shared
        partners = set(work.graph.neighbours[position]) & sharers
        found = open_update(work.graph, position, told, sharers, record, masked)
        if position in told or partners <= told.keys() | record.mask_secrets.keys():
            assert (found == sent(work, position)).all()
        else:
            assert found is None


def test_secrets_of_one_group_open_all_of_it_and_nothing_of_another():
    groups = ((0, 1, 4, 8), (2, 3, 5, 6, 7))
    work = Round.make(9, groups=groups, mode="pairwise")
    sharers, survivors = set(range(9)), [0, 1, 2, 3, 4, 5, 6, 8]  # 7 dropped out
    record = work.record({p: work.blob(p) for p in sharers}, survivors, survivors)
    told = {p: work.secrets[p].mask_secret for p in groups[1][:3]}  # 6 is silent, and opened by its partners
    masked = {p: work.masked(p, sharers) for p in survivors}
    opened = {p: open_update(work.graph, p, told, sharers, record, masked[p]) for p in survivors}
    assert {p for p in survivors if opened[p] is not None} == {2, 3, 5, 6}
    assert all((opened[p] == sent(work, p)).all() for p in (2, 3, 5, 6))


def test_a_secret_that_is_not_the_ledgers_counts_as_none():
    work = Round.make(5)
    right = work.secrets[1].mask_secret
    negated = (ORDER - int.from_bytes(right)).to_bytes(32)  # another secret of the same key
    wrong = (b"", right[:31], right + b"\0", negated, bytes(32), b"\xff" * 32, work.secrets[2].mask_secret)
    assert valid_secrets(work.graph, {1: right}) == {1: right}
    for secret in wrong:
        assert valid_secrets(work.graph, {1: secret}) == {}


@pytest.mark.parametrize("place", [0, 3, 20])
def test_a_changed_upload_opens_to_a_changed_update(place):
    """There is no redundancy to hide in: what is opened is a function of the bytes that were summed."""
    work = Round.make(4, mode="pairwise")
    everybody = range(4)
    record = work.record({p: work.blob(p) for p in everybody}, everybody, everybody)
    masked = work.masked(2, everybody)
    masked[place] += 77
    opened = open_update(work.graph, 2, {2: work.secrets[2].mask_secret}, everybody, record, masked)
    assert np.flatnonzero(opened - sent(work, 2)).tolist() == [place]
