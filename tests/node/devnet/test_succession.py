"""Every kind of model that a federation can continue from goes on in real rounds; others are refused in a sentence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedgrove as fg
from fedgrove.chain.records import RoundOpened
from fedgrove.node.audit.succession import continuation
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.terms import continuing, fetch_method
from fedgrove.node.protocol.terms import Continues
from tests.node.devnet.test_table_task import prepare
from tests.node.devnet.test_task_subject import CLASSIFIER, write_table

PLAN = {"clients": 3, "rounds": 1, "strategy": "fedavg", "sandbox": "off"}
CONTINUES = Continues(1, "0x" + 40 * "1", 2, 10, 64 * "a")


def network(place: Path, **options) -> dict:
    return {"subject": "digits", **PLAN, **options}


def task(place: Path) -> dict:
    (place / "task").mkdir()
    (place / "task" / "task.py").write_text(CLASSIFIER)
    write_table(place / "data.csv", 60, 1)
    return {"subject": place / "task", "data": place / "data.csv", **PLAN}


def table(place: Path) -> dict:
    """A first round sums means and deviations of the columns, which the model has from then on."""
    prepare(place)
    return {"subject": place / "task", "data": place / "sites", **PLAN, "clients": 4}


def with_settings(**settings) -> Callable[[Path], dict]:
    return lambda place: network(place, settings={name.replace("__", "."): each for name, each in settings.items()})


KINDS: dict[str, Callable[[Path], dict]] = {
    "network": network,
    "task": task,
    "table": table,
    "scaffold": lambda place: network(place, strategy="scaffold"),
    "momentum": with_settings(server__step="momentum"),
    "evaluated": lambda place: network(place, held_out=0.2),
    "client-level": lambda place: network(place, epsilon=50.0),
    "local": with_settings(privacy__mechanism="local", privacy__epsilon=8.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_a_kind_are_continued_in_audited_rounds(kind, tmp_path):
    options = KINDS[kind](tmp_path)
    first = fg.demo(**options, out=tmp_path / "a")
    second = fg.demo(**options, continues=first.history, out=tmp_path / "b")
    verdict = fg.audit(tmp_path / "b", before=tmp_path / "a")
    assert verdict.verdict == "verified" and verdict.before.verified
    assert second.rounds[0].status == "closed"
    opened = next(each for each in second.history.records if isinstance(each, RoundOpened))
    assert opened.model_digest.hex() == verdict.before.model
    assert not all(np.array_equal(first.history.model()[name], each) for name, each in second.history.model().items())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run of a network under FedAvg."""
    return fg.demo("digits", **PLAN, out=tmp_path_factory.mktemp("plain") / "a").history


@pytest.mark.parametrize(
    "changes",
    [{"strategy": "fedprox"}, {"clients": 5}, {"epsilon": 50.0}, {"held_out": 0.2}, {"masking": "pairwise"}],
    ids=lambda changes: next(iter(changes)),
)
def test_other_terms_may_all_differ(plain, changes, tmp_path):
    made = fg.demo("digits", **{**PLAN, **changes}, continues=plain, out=tmp_path / "b")
    assert made.verdict.verdict == "verified" and made.rounds[0].status == "closed"


@pytest.mark.parametrize(
    "changes",
    [
        {"strategy": "scaffold"},
        {"settings": {"model.name": "small-mlp"}},
        {"settings": {"server.step": "momentum"}},
    ],
    ids=["strategy", "network", "server's step"],
)
def test_a_model_of_another_kind_is_refused(plain, changes, tmp_path):
    with pytest.raises(InvalidConfig, match=r"cannot go on from round 1 of ledger .*; keep the task, the strategy"):
        fg.demo("digits", **{**PLAN, **changes}, continues=plain, out=tmp_path / "b")
    assert not (tmp_path / "b.unfinished").exists()


def test_a_larger_model_than_members_fetch_is_refused(plain):
    earlier = continuation(plain.ledger, plain.store)
    config = fetch_method(plain.store, bytes.fromhex(plain.ledger.deployment.terms.config)).config
    with pytest.raises(InvalidConfig, match=r"max_blob_mib allows fewer"):
        continuing(config, earlier.model, CONTINUES, bytes(config.max_blob_bytes + 1))


def test_clusters_are_refused_as_they_number_one_ledgers_clients(plain, tmp_path):
    plan = {**PLAN, "clients": 8, "rounds": 2}
    with pytest.raises(InvalidConfig, match=r"^start.continues must be left out with a \[procfl\] table: its clusters"):
        fg.demo("digits", **plan, method="procfl", continues=plain, out=tmp_path / "b")
