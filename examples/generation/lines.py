"""Write package descriptions of Debian teams as files of lines: ``python examples/generation/lines.py DIR``.

A client is a team, with the lines "package: description" of what it maintains. The lines to test with are of sources
that no client has.
"""

import argparse
import hashlib
import re
import subprocess
from collections import defaultdict
from pathlib import Path

TEAMS, LINES, TEST_LINES = 10, 400, 400
TESTED = 0.1  # share of the sources whose lines are to test with


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", type=Path, help="a file in place of what apt-cache dumpavail prints")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    teams, test = dealt(options.packages.read_text() if options.packages else available())
    for number, (team, lines) in enumerate(teams.items()):
        name = re.sub("[^a-z]+", "-", team.lower()).strip("-")
        (options.folder / f"{number:02}-{name}.txt").write_text("\n".join(lines))
    (options.folder / "test.txt").write_text("\n".join(test))


def available() -> str:
    command = ["apt-cache", "dumpavail"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")


def dealt(text: str) -> tuple[dict[str, list[str]], list[str]]:
    """The lines of the teams that have most, and those to test with: the same for the same packages."""
    teams: dict[str, set[str]] = defaultdict(set)
    test: set[str] = set()
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Source|Maintainer|Description): (.*)$", paragraph, re.MULTILINE))
        if {"Package", "Maintainer", "Description"} <= fields.keys():
            source = fields.get("Source", fields["Package"]).split()[0]
            place = test if _share(source) < TESTED else teams[fields["Maintainer"].partition(" <")[0]]
            place.add(f"{fields['Package']}: {fields['Description']}")
    largest = sorted(teams, key=lambda team: (-len(teams[team]), team))[:TEAMS]
    return {team: _some(teams[team], LINES) for team in largest}, _some(test, TEST_LINES)


def _some(lines: set[str], most: int) -> list[str]:
    return sorted(lines, key=_digest)[:most]


def _share(name: str) -> float:
    """A number in [0, 1) that depends on a name alone."""
    return int(_digest(name)[:16], 16) / 2**64


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    main()
