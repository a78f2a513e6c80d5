"""The hook of ``mkdocs.yml``: it fits the repository's pages into one site.

The site's root is the repository's root with ``docs/`` merged into it, and README.md is its home page. A page may link
to any file of the repository, as on GitHub: files outside ``docs/`` that are linked to become part of the site. The
notebook becomes a page.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ["README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "CHANGELOG.md"]
NOTEBOOK = "docs/first-federation.ipynb"
# Installed, all packages lie below `fedgrove`; in the repository three of them lie next to it.
PACKAGES = {"chain": "chain", "ipfs": "ipfs", "node": "node", "api": "fedgrove/api", "common": "fedgrove/common"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def place_in_site(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/").removesuffix(".ipynb") + (".md" if path.endswith(".ipynb") else "")


def place_in_repository(uri: str) -> str:
    """The file of the repository that a page of the site is made from."""
    names = {place_in_site(path): path for path in [*OUTSIDE, NOTEBOOK]}
    return names.get(uri, uri if (ROOT / uri).is_file() else f"docs/{uri}")


def links(path: str, text: str) -> Iterator[tuple[re.Match[str], str]]:
    """The links of a page to files, each with the file's path in the repository."""
    prose = CODE.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)
    for match in LINK.finditer(prose):
        yield match, normpath(str(PurePosixPath(path).parent / match[0]))


def notebook_as_page(text: str) -> str:
    """A notebook's cells as Markdown."""
    cells = ((cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"])
    return "\n\n".join(source if kind == "markdown" else f"```python\n{source}\n```" for kind, source in cells)


def on_startup(command: str, dirty: bool) -> None:
    """Lay the packages out as an installed wheel has them: the reference of the Python interface is read there."""
    package = ROOT / "build" / "import" / "fedgrove"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_bytes((ROOT / "fedgrove" / "__init__.py").read_bytes())
    for name, target in PACKAGES.items():
        (package / name).unlink(missing_ok=True)
        (package / name).symlink_to(ROOT / target)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside ``docs/``: the pages of ``OUTSIDE``, the notebook, and all that pages link to."""
    waiting = [*OUTSIDE, NOTEBOOK, *(f"docs/{each.src_uri}" for each in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        file = ROOT / path
        if not file.is_relative_to(ROOT) or not file.is_file():
            continue  # the strict build names the page that links to nothing
        text = None
        if path.endswith((".md", ".ipynb")):
            text = file.read_text() if path.endswith(".md") else notebook_as_page(file.read_text())
            targets = {target for _, target in links(path, text)} - seen
            seen |= targets
            waiting.extend(targets)
        uri = place_in_site(path)
        if files.get_file_from_path(uri) is None:
            content: Any = file.read_bytes() if text is None else text
            files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page at the places of their targets in the site."""
    path, uri = place_in_repository(page.file.src_uri), page.file.src_uri
    for match, target in reversed(list(links(path, markdown))):
        place = relpath(place_in_site(target), str(PurePosixPath(uri).parent))
        markdown = f"{markdown[: match.start()]}{place}{markdown[match.end() :]}"
    return markdown
