"""What a model costs a role beside itself: bounds in models, as allocations that Python knows."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensor_views import parts
from fedgrove.node.base.tensors import Layout, dump, flatten, load, unflatten
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.masking.ring import decode, encode
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.terms import FederationConfig, ModelSpec, StrategySettings

MODEL = {f"{number}.weight": np.ones((1024, 1024), np.float32) * number for number in range(8)}
BYTES = sum(value.nbytes for value in MODEL.values())
DATA = dump(MODEL)


@pytest.fixture
def store(tmp_path):
    made = DiskStore(tmp_path / "store")
    made.put(DATA)
    return made


def models_for(work) -> float:
    """The most that a piece of work holds at once, in models."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / BYTES
    finally:
        tracemalloc.stop()


def test_a_model_is_fetched_and_read_in_its_own_size(store):
    digest = cid_of(DATA).digest
    assert models_for(lambda: load(store.fetch(digest, 1 << 30))) < 1.3


def test_the_journal_takes_tensors_where_they_lie_and_gives_them_back_once(tmp_path):
    journal = Journal(tmp_path / "journal", bytes(32))
    assert models_for(lambda: journal.write(1, "update", parts(MODEL))) < 0.3
    assert models_for(lambda: load(journal.read(1, "update"))) < 1.3


def test_encoding_and_decoding_need_one_vector():
    layout = Layout.of(MODEL)
    assert models_for(lambda: encode(flatten(MODEL), layout, 1, 2, 8.0, in_place=True)) < 1.3
    words = encode(flatten(MODEL), layout, 1, 1, 8.0)
    assert models_for(lambda: unflatten(decode(words, 1, 1, 8.0, in_place=True), layout)) < 0.3


def test_a_models_digest_needs_no_bytes_beside_it():
    terms = FederationConfig(
        TrainingTerms(),
        TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10)),
        strategy=StrategySettings("fedavg"),
    )
    method = method_of(terms)
    assert models_for(lambda: method.model_digest(MODEL)) < 0.3
    assert method.model_digest(MODEL) == cid_of(DATA).digest


def test_the_layout_of_a_model_is_read_once_for_a_round():
    reads = []
    layouts: dict = {}

    def inputs(digest):
        current = SimpleNamespace(opened=SimpleNamespace(model_digest=digest))
        return RoundInputs(None, current, None, None, None, lambda: reads.append(digest) or MODEL, layouts)

    for digest in (b"1", b"1", b"2", b"2"):
        assert inputs(digest).layout == Layout.of(MODEL)
    assert reads == [b"1", b"2"] and set(layouts) == {b"2"}
