"""A command that is printed can be copied into a shell, whatever is in its paths."""

import re
import shlex
from pathlib import Path

from fedgrove.common.text import command_line

ROOT = Path(__file__).parents[3]


def test_a_shell_splits_it_into_the_same_words():
    words = ["audit", Path("runs of 2026/it's $HOME"), "--ledger", "0x1"]
    assert shlex.split(command_line(*words)) == ["fedgrove", *map(str, words)]
    assert command_line("audit", "runs/first") == "fedgrove audit runs/first"


def test_no_other_code_writes_a_path_into_a_command():
    path_in_command = re.compile(r"fedgrove [a-z]+ [^`]*\{[^}]*(path|directory|folder|file|root|parent|out|target)\b")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("node", "fedgrove")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if path_in_command.search(line)
    ]
    assert found == []
