"""A stand-by that closes a round with metrics that no reader of numbers can take.

Nobody can recompute what a closing says of a coordinator's own test data. A member that may close in the coordinator's
place states 10⁴⁰⁰⁰ samples, or tens of thousands of metrics with names of kilobytes: canonical JSON, within the size.
Whoever logs curves (`--log-to`) turns them into floats, one call each, and ended there, again after every restart. What
stops it: metrics are numbers that floats can hold, and as many by name as terms can ask for.
"""

import json

import pytest

from fedgrove.chain.records import Closed, Position, RoundOpened
from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.learning import settings
from fedgrove.node.privacy.records import LocalRecord
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.status.figure_targets import FigureLogs, watched_rounds

HUGE = 10**4000
LOSSES = {"loss": 1 << 24, "squared_loss": 1 << 24}
SHOWN = (1, "ab" * 32, (3, "cd" * 32), 0.1, 10, 0.5)
HONEST = Metrics(*SHOWN, LocalRecord(1.0, 1e-5, 1.0, 1.0, 4), members=MembersMetrics(1, LOSSES))
HOSTILE = {
    "samples": {"samples": HUGE},
    "privacy": {"privacy": HONEST.privacy.to_table() | {"uploads": HUGE}},
    "many": {"members": HONEST.members.to_table() | {"sums": LOSSES | {f"m{i}": 0 for i in range(30_000)}}},
    "long": {"members": HONEST.members.to_table() | {"sums": LOSSES | {"m" * 100_000: 0}}},
}


def lying(lie: str) -> bytes:
    """Honest metrics, but for one thing."""
    return canonical_json(HONEST.to_table() | HOSTILE[lie])


class Curves:
    """Takes floats, as TensorBoard and MLflow do; each is a request to a server."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def write(self, run, number, figures) -> None:
        self.names += [name for name, value in figures.items() if float(value) == float(value)]

    def close(self) -> None:
        pass


def logged(directory, metrics: bytes) -> list[str]:
    """Names of the figures that a coordinator logs of a round that was closed with these metrics."""
    store, curves = DiskStore(directory), Curves()
    blob = store.put(b"a model, or terms").digest
    end = Closed(Position(9, bytes(32), 0), 1, blob, store.put(metrics).digest)
    opened = RoundOpened(Position(1, bytes(32), 0), 1, blob, blob, 1_000_000, 1, 2, ())
    rounds = Rounds(rounds={1: RoundRecords(opened, end=end)})
    watched_rounds(FigureLogs({"curves": curves}, pytest.fail), store, "run")(rounds)
    return curves.names


@pytest.mark.parametrize("lie", HOSTILE)
def test_they_are_no_metrics_and_nothing_of_them_is_logged(tmp_path, lie):
    with pytest.raises(InvalidContent):
        Metrics.from_bytes(lying(lie))
    assert logged(tmp_path, lying(lie)) == ["drawn", "committed", "blocks"]


@pytest.mark.parametrize("lie", [{"\x1b[2J\n" * 10_000: 1}, {"privacy": {"mechanism": "\x1b[2J\n" * 10_000}}])
def test_a_refusal_quotes_nothing_that_moves_a_terminal_or_fills_a_log(lie):
    with pytest.raises(InvalidContent) as refused:
        Metrics.from_bytes(canonical_json(HONEST.to_table() | lie))
    assert len(str(refused.value)) < 300 and str(refused.value).isprintable()


def test_honest_ones_are_logged(tmp_path):
    assert {"accuracy", "samples", "members.loss", "privacy.uploads"} <= set(logged(tmp_path, HONEST.to_bytes()))


def test_terms_ask_for_no_name_that_cannot_be_stated():
    longest = "m" * 40
    assert settings.is_metric(longest) and not settings.is_metric(longest + "m")
    stated = Metrics(*SHOWN, members=MembersMetrics(1, LOSSES | {longest: 3}))
    assert json.loads(stated.to_bytes())["members"]["sums"][longest] == 3
    assert Metrics.from_bytes(stated.to_bytes()) == stated
