"""Write the example's data: Debian's package descriptions, a file for each team that maintains packages.

    python examples/text/texts.py data

``data/teams`` has a file for each client and ``test.tsv``; ``data/pooled`` has the clients' texts in one file. Rows are
section and description, with a tab between. All packages of one source are on the same side of the split.
"""

import argparse
import csv
import hashlib
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECTIONS = ("admin", "fonts", "games", "graphics", "mail", "math", "net", "science", "sound", "web")
LEAST, MOST = 30, 60  # texts of a client
TESTED, TEST_TEXTS = 0.2, 800


@dataclass(frozen=True)
class Package:
    """A package's section and description, its source, and the name of who maintains it."""

    section: str
    text: str
    source: str
    team: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write; made when missing")
    parser.add_argument(
        "--packages", type=Path, help="a file as `apt-cache dumpavail` prints it; default: that command"
    )
    given = parser.parse_args()
    teams, test = split(packages(given.packages))
    write(given.folder / "pooled" / "all.tsv", [each for texts in teams.values() for each in texts])
    for number, (team, texts) in enumerate(sorted(teams.items())):
        write(given.folder / "teams" / f"{number:02}-{'-'.join(re.findall('[a-z]+', team.lower()))}.tsv", texts)
    for kind in ("teams", "pooled"):
        write(given.folder / kind / "test.tsv", test)
    print(f"{len(teams)} clients, {sum(map(len, teams.values()))} texts to train on, {len(test)} to test with")


def packages(path: Path | None) -> list[Package]:
    """The packages of the ten sections, each description once in a section."""
    command = ["apt-cache", "dumpavail"]
    text = path.read_text() if path else subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list({(each.section, each.text): each for each in reversed(list(_read(text)))}.values())


def split(found: list[Package]) -> tuple[dict[str, list[Package]], list[Package]]:
    """The texts of each team that has enough, and those to test with: the same for the same packages."""
    test = sorted((each for each in found if _share(each.source) < TESTED), key=_order)
    teams: dict[str, list[Package]] = defaultdict(list)
    for each in sorted((each for each in found if _share(each.source) >= TESTED), key=_order):
        teams[each.team].append(each)
    return {team: texts[:MOST] for team, texts in teams.items() if len(texts) >= LEAST}, test[:TEST_TEXTS]


def write(path: Path, texts: list[Package]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows((each.section, each.text) for each in texts)


def _read(text: str) -> Iterator[Package]:
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Section") in SECTIONS and "Description" in fields:
            source = fields.get("Source", fields["Package"]).split()[0]
            yield Package(fields["Section"], fields["Description"], source, fields["Maintainer"].partition(" <")[0])


def _share(name: str) -> float:
    """A number in [0, 1) that depends on a name alone."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64


def _order(package: Package) -> str:
    return hashlib.sha256(f"{package.section} {package.text}".encode()).hexdigest()


if __name__ == "__main__":
    main()
