"""The runners of a scenario take its keys by the same names: as options, and as keywords in Python."""

import inspect

import pytest

import fedgrove as fg
from fedgrove.node.cli.main import command_line
from fedgrove.node.cli.scenario_options import option
from fedgrove.node.scenario.names import NAMED

RUNNERS = ("demo", "network up", "simulate")
OWN = {"scenario", "settings", "directory", "out", "log_to", "resume", "continues", "as_json", "wait", "seeds", "help"}
"""Options that are no keys of a scenario."""


def options(runner: str) -> dict[str, list[str]]:
    command = command_line
    for word in runner.split():
        command = command.commands[word]
    return {parameter.name: parameter.opts for parameter in command.params}


@pytest.mark.parametrize("runner", RUNNERS)
def test_options_of_a_runner_are_short_names_of_keys(runner):
    taken = {name: words for name, words in options(runner).items() if name not in OWN}
    assert {"clients", "rounds", "dataset", "task", "data", "strategy", "alpha", "method"} <= set(taken) <= set(NAMED)
    assert all(option(name) in words for name, words in taken.items())


@pytest.mark.parametrize("call", [fg.demo, fg.simulate])
def test_calls_from_python_have_a_few_keywords_and_take_every_short_name(call):
    parameters = inspect.signature(call).parameters
    assert len(parameters) <= 13 and parameters["named"].kind is inspect.Parameter.VAR_KEYWORD
    with pytest.raises(fg.Error, match="unknown option 'client': known are clients, rounds"):
        call("digits", client=3)


def test_a_scenario_is_made_once_and_run_by_both():
    few = fg.scenario(settings={"partition.kind": "iid"}, clients=3, rounds=1, strategy="fedavg", seed=4)
    assert fg.simulate(few).rounds[0].accuracy == fg.demo(few).rounds[0].accuracy
