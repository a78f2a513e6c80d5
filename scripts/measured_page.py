"""What the scripts that measure rounds write: a JSON file for each run, and one page with all of them."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedgrove_lab.made import commit_here, versions_of

MIB = 1 << 20

Page = tuple[str, str, str, Callable[[Mapping[str, Any]], str]]
"""Title, text, the table's head, and what makes a row of it."""


def write_results(out: Path, label: str, settings: Mapping[str, Any], found: Mapping[str, Any], page: Page) -> None:
    """Keep a run as ``LABEL.json`` and write ``README.md`` anew, of all runs that lie in the folder."""
    (out / "runs").mkdir(parents=True, exist_ok=True)
    document = {**settings, **found, "made": MADE}
    (out / "runs" / f"{label}.json").write_text(json.dumps(document, indent=1) + "\n")
    runs = [json.loads(path.read_text()) for path in sorted((out / "runs").glob("*.json"))]
    (out / "README.md").write_text(page_of(runs, *page))


def page_of(
    runs: list[dict[str, Any]], title: str, text: str, head: str, row: Callable[[Mapping[str, Any]], str]
) -> str:
    columns = len(head.split(" | "))
    lines = [f"# {title}", text, f"| {head} |", "|" + " --- |" * columns, *(f"| {row(run)} |" for run in runs), ""]
    lines += ["| run | command | commit | versions | processors, load at the beginning; memory |", "|" + " --- |" * 5]
    for run in runs:
        made = run["made"]
        commit = f"{made['commit']} ({made['note']})" if "note" in made else made["commit"]
        words = f"`{made['command']}` | {commit} | {made['versions']} | {made['machine']}"
        lines.append(f"| {made['time'][:16]} | {words} |")
    return "\n".join(lines) + "\n"


MADE = {
    "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
    "commit": commit_here(),
    "versions": versions_of("torch", "numpy", "cryptography"),
    "machine": f"{os.cpu_count()}, {os.getloadavg()[0]:.0f}; "
    f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 30} GiB",
    "time": datetime.now(UTC).isoformat(timespec="seconds"),
}
"""Of this process, as it began: what is changed on the disk while it runs is not what it runs."""
