"""From a path to a page: the same for the server and for an export.

Paths of pages end in ``/`` (the overview's is empty), and links are relative, so that a page works wherever it lies.
"""

import re
from collections.abc import Callable
from functools import cached_property

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedgrove.common.text import duration
from fedgrove.node.explorer import drawings
from fedgrove.node.explorer.checks import WORDS, Checks
from fedgrove.node.explorer.figures import coins, in_unit, minute, percent, short, size, time, unit_of
from fedgrove.node.explorer.heatmap import MAX_CLIENTS
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.inert import contents_of_model, document, inert
from fedgrove.node.explorer.options import NO_OPTIONS, PageOptions
from fedgrove.node.explorer.tree_drawing import STATES, trees_of
from fedgrove.node.explorer.views.blobs import MAX_MODEL_BYTES, head_of, lineage, named, terms_behind, terms_tables
from fedgrove.node.explorer.views.cells import cells_of, standstill_of
from fedgrove.node.explorer.views.charts import charts
from fedgrove.node.explorer.views.clients import forgettings, members, one_client
from fedgrove.node.explorer.views.cluster_course import curves, grid, said, score_name
from fedgrove.node.explorer.views.clusters import clusters_of
from fedgrove.node.explorer.views.contracts import approvals, foundings, gas
from fedgrove.node.explorer.views.own_pages import OWN_PAGES
from fedgrove.node.explorer.views.rounds import leaves_of, one_round, round_list
from fedgrove.node.explorer.views.rows import Blob, text_of
from fedgrove.node.explorer.views.runs import RunView
from fedgrove.node.explorer.views.scores import scores_of
from fedgrove.node.explorer.views.search import place_of, search
from fedgrove.node.explorer.views.settings import hyper_parameters
from fedgrove.node.explorer.views.words import KINDS, OUTCOMES, ROLES, STAGES, people
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.status.clusters import tensors_start
from fedgrove.node.status.price import Price


