"""Completion and version, as a shell and a user ask for them."""

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

FEDGROVE = Path(sys.executable).with_name("fedgrove")


def output(*command, **variables):
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


def test_the_version_is_that_of_the_installed_package():
    assert output(FEDGROVE, "--version").stdout == version("fedgrove") + "\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [("fedgrove de", {"demo", "deploy"}), ("fedgrove demo --cl", {"--clients"}), ("fedgrove task pa", {"pack"})],
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


def test_a_shell_that_is_not_known_is_a_sentence():
    result = output(FEDGROVE, "completion", "tcsh")
    assert result.returncode == 2 and "name one of bash, fish" in result.stderr
