"""Without their extras, commands say in one sentence what to install; those of the core do without."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fedgrove.node.cli.extras import EXTRAS
from fedgrove.node.cli.listing import COMMANDS, all_commands

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
MODULES = {
    "scikit-learn": "sklearn",
    "python-flint": "flint",
    "pillow": "PIL",
    "Jinja2": "jinja2",
    "dp-accounting": "dp_accounting",
    "web3[tester]": "eth_tester",
    "tomli-w": "tomli_w",
    "py-evm": "eth",
    "mlflow-skinny": "mlflow",
}
ALL = tuple(dict.fromkeys((*EXTRAS["devnet"], *EXTRAS["simulation"])))
ON_THIS_MACHINE = ("unlearn",)  # takes a federation by its directory, too
LINES = {
    "demo": ["--rounds", "1"],
    "network": ["status"],
    "simulate": ["--clients", "4"],
    "kmeans": ["--points", "200"],
    "privacy": ["plan", "--clients", "10", "--rate", "0.5", "--rounds", "3", "--epsilon", "4"],
}
OF_COMMANDS = {name: each.extra for name, each in COMMANDS.items() if each.extra}
CORE = [each.place.split(":")[0] for name, each in COMMANDS.items() if not each.extra and name not in ON_THIS_MACHINE]
TRAINING = [name for name, extra in OF_COMMANDS.items() if "torch" in EXTRAS[extra]]


def without(modules: tuple[str, ...], code: str, cwd: Path) -> subprocess.CompletedProcess:
    """Run code in a Python in which these modules cannot be imported."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
    command = [sys.executable, "-c", blocked + code]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def command(*words: str) -> str:
    return f"sys.argv = {['fedgrove', *words]!r}\nfrom fedgrove.node.cli import run\nrun()"


@pytest.mark.parametrize(
    ("name", "modules"), [(name, ALL) for name in OF_COMMANDS] + [(name, ("torch",)) for name in TRAINING]
)
def test_a_command_names_the_extra_that_it_needs(name, modules, tmp_path):
    result = without(modules, command(name, *LINES[name]), tmp_path)
    assert result.returncode == 2 and not result.stdout
    (sentence,) = result.stderr.splitlines()
    first = EXTRAS[OF_COMMANDS[name]][0]
    assert sentence.startswith(f"fedgrove: fedgrove {name} needs {first}")
    assert sentence.endswith(f'pip install "fedgrove[{OF_COMMANDS[name]}]"')
    assert not any(tmp_path.iterdir())


def test_the_help_of_every_command_needs_no_extra(tmp_path):
    code = f"""
from fedgrove.node.cli.main import command_line
for name in {list(all_commands())!r}:
    command_line([name, "--help"], prog_name="fedgrove", standalone_mode=False)
"""
    result = without(ALL, code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert all(f"Usage: fedgrove {name} " in result.stdout for name in all_commands())


def test_the_list_of_commands_and_the_version_import_no_command(tmp_path):
    code = """
from fedgrove.node.cli.main import command_line
for option in ("--help", "--version"):
    command_line([option], prog_name="fedgrove", standalone_mode=False)
print(*sorted({"eth_utils", "numpy", "requests"} & sys.modules.keys()))
"""
    result = without(ALL, code, tmp_path)
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and lines[-1] == "", result.stdout + result.stderr
    summaries = {name: each.summary for name, each in all_commands().items()}
    assert all(f"  {name.ljust(11)}  {text}" in lines for name, text in summaries.items()), "a line is too long"


def test_a_command_of_the_core_imports_nothing_of_lab_or_devnet(tmp_path):
    code = f"""
import importlib
for name in {CORE!r}:
    importlib.import_module(name)
print([name for name in sys.modules if name.startswith(("fedgrove_lab", "fedgrove.node.devnet"))])
"""
    result = without(ALL, code, tmp_path)
    assert result.stdout == "[]\n", result.stdout + result.stderr


def required(names: list[str]) -> set[str]:
    """All packages that come with these requirements, and with the extras that they ask for."""
    found: set[tuple[str, frozenset[str]]] = set()
    pending = [Requirement(name) for name in names]
    while pending:
        each = pending.pop()
        name, extras = canonicalize_name(each.name), frozenset(each.extras)
        if (name, extras) not in found:
            found.add((name, extras))
            brought = map(Requirement, distribution(name).requires or [])
            pending += [
                one
                for one in brought
                if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
            ]
    return {name for name, _ in found}


def test_the_core_is_small_and_imports_nothing_else(tmp_path):
    core = required(PROJECT["dependencies"])
    assert len(core) + 1 <= 43, sorted(core)
    code = f"""
import importlib, sys
for name in {CORE!r}:
    importlib.import_module(name)
print(*(name.split(".")[0] for name, module in sys.modules.items() if module is not None))
"""
    # Both are imported where they are, and are not of the core.
    found = without((*ALL, "py_ecc", "Crypto"), code, tmp_path)
    imported = packages_distributions().keys() & set(found.stdout.split())
    brought = {canonicalize_name(name) for each in imported for name in packages_distributions()[each]}
    assert "numpy" in brought and brought - {"setuptools"} <= core | {"fedgrove"}, brought - core


def test_the_packages_of_the_core_take_120_megabytes_before_they_are_compiled():
    files = [file for name in required(PROJECT["dependencies"]) for file in distribution(name).files or []]
    paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    assert 50e6 < sum(path.stat().st_size for path in paths if path.is_file()) <= 120e6


def test_web3_is_asked_for_by_its_extra(tmp_path):
    code = """
from fedgrove.chain.errors import ChainError
from fedgrove.chain.network.rpc import RpcNetwork
try:
    RpcNetwork.web3.func(object())
except ChainError as fault:
    print(fault)
"""
    assert without(ALL, code, tmp_path).stdout == 'Network.web3 needs the package web3: pip install "fedgrove[web3]"\n'


def test_a_kubo_store_is_asked_for_by_its_extra(tmp_path):
    audit = ("audit", "--rpc", "http://127.0.0.1:9", "--ledger", "0x" + "12" * 20, "--store", "http://127.0.0.1:9")
    result = without(ALL, command(*audit), tmp_path)
    assert result.returncode == 2, result.stderr
    sentence = 'fedgrove: a store in a Kubo node needs ipfshttpclient, multiaddr: pip install "fedgrove[kubo]"'
    assert result.stderr.splitlines() == [sentence]


def test_a_module_of_an_extra_that_is_missing_in_the_middle_of_a_command_is_named(tmp_path):
    code = """
from fedgrove.node.cli.listing import COMMANDS, ListedCommand
COMMANDS["audit"] = ListedCommand("", "broken:audit")
sys.modules["broken"] = type(sys)("broken")
def audit():
    import torch
sys.modules["broken"].audit = audit
"""
    result = without(ALL, code + command("audit"), tmp_path)
    assert (result.returncode, result.stderr) == (2, 'fedgrove: this needs torch: pip install "fedgrove[learning]"\n')


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_bring_the_modules_that_are_looked_for(extra):
    assert brought(extra) == set(EXTRAS[extra])


def brought(extra: str) -> set[str]:
    """The modules behind an extra's requirements, those of other extras among them."""
    found = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        own = re.fullmatch(r"fedgrove\[(.*)\]", requirement)
        name = requirement.split("==")[0]
        found |= set().union(*map(brought, own[1].split(","))) if own else {MODULES.get(name, name)}
    return found
