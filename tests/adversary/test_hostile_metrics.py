"""A stand-by that closes a round with metrics that no reader of numbers can take.

Nobody can recompute what a closing says of a coordinator's own test data. A member that may close in the coordinator's
place states 10⁴⁰⁰⁰ samples, or tens of thousands of metrics with names of kilobytes: canonical JSON, within the size.
Whoever logs curves (`--log-to`) turns them into floats, one call each, and ended there, again after every restart. What
stops it: metrics are numbers that floats can hold, and as many by name as terms can ask for.
"""

import json
from types import SimpleNamespace

import pytest
from fedgrove.chain.records import Closed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.learning import settings
from fedgrove.node.privacy import records
from fedgrove.node.privacy.records import LocalRecord
from fedgrove.node.protocol import content, members_metrics
from fedgrove.node.protocol.content import InvalidBlob, Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.figure_targets import FigureLogs, watched_rounds

from tests.node.roles.fakes import entry_with

HUGE = 10**4000
LOSSES = {"loss": 1 << 24, "squared_loss": 1 << 24}
HOSTILE = {
    "samples": Metrics(1, 0.5, 0.1, HUGE),
    "privacy": Metrics(1, 0.5, 0.1, 10, LocalRecord(1.0, 1e-5, 1.0, 1.0, HUGE)),
    "many": Metrics(1, 0.5, 0.1, 10, members=MembersMetrics(1, LOSSES | {f"m{i}": 0 for i in range(30_000)})),
    "long": Metrics(1, 0.5, 0.1, 10, members=MembersMetrics(1, LOSSES | {"m" * 100_000: 0})),
}


class Curves:
    """Takes floats, as TensorBoard and MLflow do; each is a request to a server."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def write(self, run, number, figures) -> None:
        self.names += [name for name, value in figures.items() if float(value) == float(value)]

    def close(self) -> None:
        pass


def logged(directory, metrics: Metrics) -> list[str]:
    """Names of the figures that a coordinator logs of a round that was closed with these metrics."""
    store, curves = DiskStore(directory), Curves()
    end = object.__new__(Closed)
    for name, value in {"metrics_digest": store.put(metrics.to_bytes()).digest, "at": SimpleNamespace(block=9)}.items():
        object.__setattr__(end, name, value)
    rounds = Rounds(rounds={1: entry_with(1, end=end)})
    watched_rounds(FigureLogs({"curves": curves}, pytest.fail), store, "run")(rounds)
    return curves.names


@pytest.mark.parametrize("lie", HOSTILE)
def test_they_are_no_metrics_and_nothing_of_them_is_logged(tmp_path, lie):
    with pytest.raises(InvalidBlob):
        Metrics.from_bytes(HOSTILE[lie].to_bytes())
    assert logged(tmp_path, HOSTILE[lie]) == ["drawn", "committed", "blocks"]


def test_honest_ones_are_logged(tmp_path):
    honest = Metrics(1, 0.5, 0.1, 10, LocalRecord(1.0, 1e-5, 1.0, 1.0, 4), members=MembersMetrics(1, LOSSES))
    names = logged(tmp_path, honest)
    assert {"accuracy", "samples", "members_loss", "privacy_uploads"} <= set(names)


@pytest.fixture
def unbounded(monkeypatch):
    monkeypatch.setattr(content, "MAX_SAMPLES", 2 * HUGE)
    monkeypatch.setattr(records, "_MOST", 2 * HUGE)
    monkeypatch.setattr(members_metrics, "MAX_METRICS", 1 << 20)
    monkeypatch.setattr(members_metrics, "is_metric", str.isidentifier)


@pytest.mark.parametrize("lie", ["samples", "privacy"])
def test_without_bounds_they_end_the_coordinator(tmp_path, unbounded, lie):
    with pytest.raises(OverflowError):
        logged(tmp_path, HOSTILE[lie])


def test_without_bounds_the_coordinator_logs_for_as_long_as_the_attacker_likes(tmp_path, unbounded):
    assert len(logged(tmp_path, HOSTILE["many"])) > 30_000
    assert max(map(len, logged(tmp_path, HOSTILE["long"]))) > 100_000


def test_terms_ask_for_no_name_that_cannot_be_stated():
    longest = "m" * 40
    assert settings.is_metric(longest) and not settings.is_metric(longest + "m")
    stated = Metrics(1, 0.5, 0.1, 10, members=MembersMetrics(1, LOSSES | {longest: 3}))
    assert json.loads(stated.to_bytes())["members"]["sums"][longest] == 3
    assert Metrics.from_bytes(stated.to_bytes()) == stated
