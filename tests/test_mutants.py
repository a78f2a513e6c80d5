"""Mutations are what they say, each survives the parser, and tests are found for every file."""

import ast
import hashlib
import importlib.util
import subprocess
import sys
from dataclasses import asdict

import pytest

from tests.test_docs import ROOT


@pytest.fixture(scope="module")
def scripts():
    """The modules in scripts/ as they find each other."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield {
            name: importlib.import_module(name)
            for name in ("mutations", "mutants_order", "mutants_page", "mutants_switched", "mutants")
        }
    finally:
        sys.path.remove(str(ROOT / "scripts"))


PYTHON = '''"""Not 1 < 2."""


@decorated(frozen=True)
def f(a: int = 3) -> Fixed[4]:
    check(a)
    _log.info(a)
    if not (a < 1 <= 2) and a:
        raise ValueError(f"{a + 5}")
    return a + 1
'''
SOLIDITY = """// if (a < b) revert No();
contract C {
    function f(uint a) external {
        if (a < 1 && !b) revert No(a);
        c = a + 1; /* a - 1 */
    }
}
"""


def changed(scripts, tmp_path, name: str, text: str) -> list[str]:
    """Operator and the changed line, for each mutation."""
    (tmp_path / name).write_text(text)
    found = scripts["mutations"].mutations_of(tmp_path, name)
    lines = ((each, each.applied(text.encode()).decode().splitlines()) for each in found)
    return sorted(f"{each.operator}: {after[each.line - 1].strip()}" for each, after in lines)


def test_python_is_changed_one_thing_at_a_time_and_not_its_words_and_types(scripts, tmp_path):
    assert changed(scripts, tmp_path, "m.py", PYTHON) == [
        "arithmetic: return (a - 1)",
        "boolean: if (not a < 1 <= 2 or a):",
        "call: pass",
        "comparison: if not ((a < 1 < 2)) and a:",
        "comparison: if not ((a <= 1 <= 2)) and a:",
        "constant: def f(a: int = (4)) -> Fixed[4]:",
        "constant: if not (a < (2) <= 2) and a:",
        "constant: if not (a < 1 <= (3)) and a:",
        "constant: return a + (2)",
        "not: if (a < 1 <= 2) and a:",
        "raise: pass",
        "return: return None",
    ]


def test_solidity_is_changed_outside_comments_and_strings(scripts, tmp_path):
    assert changed(scripts, tmp_path, "C.sol", SOLIDITY) == [
        "arithmetic: c = a - 1; /* a - 1 */",
        "boolean: if (a < 1 || !b) revert No(a);",
        "comparison: if (a <= 1 && !b) revert No(a);",
        "raise: if (a < 1 && !b) {}",
    ]


def test_mutants_of_contracts_stand_beside_what_they_change(scripts, tmp_path):
    text = SOLIDITY.replace("c = a + 1; /* a - 1 */", "c = a + 1;").split("\n", 1)[1]
    (tmp_path / "C.sol").write_text(text)
    found = {each.operator: each for each in scripts["mutations"].mutations_of(tmp_path, "C.sol")}
    switch = scripts["mutants_switched"].with_switch

    def written(operator: str, old: str) -> str:
        start = text.index(old)
        changed = switch(text.encode(), found[operator], (start, start + len(old)), 7).decode()
        return next(line.strip() for line in changed.splitlines() if line not in text.splitlines())

    asked = "block.coinbase == address(7)"
    assert written("arithmetic", "a + 1") == f"c = ({asked} ? (a - 1) : (a + 1));"
    assert written("boolean", "a < 1 && !b") == f"if (({asked} ? (a < 1 || !b) : (a < 1 && !b))) revert No(a);"
    assert written("raise", "revert No(a);") == f"if (a < 1 && !b) {{ if (!({asked})) revert No(a); }}"


@pytest.mark.parametrize("package", ["ipfs", "node/masking", "node/privacy"])
def test_every_mutant_is_a_program_and_has_tests(scripts, package):
    mutants = scripts["mutants"]
    for path in mutants.sources(package):
        source, tests = (ROOT / path).read_bytes(), mutants.tests_of(path)
        assert tests and all((ROOT / test).exists() for test in tests)
        for each in scripts["mutations"].mutations_of(ROOT, path):
            ast.parse(each.applied(source))


def test_the_tests_of_a_module_are_those_of_its_name_or_those_that_import_it(scripts):
    tests_of = scripts["mutants"].tests_of
    assert tests_of("chain/crypto/vrf.py") == ["tests/chain/crypto/test_vrf.py"]
    for path, tests in scripts["mutants"].ELSEWHERE.items():
        assert (ROOT / path).exists() and all((ROOT / test).exists() for test in tests)
    assert "tests/adversary/test_certificates.py" in tests_of("node/audit/certificate.py")
    assert "tests/node/privacy/test_client_level.py" in tests_of("node/privacy/grid.py")
    assert tests_of("contracts/ClientRegistry.sol") == ["tests/contracts"]


@pytest.mark.parametrize("module", ["law", "chain_facts", "rounds"])
def test_the_tests_of_the_rules_are_those_of_every_module_that_their_story_runs(scripts, module):
    path = f"node/protocol/{module}.py"
    assert (ROOT / path).exists()
    tests = scripts["mutants"].tests_of(path)
    rules = {str(test.relative_to(ROOT)) for test in (ROOT / "tests/node/protocol").glob("test_rules_of_*.py")}
    assert rules < set(tests) and all((ROOT / test).exists() for test in tests)
    story = (ROOT / "tests/node/protocol/ledger_story.py").read_text()
    rest = (ROOT / "node/protocol/law.py").read_text()
    assert f"fedgrove.node.protocol.{module} import" in story + rest


def test_a_total_is_shared_in_proportion(scripts):
    groups = [[f"a{place}" for place in range(30)], [f"b{place}" for place in range(10)]]
    found = scripts["mutants"].spread(groups, 8)
    assert sorted(found) == ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1"]
    assert sorted(scripts["mutants"].spread(groups, 99)) == sorted(groups[0] + groups[1])


def test_the_function_around_a_mutation_begins_with_its_decorator(scripts, tmp_path):
    (tmp_path / "m.py").write_text("a = 1\n\n\n@decorated\ndef f():\n    def g():\n        return 2\n\n    return 3\n")
    found = scripts["mutations"].mutations_of(tmp_path, "m.py")
    around = {each.line: scripts["mutations"].function_at((tmp_path / "m.py").read_bytes(), each) for each in found}
    assert around == {1: None, 7: ("m.py", 6), 9: ("m.py", 4)}


def test_cheap_tests_run_first_and_those_of_a_file_together(scripts):
    class Item:
        def __init__(self, path, nodeid):
            self.path, self.nodeid = path, nodeid

    items = [Item(name[0], name) for name in ("a1", "b1", "a2", "b2")]
    order = scripts["mutants_order"].CheapFirst({"a1": 3.0, "a2": 2.0, "b1": 9.0, "b2": 1.0})
    order.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["b2", "b1", "a2", "a1"]


def test_the_last_trial_of_a_mutant_counts(scripts):
    row = {"path": "ipfs/cid.py", "source": "a", "line": 3, "start": 9, "operator": "not", "before": "a", "after": "b"}
    rows = [{**row, "outcome": outcome, "commit": "c0ffee"} for outcome in ("survived", "killed")]
    assert "| all | 1 | 1 | 0 | 0 |" in scripts["mutants_page"].page(rows, {})


def test_a_survivor_of_an_earlier_file_is_tried_in_the_same_line_and_counts_once(scripts, monkeypatch, tmp_path):
    (tmp_path / "m.py").write_text("a = 1\nb = 1\n")
    first, second = scripts["mutations"].mutations_of(tmp_path, "m.py")
    survivors, earlier = scripts["mutants"].survivors, {"source": "before", "start": 16}
    monkeypatch.setattr(scripts["mutants"], "text_of", lambda path, source: b"a = 1\nc = 1\nb = 1\n")
    old = {**asdict(second), **earlier, "line": 3, "outcome": "survived", "commit": "c0ffee"}
    gone = old | {"start": 10, "line": 2}
    known = {**asdict(first), "outcome": "killed", "commit": "c0ffee"}
    assert survivors([old, gone, known], [first, second], tmp_path) == {second: earlier}
    again = {**asdict(second), "outcome": "killed", "commit": "c0ffee", "earlier": earlier}
    assert scripts["mutants_page"].latest([old, gone, known, again]) == [gone, known, again]
    assert survivors([again | {"outcome": "survived"}], [first, second], tmp_path) == {second: None}


def test_a_file_is_found_in_the_history_by_its_digest(scripts, monkeypatch, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    for text in ("a = 1\n", "a = 2\n"):
        (tmp_path / "m.py").write_text(text)
        subprocess.run([*git, "add", "m.py"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", text], check=True)
    monkeypatch.setattr(scripts["mutants"], "ROOT", tmp_path)
    first = hashlib.sha256(b"a = 1\n").hexdigest()[:12]
    assert scripts["mutants"].text_of("m.py", first) == b"a = 1\n"
    assert scripts["mutants"].text_of("m.py", "0" * 12) is None


def test_the_page_counts_and_gives_reasons(scripts):
    row = {"path": "ipfs/cid.py", "source": "a", "line": 3, "operator": "not", "before": "a | b", "after": "(a)"}
    outcomes = enumerate(("killed", "killed", "timed out", "survived"))
    rows = [{**row, "start": start, "outcome": outcome, "commit": "c0ffee"} for start, outcome in outcomes]
    page = scripts["mutants_page"].page(rows, {"ipfs/cid.py:3 (a)": "the same value"})
    assert "| `ipfs` | 4 | 2 | 1 | 1 |" in page and "| `chain` | 0 | 0 | 0 | 0 |" in page
    assert "| all | 4 | 2 | 1 | 1 |" in page and "Commits: c0ffee." in page
    assert "| ipfs/cid.py:3 | `a \\| b` | `(a)` | the same value |" in page
