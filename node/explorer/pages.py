"""From a path to a page: the same for the server and for an export.

Paths of pages end in ``/`` (the overview's is empty), and links are relative, so that a page works wherever it lies.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property

from jinja2 import Environment, PackageLoader, StrictUndefined

from node.explorer import drawings, views
from node.explorer.checks import WORDS, Checks
from node.explorer.drawings import STATES, short
from node.explorer.inert import inert
from node.explorer.views import KINDS, MAX_LEAVES, OUTCOMES, ROLES, Views
from node.explorer.watch import Sight, Watch

_NUMBER = r"(0|[1-9][0-9]{0,17})"
_DIGEST = r"([0-9a-f]{64})"
Exists = Callable[[str], bool]


class Pages:
    """Renders pages out of what a watch has found by now.

    Parameters
    ----------
    watch : Watch
    has : callable, optional
        For an export: whether a path will be there. Links to others are left out, and folders are linked by their file.
    """

    def __init__(self, watch: Watch, has: Exists | None = None) -> None:
        self._watch = watch
        self._has = has
        self._templates = Environment(
            loader=PackageLoader("node.explorer"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"size": size, "time": time, "inert": inert, "short": short, "percent": percent}
        self._templates.globals |= {
            "KINDS": KINDS, "ROLES": ROLES, "WORDS": WORDS, "STATES": STATES, "OUTCOMES": OUTCOMES,
        }  # fmt: skip

    def render(self, path: str, query: str = "") -> str | None:
        """The page at a path, or None where there is none."""
        return _Request(self._watch, self._templates, self._has, path).page(query)

    def missing(self, path: str) -> str:
        """The page that says that there is none."""
        return _Request(self._watch, self._templates, self._has, path).render("missing.html", "Not found", "")


class _Request:
    """One page, on one sight of the history."""

    def __init__(self, watch: Watch, templates: Environment, has: Exists | None, path: str) -> None:
        self._watch = watch
        self._sight: Sight = watch.sight
        self._templates = templates
        self._has = has
        self._path = path
        self._checks = Checks(self._sight)

    @cached_property
    def _views(self) -> Views:
        return Views(self._watch.index, self._watch.source.store, self._checks)

    def page(self, query: str) -> str | None:
        if self._watch.index is None:
            return self.render("unreadable.html", "Unreadable", "") if not self._path else None
        for pattern, make in _ROUTES:
            found = pattern.fullmatch(self._path)
            if found:
                return make(self, *found.groups()) if pattern is not _SEARCH else self._search(query)
        return None

    def render(self, template: str, title: str, section: str, **values: object) -> str:
        """Fill a template; every page has the badge of the history and the way to check it."""
        index, source = self._watch.index, self._watch.source
        records = self._views.records() if index else 0
        return self._templates.get_template(template).render(
            title=title,
            section=section,
            url=self._link,
            static=self._has is not None,
            live=source.live and self._has is None,
            source=source,
            sight=self._sight,
            summary=self._checks.summary(records),
            records=records,
            deployment=index.deployment if index else None,
            head=index.head() if index else None,
            head_hash=(index.block_hash(index.head()) or b"").hex() if index else "",
            terms=self._views.terms() if index else None,
            **values,
        )

    def _link(self, path: str) -> str:
        """A relative link; empty for what an export leaves out."""
        bare, mark, place = path.partition("#")
        if self._has is not None:
            if not self._has(bare):
                return ""
            bare += "index.html" if not bare or bare.endswith("/") else ""
        up = "../" * self._path.count("/")
        return f"{up}{bare}{mark}{place}" or "./"

    # --- pages ------------------------------------------------------------------------------------------------------

    def _overview(self) -> str:
        rounds = self._views.rounds()
        return self.render(
            "overview.html", "Overview", "overview", rounds=rounds, charts=self._views.charts(rounds),
            members=self._views.members(),
        )  # fmt: skip

    def _round(self, number: str) -> str | None:
        view = self._views.round(int(number))
        if view is None:
            return None
        leaves = self._views.leaves(int(number), lambda client: self._link(f"clients/{client}/"))
        title = f"Cooperation tree of round {number}"
        tree = drawings.cooperation_tree(leaves, title) if 0 < len(leaves) <= MAX_LEAVES else ""
        head = self._watch.index.head()
        timeline = drawings.timeline(view["phases"], view["ended_block"], head, f"Phases of round {number} by block")
        partners = [drawings.tree.partners(position, len(leaves)) for position in range(len(leaves))]
        return self.render(
            "round.html", f"Round {number}", "overview", number=int(number), view=view, leaves=leaves, tree=tree,
            timeline=timeline, partners=partners,
        )  # fmt: skip

    def _clients(self) -> str:
        return self.render("clients.html", "Clients", "clients", members=self._views.members())

    def _client(self, client: str) -> str | None:
        view = self._views.client(int(client))
        return view and self.render(
            "client.html", f"Client {client}", "clients", view=view, rounds=self._views.rounds()
        )

    def _models(self) -> str:
        return self.render(
            "models.html", "Models", "models", lineage=self._views.lineage(), rounds=self._views.rounds()
        )

    def _contracts(self) -> str:
        return self.render(
            "contracts.html", "Contracts", "contracts", gas=self._views.gas(), memberships=self._views.memberships()
        )

    def _blob(self, digest: str) -> str | None:
        named = self._views.named(bytes.fromhex(digest))
        if named is None:
            return None
        blob, records = named
        contents = self._views.contents(bytes.fromhex(digest)) if blob.role == "model" else None
        lineage = self._views.lineage() if blob.role == "model" else []
        place = next((place for place, (_, model) in enumerate(lineage) if model.digest == digest), None)
        return self.render(
            "blob.html", _title(blob.role, lineage, place), "models" if blob.role == "model" else "overview",
            blob=blob, records_of=records, contents=contents, text=self._views.text(bytes.fromhex(digest)),
            lineage=lineage, place=place, blob_terms=self._terms_behind(blob, records),
        )  # fmt: skip

    def _terms_behind(self, blob: views.Blob, records: list[views.Row]) -> tuple[str, dict | None] | None:
        """Digest and tables of the terms: of a blob of terms, or those under which a model was made."""
        if blob.role == "config":
            return blob.digest, self._views.terms(bytes.fromhex(blob.digest))
        if blob.role != "model" or not records:
            return None
        round = self._views.round(records[0].round) if records[0].round is not None else None
        if round is None:
            return None
        digest = round["config"].digest
        return digest, self._views.terms(bytes.fromhex(digest))

    def _help(self) -> str:
        return self.render("help.html", "How to read this", "help")

    def _search(self, query: str) -> str:
        results = self._views.search(query) if query.strip() else []
        return self.render("search.html", "Search", "search", query=inert(query, 200), results=results)


_SEARCH = re.compile(r"search/")
_ROUTES: list[tuple[re.Pattern[str], Callable[..., str | None]]] = [
    (re.compile(""), _Request._overview),
    (re.compile(rf"rounds/{_NUMBER}/"), _Request._round),
    (re.compile(r"clients/"), _Request._clients),
    (re.compile(rf"clients/{_NUMBER}/"), _Request._client),
    (re.compile(r"models/"), _Request._models),
    (re.compile(r"contracts/"), _Request._contracts),
    (re.compile(rf"blobs/{_DIGEST}/"), _Request._blob),
    (re.compile(r"help/"), _Request._help),
    (_SEARCH, _Request._search),
]


def _title(role: str, lineage: list, place: int | None) -> str:
    if role != "model" or place is None:
        return ROLES[role].capitalize()
    return f"Model after round {lineage[place][0]}" if place else "First model"


def size(count: int | None) -> str:
    """Bytes for people: 812 B, 3.4 kB, 1.2 MB."""
    if count is None:
        return "–"
    for limit, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count} B"


def time(seconds: int | None) -> str:
    """A block's time by the clock of whoever made it, in UTC; it may be anything."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%-d %b %Y, %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError, TypeError):
        return "at a time that no calendar has"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
