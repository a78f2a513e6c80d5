"""A service between two blocks: when it looks again, and when it waits."""

import io
from types import SimpleNamespace

import pytest

from fedgrove.chain.errors import ChainError, InsufficientFunds
from fedgrove.chain.records.deployment import Terms
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.roles.service import GivenUp, Service


class Blocks:
    """New blocks, as of the waits whose numbers are given; has how long somebody would have waited for each."""

    def __init__(self, new=()):
        self.waits = []
        self._new = new

    def wait(self, seconds):
        self.waits.append(seconds)
        return len(self.waits) in self._new


class Role:
    """Does in each turn what comes next, and is finished after the last."""

    account = ""
    view = SimpleNamespace(
        block=1, rounds=Rounds(), terms=Terms(64 * "1", 64 * "1"), settings=SimpleNamespace(draw_window=10)
    )

    def __init__(self, *turns):
        self._turns = list(turns)

    @property
    def finished(self):
        return not self._turns

    def step(self):
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn


ACTED, LAST = Step.act("draw", "drew"), Step.wait("open", "nobody: all rounds are over")
AWAY = Step.wait("store", "the store: it is away", 2, Kind.CUT_OFF)


def run(*turns, patience=60.0, new=()):
    """How long a service would have waited for blocks until its role was finished, and its log."""
    blocks, log = Blocks(new), io.StringIO()
    Service({"client": Role(*turns, LAST)}, blocks, ServiceLog("client", log), ServiceMetrics(), patience).run()
    return blocks.waits, log.getvalue()


def test_after_something_done_it_looks_again_at_once():
    assert run(ACTED, ACTED)[0] == []


@pytest.mark.parametrize(
    "turn",
    [Step.wait("draw", "others"), AWAY, ChainError("away"), InsufficientFunds("no gas"), RuntimeError("a fault")],
    ids=["waiting", "store away", "chain away", "no funds", "unexpected"],
)
def test_after_a_wait_or_a_failure_it_waits_for_the_next_block(turn):
    assert run(turn)[0] == [1.0]


CONTENT = Step.wait("recover", "client 2 to publish", kind=Kind.FETCHES)
BUSY = Step.wait("train", "this client: it is training", kind=Kind.WORKS)


@pytest.mark.parametrize("turn", [CONTENT, BUSY], ids=["content", "training"])
def test_what_no_block_tells_of_is_looked_for_sooner_and_then_less_and_less_often(turn):
    assert run(*6 * [turn])[0] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_it_is_looked_for_sooner_again_after_a_block_and_after_something_done():
    assert run(*4 * [CONTENT], new=[2])[0] == [0.1, 0.2, 0.1, 0.2]
    assert run(CONTENT, CONTENT, ACTED, CONTENT)[0] == [0.1, 0.2, 0.1]


@pytest.mark.parametrize("turn", [AWAY, ChainError("away")], ids=["store", "chain"])
def test_it_gives_up_when_chain_or_store_stay_away(turn):
    with pytest.raises(GivenUp, match="gave up after"):
        run(turn, patience=-1.0)


def test_a_wait_is_logged_once_and_what_was_done_each_time():
    _, log = run(Step.wait("draw", "others"), Step.wait("draw", "others"), ACTED, ACTED, Step.wait("draw", "others"))
    assert [log.count(words) for words in ('"waits for others"', '"drew"')] == [2, 2]


def test_a_line_of_the_log_is_written_at_once(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        ServiceLog("client", stream).write("info", "drew")
        assert '"drew"' in (tmp_path / "log").read_text()
