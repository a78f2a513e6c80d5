"""Every command in the documentation is run, in order, by a shell, as a reader would.

README.md starts processes of its own, as test_two_machines.py does. On other pages ``fedgrove`` is a fork of a process
that has imported its libraries (``tests/warm``).
"""

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import time
import typing
from pathlib import Path

import pytest

from fedgrove.node.cli.main import command_line
from fedgrove.node.methods.registry import METHODS
from fedgrove.node.protocol.terms import FederationConfig
from tests import warm
from tests.node.cli.test_bad_input import fedgrove

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?:<!-- (second terminal(?:, instead)?) -->\n)?```sh\n(.*?)```", re.DOTALL)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
COLD = {"README.md"}
ELSEWHERE = {"two-machines.md"}  # on two machines: tests/deploy/test_two_machines.py

INSTEAD = "second terminal, instead"
NODE_PORT = 8545

# Set-up and the test command itself cannot run inside the tests; that their targets exist is checked instead.
MAKE = re.compile(r"^make ([a-z-]+)$", re.MULTILINE)


def blocks(page: Path) -> list[tuple[bool, str]]:
    """The shell blocks of a page: (runs in a second terminal, commands)."""
    return [(bool(second), text) for second, text in BLOCK.findall(page.read_text()) if second != INSTEAD]


def blocks_on_hardhat(page: Path) -> list[tuple[bool, str]]:
    """The same, with the node that stands as the other choice, of the sections that need one."""
    sections = page.read_text().split("\n## ")
    text = "\n".join(section for section in sections if f"--port {NODE_PORT}" in section or f":{NODE_PORT}" in section)
    return [(bool(second), text) for second, text in BLOCK.findall(text) if second != "second terminal"]


@pytest.fixture
def workplace(tmp_path):
    """An empty folder that looks like the root of the repository to the commands of the docs."""
    for name in (".venv", "node_modules", "tests", "Makefile", "hardhat.config.js"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "plans").symlink_to(ROOT / "docs" / "plans")
    return tmp_path


def environment(home: Path, *programs: Path) -> dict[str, str]:
    """A reader's variables; programs are folders to look into first."""
    path = os.pathsep.join([*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FEDGROVE_")}
    return {**kept, "PATH": path, "HOME": str(home)}


def wait_for_port(port: int, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on 127.0.0.1:{port} after {seconds} s")


# Pages share nothing, and some take a minute.
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.xdist_group(page.name))
        for page in PAGES
        if page.name not in ELSEWHERE
    ],
)
def test_commands_of_a_page(page, workplace, tmp_path_factory):
    walk(page, blocks(page), workplace, tmp_path_factory)


@pytest.mark.xdist_group("tutorial.md")
def test_commands_of_the_tutorial_on_hardhats_node(workplace, tmp_path_factory):
    page = ROOT / "docs" / "tutorial.md"
    walk(page, blocks_on_hardhat(page), workplace, tmp_path_factory)


def walk(page: Path, shell: list[tuple[bool, str]], workplace: Path, tmp_path_factory) -> None:
    """Run the commands in a shell, and those of second terminals next to it."""
    script, servers = ["set -euo pipefail"], []
    programs = [] if page.name in COLD else [warm.install(tmp_path_factory.mktemp("programs"))]
    variables = environment(workplace, *programs)
    try:
        for second, text in shell:
            for target in MAKE.findall(text):
                subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)
            text = MAKE.sub("true", text)
            if second:
                servers.append(start(text, workplace, variables))
            else:
                script.append(text)
        result = subprocess.run(
            ["bash", "-c", "\n".join(script)],
            cwd=workplace,
            env=variables,
            capture_output=True,
            text=True,
            timeout=600,
            start_new_session=True,  # what a page does to its own processes must not reach those of the tests
        )
        assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    finally:
        for server in servers:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=20)
        for record in workplace.glob("*/testnet.json"):  # of a page that failed before it took its testnet down
            fedgrove("network", "down", "--dir", str(record.parent), cwd=workplace)


def start(text: str, workplace: Path, variables: dict[str, str]) -> subprocess.Popen:
    """Start a server of the docs in a process group of its own, and wait until it listens."""
    server = subprocess.Popen(["bash", "-c", f"exec {text}"], cwd=workplace, env=variables, start_new_session=True)
    wait_for_port(int(re.search(r"--port (\d+)", text).group(1)))
    return server


def commands(command, path: str) -> list[str]:
    children = getattr(command, "commands", {})
    shown = [name for name, child in children.items() if not child.hidden]
    return [line for name in shown for line in commands(children[name], f"{path} {name}")] if children else [path]


def test_every_command_is_in_the_reference_and_has_help_with_an_example():
    reference = (ROOT / "docs" / "reference.md").read_text()
    for path in commands(command_line, "fedgrove"):
        assert f"`{path}" in reference, f"{path} is not in docs/reference.md"
        result = fedgrove(*path.split()[1:], "--help", cwd=ROOT)
        assert result.returncode == 0 and "Example: fedgrove" in result.stdout, result.stdout + result.stderr


def test_the_tables_are_those_of_the_code():
    script = ROOT / "scripts" / "docs_tables.py"
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_words_are_plain_english():
    script = ROOT / "scripts" / "words.py"
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_key_of_the_configuration_is_in_the_reference():
    reference = (ROOT / "docs" / "reference.md").read_text()
    hints = typing.get_type_hints(FederationConfig)
    del hints["method"]
    for table, kind in [*hints.items(), *((terms.name, terms) for terms in METHODS)]:
        assert f"`[{table}]`" in reference
        kinds = [each for each in typing.get_args(kind) or (kind,) if each is not type(None)]
        for item in (item for each in kinds for item in dataclasses.fields(each)):
            assert f"`{item.name}`" in reference, f"{table}.{item.name} is not in docs/reference.md"