def make_templates(price: Price | None = None) -> Environment:
    """All templates, with the filters and words that they use."""
    templates = Environment(
        loader=PackageLoader("fedgrove.node.explorer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "size": size, "time": time, "inert": inert, "short": short, "percent": percent, "people": people,
        "coins": coins, "in_unit": in_unit, "duration": duration, "minute": minute,
    }  # fmt: skip
    templates.globals |= {
        "KINDS": KINDS, "ROLES": ROLES, "WORDS": WORDS, "STATES": STATES, "OUTCOMES": OUTCOMES, "STAGES": STAGES,
        "said": said, "score_name": score_name, "price": price, "unit_of": unit_of,
    }  # fmt: skip
    return templates


def failed_page(templates: Environment, url: Callable[[str], str], static: bool) -> str:
    """A page in the place of one that cannot be made; ``url`` makes its links."""
    given = {"title": "Not shown", "section": "", "live": False, "follows": False, "settled": True, "terms": None}
    return templates.get_template("failed.html").render(url=url, static=static, **given)


_NUMBER = r"(0|[1-9][0-9]{0,17})"
_DIGEST = r"([0-9a-f]{64})"
Exists = Callable[[str], bool]


class Pages:
    """Renders pages out of what a watch has found by now.

    Parameters
    ----------
    has : callable, optional
        For an export: whether a path will be there. Links to others are left out, and folders are linked by their file.
    compared : bool
        These pages lie below some that compare this run with others (``comparing``), which they lead back to.
    """

    def __init__(
        self,
        watch: IndexWatch,
        has: Exists | None = None,
        options: PageOptions = NO_OPTIONS,
        compared: bool = False,
    ) -> None:
        self.watch, self.has, self.compared = watch, has, compared
        self.price = options.price_on(watch.source.deployment)
        self.templates = make_templates(self.price)
        self.templates.globals["outside"] = _outside(watch, options)

    def render(self, path: str, query: str = "") -> str | None:
        """The page at a path, or None where there is none."""
        return _Request(self, path, query).page()

    def only_hit(self, query: str) -> str:
        """The path of the only page that a search leads to; empty where there is none, or more."""
        index = RunView(self.watch).index
        hits = search(index, query) if index is not None else []
        return hits[0].path if len(hits) == 1 else ""

    def missing(self, path: str) -> str:
        """The page that says that there is none."""
        return _Request(self, path).render("missing.html", "Not found", "")

    def failed(self, path: str) -> str:
        """The page that says that the one at this path cannot be made; it needs nothing of the history."""
        return failed_page(self.templates, _Request(self, path).link, static=self.has is not None)


class _Request:
    """One page, on one sight of the history."""

    def __init__(self, site: Pages, path: str, query: str = "") -> None:
        self._site, self._path, self._query = site, path, query

    @cached_property
    def _run(self) -> RunView:
        return RunView(self._site.watch)  # which a page in the place of one that failed does without

    @property
    def _checks(self) -> Checks:
        return self._run.checks

    @property
    def _index(self) -> Index:
        if self._run.index is None:
            raise AttributeError("a history that cannot be read has no pages")
        return self._run.index

    def page(self) -> str | None:
        known = self._run.index is not None
        if not known and (self._site.watch.index is None or self._run.sight.read):
            return self.render("unreadable.html", "Unreadable", "") if not self._path else None
        for pattern, make in ROUTES:
            found = pattern.fullmatch(self._path)
            if found:
                return make(self, *found.groups()) if known else self.render("reading.html", "Reading", "")
        return None

    def render(self, template: str, title: str, section: str, **values: object) -> str:
        """Fill a template; every page has the badge of the history and the way to check it."""
        run, static = self._run, self._site.has is not None
        terms, method = terms_tables(run.config), run.config.method if run.config is not None else TrainingTerms()
        return self._site.templates.get_template(template).render(
            title=title,
            section=section,
            url=self.link,
            static=static,
            live=run.source.live and not static,
            follows=not static and (run.source.live or not run.settled),
            settled=run.settled,
            version=run.sight.version,
            source=run.source,
            sight=run.sight,
            summary=run.summary,
            bad_link=self._bad_link(),
            comparison_link=self._comparison(),
            records=run.count("records"),
            deployment=run.deployment if run.index is not None else None,
            practice=run.practice,
            head=run.head,
            head_hash=run.head_hash,
            terms=terms,
            subject=run.subject,
            method=method,
            method_page=OWN_PAGES.get(method.name),
            **values,
        )

    def _bad_link(self) -> str:
        """A relative link to the first bad record, or to its round; empty where there is none, or no page shows it."""
        index, bad, place = self._run.index, self._run.sight.bad, self._run.sight.bad_place
        if bad is None or index is None:
            return ""
        row = index.row("SELECT round, client FROM records WHERE id = ?", place) if place else None
        if row is not None:
            return self.link(place_of(row["round"], row["client"], place or 0))
        known = index.value("SELECT 1 FROM rounds WHERE number = ?", bad.round)  # no round has no number
        return self.link(f"rounds/{bad.round}/") if known else ""

    def _comparison(self) -> str:
        """A relative link to the page that compares this run with others; empty where there is none."""
        if not self._site.compared:
            return ""
        return "../" * (self._path.count("/") + 2) + ("index.html" if self._site.has is not None else "")

    def link(self, path: str) -> str:
        """A relative link; empty for what an export leaves out."""
        bare, mark, place = path.partition("#")
        if self._site.has is not None:
            if not self._site.has(bare):
                return ""
            bare += "index.html" if not bare or bare.endswith("/") else ""
        up = "../" * self._path.count("/")
        return f"{up}{bare}{mark}{place}" or "./"

    # --- pages ------------------------------------------------------------------------------------------------------

    def _overview(self) -> str:
        rounds = self._run.rounds
        return self.render(
            "overview.html", "Overview", "overview", rounds=rounds, listed=round_list(rounds, 1),
            charts=charts(rounds, self._site.price, self._index.deployment.practice),
            settings=hyper_parameters(self._run.config), still=standstill_of(self._index),
            members=members(self._index), forgettings=forgettings(self._index, self._checks),
        )  # fmt: skip

    def _rounds(self, page: str) -> str | None:
        rounds = self._run.rounds
        listed = round_list(rounds, int(page)) if int(page) > 1 else None
        if listed is None:  # the first is on the overview
            return None
        return self.render("rounds.html", f"Rounds, page {page}", "overview", listed=listed)

    def _round(self, number: str) -> str | None:
        view = one_round(self._index, self._checks, int(number))
        if view is None:
            return None
        leaves = leaves_of(self._index, int(number), lambda client: self.link(f"clients/{client}/"))
        title = f"Phases of round {number} by block"
        timeline = drawings.timeline(view.phases, view.row.ended_block, self._index.head(), title)
        clusters = clusters_of(self._index, self._checks)
        step = clusters.step(int(number)) if clusters else None
        if clusters and step:
            groups = clusters.groups(
                step, {leaf.client: leaf.stated for leaf in leaves if leaf.masks and leaf.stated is not None}
            )
        else:
            groups = cells_of(self._index, int(number)) if leaves else None
        what = "cluster" if step else "cell"
        trees = trees_of(leaves, groups, f"round {number}", what) if clusters is None or step else []
        return self.render(
            "round.html", f"Round {number}", "overview", number=int(number), view=view,
            scores=scores_of(self._index, int(number)), trees=trees, leaves=leaves,
            grouped=groups is not None, timeline=timeline,
            clusters=clusters, step=step, judged=clusters.judged_in(step) if clusters and step else (),
            leaders=clusters.leaders(step, groups) if clusters and step and groups is not None else {},
        )  # fmt: skip

    def _clients(self) -> str:
        return self.render("clients.html", "Clients", "clients", members=members(self._index))

    def _client(self, number: str) -> str | None:
        view = one_client(self._index, self._checks, int(number))
        if view is None:
            return None
        clusters = clusters_of(self._index, self._checks)
        return self.render(
            "client.html", f"Client {number}", "clients", view=view, rounds=self._run.rounds,
            clusters=clusters, matrix=clusters and clusters.matrix,
            own=[step for step in clusters.steps if view.client in step.trained] if clusters else (),
        )  # fmt: skip

    def _clusters(self) -> str | None:
        view = clusters_of(self._index, self._checks)
        if view is None:
            return None
        matrix = view.matrix
        drawn = matrix if matrix is not None and len(matrix.clients) <= MAX_CLIENTS else None
        return self.render(
            "clusters.html", "Clusters", "clusters", view=view, matrix=matrix, members=members(self._index),
            heatmap=drawn.draw("Similarity of the clients' data") if drawn is not None else "",
            grid=grid(view), curves=curves(view),
        )  # fmt: skip

    def _models(self) -> str:
        rounds = self._run.rounds
        return self.render("models.html", "Models", "models", lineage=lineage(self._index), rounds=rounds)

    def _contracts(self) -> str:
        return self.render(
            "contracts.html", "Contracts", "contracts", gas=gas(self._index),
            foundings=foundings(self._index, self._checks), approvals=approvals(self._index, self._checks),
        )  # fmt: skip

    def _blob(self, digest: str) -> str | None:
        found = named(self._index, self._checks, bytes.fromhex(digest))
        if found is None:
            return None
        blob, records = found
        of_model = (
            self._model(blob)
            if blob.role == "model"
            else {"contents": None, "lineage": [], "place": None, "outline": ""}
        )
        return self.render(
            "blob.html", _title(blob, of_model["lineage"], of_model["place"]),
            "models" if blob.role == "model" else "overview", blob=blob, records_of=records,
            text=text_of(self._index, bytes.fromhex(digest)) if blob.role == "metrics" else "",
            blob_terms=terms_behind(self._index, blob, records), **of_model,
        )  # fmt: skip

    def _model(self, blob: Blob) -> dict:
        """A model's table of contents, and its place among all models."""
        contents, head = None, head_of(self._index, bytes.fromhex(blob.digest))
        if blob.state == "held":  # else a store may look for it for half a minute
            start = tensors_start(head) if head else 0
            contents = contents_of_model(
                self._site.watch.source.store, bytes.fromhex(blob.digest), MAX_MODEL_BYTES, start
            )
        models = lineage(self._index)
        place = next((place for place, (_, model) in enumerate(models) if model.digest == blob.digest), None)
        return {"contents": contents, "lineage": models, "place": place, "outline": document(head) if head else ""}

    def _help(self) -> str:
        return self.render("help.html", "How to read these pages", "help")

    def _search(self) -> str:
        results = search(self._index, self._query) if self._query.strip() else []
        return self.render("search.html", "Search", "search", query=inert(self._query, 200), results=results)


ROUTES: list[tuple[re.Pattern[str], Callable[..., str | None]]] = [
    (re.compile(""), _Request._overview),
    (re.compile(rf"rounds/{_NUMBER}/"), _Request._round),
    (re.compile(rf"rounds/page/{_NUMBER}/"), _Request._rounds),
    (re.compile(r"clients/"), _Request._clients),
    (re.compile(rf"clients/{_NUMBER}/"), _Request._client),
    (re.compile(r"clusters/"), _Request._clusters),
    (re.compile(r"models/"), _Request._models),
    (re.compile(r"contracts/"), _Request._contracts),
    (re.compile(rf"blobs/{_DIGEST}/"), _Request._blob),
    (re.compile(r"help/"), _Request._help),
    (re.compile(r"search/"), _Request._search),
]
"""What each path of a page shows."""


def _outside(watch: IndexWatch, options: PageOptions) -> Callable[[str, object], str]:
    """Links to the public site about this history's chain; empty where there is none."""
    deployment = watch.source.deployment
    site = options.block_explorer(deployment) if deployment is not None else None
    return site.link if site is not None else lambda kind, name: ""


def _title(blob: Blob, lineage: list, place: int | None) -> str:
    if blob.role != "model" or place is None:
        return blob.name.capitalize()
    return f"Model after round {lineage[place][0]}" if place else "First model"
