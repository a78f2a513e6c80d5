"""Completion and version, as a shell and a user ask for them."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fedgrove.node.cli.listing import GROUPS
from fedgrove.node.cli.main import command_line
from tests.node.cli.test_bad_input import fedgrove
from tests.test_docs import commands

FEDGROVE = Path(sys.executable).with_name("fedgrove")


def output(*command, **variables):
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


def test_the_version_is_that_of_the_installed_package():
    assert output(FEDGROVE, "--version").stdout == version("fedgrove") + "\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("fedgrove de", {"demo", "deploy"}),
        ("fedgrove demo --cl", {"--clients"}),
        ("fedgrove task pa", {"pack"}),
        ("fedgrove demo --strategy feda", {"fedaom", "fedaomsam", "fedavg"}),
        ("fedgrove attack g", {"gradient", "gan"}),
    ],
)
def test_bash_completes_commands_and_options(words, found, tmp_path):
    script = tmp_path / "completion.sh"
    script.write_text(output(FEDGROVE, "completion", "bash").stdout)
    asked = (
        f"source {script}; COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; "
        f'_fedgrove_completion {FEDGROVE}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    answer = output(shutil.which("bash"), "-c", asked, PATH="/usr/bin:/bin")
    assert set(answer.stdout.split()) == found, answer.stderr


def test_every_option_says_what_it_takes_in_words_for_people():
    for path in commands(command_line, "fedgrove"):
        text = fedgrove(*path.split()[1:], "-h", cwd=".").stdout
        assert not re.search(r"<(str|int|float|path|list)", text), path
    assert "--sandbox auto|strict|contained|off" in fedgrove("demo", "-h", cwd=".").stdout


def test_short_options_are_those_that_people_try():
    assert fedgrove("-V", cwd=".").stdout == fedgrove("--version", cwd=".").stdout
    for line in ("", "audit", "task", "demo"):
        assert fedgrove(*line.split(), "-h", cwd=".").stdout == fedgrove(*line.split(), "--help", cwd=".").stdout


def test_help_groups_the_commands_and_uses_the_width_of_the_terminal(monkeypatch):
    listed = fedgrove("-h", cwd=".").stdout
    assert all(f"{group.title}:\n" in listed for group in GROUPS)
    widths = {}
    for columns in ("60", "110"):
        monkeypatch.setenv("COLUMNS", columns)
        widths[columns] = max(map(len, fedgrove("demo", "-h", cwd=".").stdout.splitlines()))
    assert widths["60"] < 80 < widths["110"] <= 110


def test_a_shell_that_is_not_known_is_a_sentence():
    result = output(FEDGROVE, "completion", "tcsh")
    assert result.returncode == 2 and "name one of bash, fish" in result.stderr
