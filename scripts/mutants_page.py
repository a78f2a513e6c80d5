"""The page of the mutants that were tried: what was killed in each package, and every survivor with its reason."""

from collections import Counter
from collections.abc import Mapping, Sequence

PACKAGES = (
    "contracts",
    "chain",
    "ipfs",
    "node/masking",
    "node/privacy",
    "node/protocol",
    "node/methods",
    "node/audit",
    "node/roles",
)
_OUTCOMES = ("killed", "timed out", "survived")
_HEAD = """\
# Mutants

Written by `python scripts/mutants.py`, which changes one thing in a copy of the product and runs the tests that mirror
the changed file. A mutant that no test noticed *survived*; one that the tests did not finish with counts as noticed.
`tried.jsonl` has every mutant with its tests, its seconds and the commit.
"""


def key(row: Mapping) -> tuple:
    """What makes two rows one mutant."""
    return row["path"], row["source"], row["start"], row["operator"], row["after"]


def latest(rows: Sequence[dict]) -> list[dict]:
    """The last trial of each mutant; one that was tried on a later file, too, counts there alone."""
    last: dict[tuple, dict] = {}
    for row in rows:
        earlier = row.get("earlier")
        if earlier is not None:
            last.pop(key(row | earlier), None)
        last[key(row)] = row
    return list(last.values())


def page(rows: Sequence[dict], reasons: Mapping[str, str]) -> str:
    """A line a package, and a line a survivor with its reason. Of several trials of a mutant, the last counts."""
    rows = latest(rows)
    lines = [_HEAD, "| package | mutants | killed | timed out | survived |", "| --- | --: | --: | --: | --: |"]
    lines += [_counted(f"`{package}`", [row for row in rows if _below(row, package)]) for package in PACKAGES]
    lines += [_counted("all", rows), "", f"Commits: {', '.join(sorted({row['commit'] for row in rows}))}.", ""]
    lines += ["## Survivors", "", "| where | before | after | why it lives |", "| --- | --- | --- | --- |"]
    living = [row for row in rows if row["outcome"] == "survived"]
    lines += [_survivor(row, reasons) for row in sorted(living, key=lambda row: (row["path"], row["start"]))]
    return "\n".join(lines) + "\n"


def _counted(name: str, rows: Sequence[dict]) -> str:
    counts = Counter(row["outcome"] for row in rows)
    return f"| {name} | {len(rows)} | {' | '.join(str(counts[outcome]) for outcome in _OUTCOMES)} |"


def _below(row: dict, package: str) -> bool:
    return row["path"].startswith(f"{package}/")


def _survivor(row: dict, reasons: Mapping[str, str]) -> str:
    name = f"{row['path']}:{row['line']}"
    why = reasons.get(f"{name} {row['after']}", "not looked at yet")
    return f"| {name} | {_code(row['before'])} | {_code(row['after'])} | {why} |"


def _code(text: str) -> str:
    short = " ".join(text.split()).replace("|", "\\|")
    return f"`{short if len(short) <= 70 else short[:69] + '…'}`"
