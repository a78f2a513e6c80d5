"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, and all its links work."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest

from scripts.diagrams import COLOURS
from tests.test_docs import PAGES, ROOT

FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site; in ``mkdocs.yml`` a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Loaded(HTMLParser):
    """Addresses that a browser loads for a page, without a click."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag != "a" and named.get("rel") != "canonical":
            self.addresses += [value for name in ("src", "href") if (value := named.get(name))]


def test_the_site_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = Loaded()
        loaded.feed(page.read_text())
        assert loaded.addresses
        assert [each for each in loaded.addresses if re.match(r"(https?:)?//", each)] == [], page
    assert not [path for path in site.rglob("*.css") if re.search(r"url\((https?:)?//", path.read_text())]


def test_the_site_can_be_searched(site):
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert {"threat-model/#endpoints", "first-federation/", "api/fedgrove/"} <= {each["location"] for each in entries}


def test_the_reference_of_python_has_every_public_name(site):
    import fedgrove

    page = (site / "api" / "fedgrove" / "index.html").read_text()
    public = set(fedgrove.__all__) - {"__version__"}
    assert {name for name in public if f'id="fedgrove.{name}"' not in page} == set()


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found, seen = set(), Counter()
    for heading in re.findall(r"^#{1,6} +(.+?)$", FENCED.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """File and anchor of each link of a page into the repository."""
    for target, anchor in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text()))):
        yield (page.parent / target).resolve() if target else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_to_a_file_and_a_heading(page):
    for target, anchor in links(page):
        assert target.is_file(), f"{page.name} links to {target}, which is no file"
        if anchor:
            assert anchor in anchors(target.read_text()), f"{page.name} links to #{anchor} of {target.name}"


def test_headings_get_the_anchors_that_github_gives_them():
    page = "# What to do when …\n## `[model]`: two, [three](x.md)\n```\n# no heading\n```\n## Run\n## Run\n"
    assert anchors(page) == {"what-to-do-when-", "model-two-three", "run", "run-1"}


def test_the_front_page_is_short_and_explains_itself():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    assert {"make demo", "make test"} <= set(lines)


def test_the_glossary_has_thirty_words():
    assert len(re.findall(r"^## ", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)) == 30


def test_the_diagrams_are_as_drawn():
    script = ROOT / "scripts" / "diagrams.py"
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_the_text_of_the_diagrams_has_contrast(scheme):
    """At least 4.5:1, as WCAG's level AA asks of text."""
    for words, ground in product(("ink", "soft", "bad"), ("page", "ledger", "store", "box")):
        high, low = sorted((luminance(COLOURS[name][scheme]) for name in (words, ground)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, f"{words} on {ground}"
