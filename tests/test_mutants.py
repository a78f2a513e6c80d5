"""Mutants are what they say, each is a program, and tests are found for every file."""

import ast
import importlib
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.removed_refusals import refusals
from tests.test_docs import ROOT


@pytest.fixture(scope="module")
def scripts():
    """The modules in scripts/ as they find each other: Python's mutants, and those of contracts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield importlib.import_module("mutants"), importlib.import_module("mutants_contracts")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


PYTHON = '''"""Not 1 < 2."""


def f(a: int = 3) -> Fixed[4]:
    check(a)
    _log.info(a)
    if a < 1 and a:
        raise ValueError(f"{a + 5}")
    return a + 1
'''
SOLIDITY = """// if (a < b) revert No();
contract C {
    function f(uint a) external {
        if (a < 1 && !b) revert No(a);
        c = a + 1;
    }
}
"""


def test_guards_of_python_are_taken_away_and_operators_changed_but_no_words_and_no_logs(scripts, tmp_path):
    (tmp_path / "m.py").write_text(PYTHON)
    made = [scripts[0].changed(PYTHON, each).splitlines() for each in scripts[0].changes_of(tmp_path, "m.py")]
    lines = {
        after for lines in made for before, after in zip(PYTHON.splitlines(), lines, strict=True) if before != after
    }
    assert {"    pass", "        pass", "    return None", "    if a <= 1 and a:", "    if a < 1 or a:"} < lines
    assert {"    return a - 1", "    if not a < 1 and a:"} < lines
    assert all(lines[0] == '"""Not 1 < 2."""' and "    _log.info(a)" in lines for lines in made)


def test_contracts_are_changed_beside_what_they_were_outside_comments_and_strings(scripts, tmp_path):
    (tmp_path / "C.sol").write_text(SOLIDITY)
    found = {each.operator: each for each in scripts[0].changes_of(tmp_path, "C.sol")}
    assert {name: each.after for name, each in found.items()} == {
        **{"comparison": "<=", "boolean": "||", "arithmetic": "-", "raise": "{}"},
    }

    def written(operator: str, old: str) -> str:
        start = SOLIDITY.index(old, SOLIDITY.index("contract"))
        text = scripts[1].with_switch(SOLIDITY.encode(), found[operator], (start, start + len(old)), 7).decode()
        return next(line.strip() for line in text.splitlines() if line not in SOLIDITY.splitlines())

    asked = "block.coinbase == address(7)"
    assert written("arithmetic", "a + 1") == f"c = ({asked} ? (a - 1) : (a + 1));"
    assert written("boolean", "a < 1 && !b") == f"if (({asked} ? (a < 1 || !b) : (a < 1 && !b))) revert No(a);"
    assert written("raise", "revert No(a);") == f"if (a < 1 && !b) {{ if (!({asked})) revert No(a); }}"


@pytest.mark.parametrize("path", ["ipfs/cid.py", "node/masking/shamir.py"])
def test_every_mutant_is_a_program(scripts, path):
    source = (ROOT / path).read_text()
    for each in scripts[0].changes_of(ROOT, path):
        ast.parse(scripts[0].changed(source, each))


def test_every_module_has_tests_by_name_or_by_import(scripts):
    tests_of = scripts[0].tests_of
    for path in (each for package in scripts[0].PACKAGES for each in scripts[0].sources(package)):
        assert tests_of(path) and all((ROOT / test).exists() for test in tests_of(path)), path
    assert tests_of("chain/crypto/vrf.py") == ("tests/chain/crypto/test_vrf.py",)
    assert "tests/adversary/test_certificates.py" in tests_of("node/audit/certificate.py")
    assert "tests/node/privacy/test_client_level.py" in tests_of("node/privacy/grid.py")
    assert all((ROOT / path).exists() for path in scripts[0].ELSEWHERE)
    rules = {str(test.relative_to(ROOT)) for test in (ROOT / "tests/node/protocol").glob("test_rules_of_*.py")}
    assert all(rules < set(tests_of(f"node/protocol/{module}.py")) for module in ("law", "chain_facts", "rounds"))


def test_a_total_is_shared_in_proportion(scripts):
    groups = [[f"a{place}" for place in range(30)], [f"b{place}" for place in range(10)]]
    assert sorted(scripts[0].spread(groups, 8)) == ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1"]
    assert sorted(scripts[0].spread(groups, 99)) == sorted(groups[0] + groups[1])


def test_the_page_counts_the_last_trial_of_each_mutant_and_gives_reasons(scripts):
    row = {"path": "ipfs/cid.py", "source": "a", "line": 3, "operator": "not", "before": "a | b", "after": "(a)"}
    outcomes = enumerate(("killed", "killed", "timed out", "survived"))
    rows = [{**row, "start": start, "outcome": outcome, "commit": "c0ffee"} for start, outcome in outcomes]
    again = {**rows[1], "outcome": "survived"}
    moved = {**rows[3], "source": "b", "earlier": {"source": "a", "start": 3}}
    page = scripts[0].page([again, *rows, moved], {"ipfs/cid.py:3 (a)": "the same value"})
    assert "| `ipfs` | 4 | 2 | 1 | 1 |" in page and "| `chain` | 0 | 0 | 0 | 0 |" in page
    assert "| all | 4 | 2 | 1 | 1 |" in page and "Commits: c0ffee." in page
    assert "| ipfs/cid.py:3 | `a \\| b` | `(a)` | the same value |" in page


# --- refusals of the law and of the contracts, each of which some test needs ------------------------------------------

RULES = ("rules_of_windows", "rules_of_authors", "rules_of_joining", "rules_of_rounds", "rules_of_bounds", "judgements")
LAW_TESTS = [f"tests/node/protocol/test_{part}.py" for part in RULES]
NAMES_AN_ERROR = re.compile(r"revert (\w+)")
TEST = re.compile(r"\n    function (test\w*|invariant\w*)\(.*?\n    }\n", re.DOTALL)


def needed_refusals(found, *tests: str, places: Sequence[str] = ()) -> dict[str, str | None]:
    """By the place of each refusal of the law, or of some, a test that fails without it."""
    options = {"FEDGROVE_REMOVED": str(found), "FEDGROVE_PLACES": " ".join(places)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.removed_refusals", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | options, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5_000:]
    return json.loads(found.read_text())


def refusals_of_law() -> list[str]:
    names = ("bounded_rounds", "judgements", "law")
    return sorted(place for name in names for place in refusals(ROOT / f"node/protocol/{name}.py")[1])


def test_some_refusals_of_the_law_are_each_needed_by_a_test(tmp_path):
    some = random.Random(0).sample(refusals_of_law(), 5)
    found = needed_refusals(tmp_path / "found", *LAW_TESTS, places=some)
    assert sorted(found) == sorted(some) and all(found.values()), found


@pytest.mark.mutants
def test_each_refusal_of_the_law_is_needed_by_a_test(tmp_path):
    found = needed_refusals(tmp_path / "found", *LAW_TESTS)
    assert sorted(found) == refusals_of_law() and all(found.values()), found


def refusals_of_contracts(scripts) -> list:
    changes = (each for path in scripts[0].sources("contracts") for each in scripts[0].changes_of(ROOT, path))
    return [each for each in changes if each.operator == "raise"]


def that_name(error: str) -> list[str]:
    """Functions of the contracts' tests that speak of an error."""
    texts = (path.read_text() for path in sorted((ROOT / "tests/contracts").glob("*.t.sol")))
    return sorted({each[1] for text in texts for each in TEST.finditer(text) if re.search(rf"\b{error}\b", each[0])})


def test_each_error_of_the_contracts_is_named_by_a_test_of_theirs(scripts):
    tests = "".join(path.read_text() for path in (ROOT / "tests/contracts").rglob("*.sol"))
    errors = {NAMES_AN_ERROR.match(each.before)[1] for each in refusals_of_contracts(scripts)}
    assert {error for error in errors if not re.search(rf"\b{error}\.selector\b", tests)} == set()


@pytest.mark.mutants
@pytest.mark.timeout(5_400)
def test_each_refusal_of_the_contracts_is_needed_by_a_test(scripts, tmp_path):
    """First by those that name its error, and by all where these do not miss it."""
    changes, switched = refusals_of_contracts(scripts), scripts[1].Switched(scripts[0].copied(tmp_path))
    batches, living = list(switched.batches(changes)), []
    assert sum(map(len, batches)) == len(changes)
    for batch in batches:
        switched.compile(batch)
        for each in batch:
            named = that_name(NAMES_AN_ERROR.match(each.before)[1])
            only = [named, []] if named else [[]]
            if all(switched.outcome(each, tests)[0] == "survived" for tests in only):
                living.append(f"{each.path}:{each.line} {each.before}")
    assert living == []
