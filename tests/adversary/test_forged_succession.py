"""A founder says that a new federation continues one that people trust, and has its members train from something else.

The records of the new federation are all right: only who also looks at the earlier history can tell.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import STORE
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.succession import Continuation, continuation, with_before
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.protocol.terms import StartSettings
from fedgrove.node.scenario.reading import scenario
from tests.node.conftest import run_federation


def honest(earlier: Continuation) -> Continuation:
    return earlier


def poisoned(earlier: Continuation) -> Continuation:
    """The founder's own model, under the name of the earlier federation's."""
    changed = {name: np.array(-3 * tensor) for name, tensor in load(earlier.model).items()}
    return replace(earlier, model=dump(changed))


def of_another_round(earlier: Continuation) -> Continuation:
    """An old model, passed off as the latest."""
    return replace(earlier, continues=replace(earlier.continues, round=2))


def of_another_chain_of_blocks(earlier: Continuation) -> Continuation:
    """A history that the founder made up for this ledger."""
    return replace(earlier, continues=replace(earlier.continues, head_hash=64 * "f"))


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (honest, ""),
        (poisoned, "the round has another model"),
        (of_another_round, "the round has another model"),
        (of_another_chain_of_blocks, "has a different hash"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_who_looks_at_the_earlier_history_finds_the_lie(run, tmp_path, lie, reason):
    said = lie(continuation(run.history, run.store, 1))
    DiskStore(tmp_path / STORE).put(said.model)
    start = StartSettings(cid_of(said.model).digest.hex(), said.continues)
    made = run_federation(tmp_path, scenario(clients=3, rounds=1, strategy="fedavg"), start=start)
    alone = Auditor(made.facts, made.records, made.store).run()
    assert alone.verdict == "verified" and "(not looked at)" in str(alone.before)
    found = with_before(alone, run.history, run.store)
    assert (found.verdict == "verified") == (not reason) == found.before.verified
    assert reason in found.reason
