"""What a demonstration shows while it goes on."""

import re

from fedgrove.node.cli.progress import DemoDisplay
from fedgrove.node.protocol.step import Kind, Step


def test_the_time_left_is_told_after_each_round_but_the_last(capsys):
    display = DemoDisplay(rounds=3)
    for _ in range(3):
        for acted in ("opened a round", "closed the round at accuracy 0.5"):
            display.observe("coordinator", Step.act("close", acted, kind=Kind.ENDED))
    shown = capsys.readouterr().err
    assert re.findall(r"about \d+ s left for (\d) rounds", shown) == ["2", "1"] and display.left == ""


def test_nothing_is_guessed_before_a_round_has_closed():
    display = DemoDisplay(rounds=3)
    display.observe("coordinator", Step.act("open", "opened a round", kind=Kind.OPENED))
    assert display.left == ""
