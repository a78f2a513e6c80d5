"""Every command that says something says it to machines, too."""

import json

from fedgrove.node.cli.main import command_line
from tests.node.cli.test_bad_input import fedgrove
from tests.test_docs import commands

WITHOUT = {
    "fedgrove client": "its log is JSON lines",
    "fedgrove coordinator": "its log is JSON lines",
    "fedgrove completion": "a script for a shell",
}


def options(path: str) -> set[str]:
    command = command_line
    for name in path.split()[1:]:
        command = command.commands[name]
    return {word for parameter in command.params for word in parameter.opts}


def test_every_command_has_the_option_or_a_reason():
    lacking = {path for path in commands(command_line, "fedgrove") if "--json" not in options(path)}
    assert lacking == set(WITHOUT)


def told(place, *line) -> dict:
    result = fedgrove(*line, "--json", cwd=place)
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return json.loads(result.stdout)


def test_keys_are_told_as_they_are_shown(tmp_path):
    made = told(tmp_path, "keys", "new", "alice.json")
    shown = told(tmp_path, "keys", "show", "alice.json")
    assert made == {"keystore": "alice.json", **shown} and set(shown) == {"account", "vrf", "mailbox"}
    assert told(tmp_path, "keys", "backup", "alice.json", "copy.json") == {"backup": "copy.json"}
    assert told(tmp_path, "keys", "restore", "copy.json", "again.json") == {"keystore": "again.json", **shown}


def test_an_archive_is_told_with_its_root(run, tmp_path):
    made = told(tmp_path, "audit", "export", str(run.directory), "run.car")
    assert made["bytes"] == (tmp_path / "run.car").stat().st_size and made["root"].startswith("baf")


def test_nothing_to_take_down_is_told(tmp_path):
    found = told(tmp_path, "network", "down", "--dir", "nowhere")
    assert (found["ended"], found["removed"]) == (0, False)
