"""Pages on clusters say what the states on the ledger say, and what follows from them; hostile ones say nothing."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedgrove.chain.crypto.signatures import sign_message
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import STORE, write_archive
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.export import export
from fedgrove.node.explorer.heatmap import Heatmap
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.pages import Pages
from fedgrove.node.explorer.server import serving
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.survey import ask_again, survey
from fedgrove.node.explorer.views.clusters import ClustersView, clusters_of
from fedgrove.node.explorer.views.words import STAGES
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.round_inputs import course_of
from fedgrove.node.methods.procfl.schedule import ClusterSchedule
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.status.clusters import MAX_HEAD_BYTES, Left, hear
from fedgrove.node.status.report import build_report
from tests.node.explorer.conftest import check_everybody_can_use, damage, exploring
from tests.node.explorer.test_export import links
from tests.node.explorer.test_pages import check_well_formed

pytestmark = pytest.mark.xdist_group("clusters")


@pytest.fixture(scope="module")
def archive(story, tmp_path_factory) -> Path:
    """The story's run, as ``demo --out`` leaves one."""
    directory = tmp_path_factory.mktemp("clustered") / "run"
    shutil.copytree(story.federation.directory / "store", directory / STORE)
    rounds = {end.round: 0.0 for end in story.closed()}
    report = build_report(story.history, story.federation.store, rounds)
    write_archive(directory, story.history, {**report, "audit": Verdict("verified", practice=True).entry()})
    return directory


@pytest.fixture(scope="module")
def clustered(archive, tmp_path_factory):
    with exploring(DirectorySource(archive), tmp_path_factory.mktemp("cache")) as made:
        assert made.watch.sight.verdict.verdict == "verified"
        yield made


@pytest.fixture(scope="module")
def heard(story) -> list[ClusterState]:
    """What each round left, by the rules and out of whole states."""
    course = course_of(story.federation.config)
    return [
        course.after_statement(state, Stated.of(metrics.stated))
        for state, metrics in zip(story.states(), story.stated(), strict=True)
    ]


@pytest.fixture(scope="module")
def view(clustered) -> ClustersView:
    return clusters_of(clustered.index, Checks(clustered.watch.sight))


@pytest.fixture
def copied(story, clustered, tmp_path) -> Iterator[Index]:
    """A copy of the index, to be changed."""
    with clustered.index.connection() as database:
        database.execute("VACUUM INTO ?", (str(tmp_path / "index.sqlite"),))
    index = Index(tmp_path / "index.sqlite", story.history.deployment)
    yield index
    index.close()


# --- what the index has, follows --------------------------------------------------------------------------------------


def test_each_round_is_for_what_the_state_before_it_says(view, heard):
    assert [step.row.stage for step in view.steps] == ["blind", *(state.stage for state in heard[:-1])]
    for step, state in zip(view.steps, heard, strict=True):
        assert step.left.state.head() == replace(state, overlaps=()).head()


def test_the_matrix_is_that_of_the_overlaps_in_the_order_of_the_clusters(view, heard, story):
    state, matrix = heard[-1], view.matrix
    place = {client: row for row, client in enumerate(matrix.clients)}
    assert sorted(matrix.clients) == list(state.clients) and matrix.stated.number == 2
    for client in state.clients:
        assert matrix.size(client) == len(story.federation.samples[client - 1])
        for other in state.clients:
            share = state.similarity.ism[state.rows[client], state.rows[other]]
            assert matrix.ism[place[client]][place[other]] == share
            assert matrix.alike[place[client]][place[other]] == (share >= view.terms.alpha)
    assert list(matrix.homes) == sorted(matrix.homes)
    (nearest, share), *_ = matrix.likest(1, 1)
    assert share == max(state.similarity.ism[0, 1:]) and nearest in state.clients


def test_scores_are_those_that_make_suspect(view, heard):
    for step, state in zip(view.steps, heard, strict=True):
        fell = [each for each in step.scores if each.fell]
        assert bool(fell) == (state.stage == "show")
        for case in state.cases if fell else ():
            assert case.cluster in [each.cluster for each in fell]
            assert all(each.score < each.best - view.terms.tolerance for each in fell)


def test_leaders_are_those_that_repeat_the_sums(story, clustered, view):
    schedule = ClusterSchedule(story.federation.config)
    for step in view.steps:
        inputs = story.place(step.number)
        stated = {client: draw.samples for client, draw in inputs.current.draws.items()}
        leaders = view.leaders(step, view.groups(step, stated))
        assert tuple(leaders.values()) == schedule.leaders(inputs)
        page = clustered.page(f"rounds/{step.number}/")
        assert ("recomputes the coordinator’s sum" in page) == bool(leaders) == (step.row.stage == "train")


def test_judgements_have_the_ballots_that_judges_uploaded(story, view, heard):
    votes = [number for number, state in enumerate(heard[:-1], 2) if state.stage == "vote"]
    assert [each.voted.number for each in view.judgements] == votes and len(votes) == 2
    for each in view.judgements:
        uploads = {record.client: record.digest for record in story.committed(each.voted.number)}
        assert set(each.showed) == set(each.case.members) and set(each.ballots) == set(each.case.committee)
        for judge, ballot in each.ballots.items():
            assert story.federation.store.fetch(uploads[judge], 1 << 12).startswith(ballot.to_bytes())
        for member, said, against, expelled in each.lines:
            assert said.count("against") == against == each.votes_against(member)
            assert expelled == (against >= each.needed) == (heard[-1].expelled.get(member) == each.case.cluster)
        assert each.score.fell and each.suspected.number < each.shown.number < each.voted.number


# --- pages ------------------------------------------------------------------------------------------------------------


def test_every_round_says_what_it_was_for_and_whose_word_a_thing_is(clustered, view):
    overview, page = clustered.page(), clustered.page("clusters/")
    check_well_formed(page)
    for step in view.steps:
        own = clustered.page(f"rounds/{step.number}/")
        check_well_formed(own)
        assert STAGES[step.row.stage] in own and STAGES[step.row.stage] in overview
    assert page.count("coordinator’s word") >= 2 and "checked" in page
    for share in (value for row in view.matrix.ism for value in row):
        assert f">{share:.2f}</td>" in page
    assert clustered.page("help/").count("coordinator’s word") == 1


def test_label_shares_are_shown_in_percent_and_none_where_none_are_known(clustered, copied, heard):
    shown = [" · ".join(f"{100 * share / sum(shares):.0f}" for share in shares) for shares in heard[-1].labels]
    assert len(shown) == 2 and all(f">{each}</td>" in clustered.page("clusters/") for each in shown)
    unknown = replace(heard[-1], labels=((1,) * 10, ()))
    with copied.changes() as database:
        database.execute("UPDATE rounds SET clusters = ? WHERE number = ?", (Left(unknown).to_row()[0], len(heard)))
    page = Pages(IndexWatch(clustered.watch.source, copied)).render("clusters/")
    assert page.count('data-label="Labels, in %">–</td>') == 2


def test_uploads_have_the_name_of_what_they_are(story, clustered, view):
    for step in view.steps:
        page = clustered.page(f"rounds/{step.number}/")
        silent = sum(not story.federation.store.fetch(each.digest, 1 << 24) for each in story.committed(step.number))
        assert page.count('<th scope="row">Empty upload</th>') == silent
        assert ("Masked update" in page) == (step.row.stage == "train")
    ballot = next(
        each for each in story.committed(view.judgements[0].voted.number) if each.client in view.judgements[0].ballots
    )
    assert "Its votes" in clustered.page(f"blobs/{ballot.digest.hex()}/")


def test_trees_are_those_of_the_groups(clustered, view):
    step = next(step for step in view.steps if step.row.stage == "train" and not step.one_model)
    page = clustered.page(f"rounds/{step.number}/")
    assert page.count('<svg class="tree lying"') == sum(map(bool, step.left.state.groups))
    voted = clustered.page(f"rounds/{view.judgements[0].voted.number}/")
    assert '<svg class="tree lying"' not in voted and "Nobody masks in this round" in voted


def test_a_client_has_its_clusters_its_verdict_and_its_votes(clustered, view):
    for each in view.judgements:
        for member in each.case.members:
            page = clustered.page(f"clients/{member}/")
            check_well_formed(page)
            assert (f"expelled from cluster {each.number}" in page) == (member in each.case.expelled)
        judge = each.case.committee[0]
        accused = ", ".join(map(str, each.accused_by(judge)))
        assert f": against {accused}</dd>" in clustered.page(f"clients/{judge}/")
    stranger = clustered.page("clients/11/")
    assert "not compared with others’" in stranger and "had nothing to contribute" in stranger


def test_a_state_has_its_outline_and_its_tensors(story, clustered):
    page = clustered.page(f"blobs/{story.closed()[3].model_digest.hex()}/")
    assert "State of the clusters" in page and "models/0/" in page and "model cannot be read" not in page


def test_an_export_has_the_page_and_every_link_leads_to_a_file(clustered, tmp_path):
    export(clustered.watch, tmp_path / "site", 1 << 30)
    assert '<svg class="heatmap"' in (tmp_path / "site" / "clusters" / "index.html").read_text()
    for page, path in links(tmp_path / "site"):
        assert path and (page.parent / path).is_file(), f"{page} links to {path}"


def test_at_any_block_pages_say_what_was_known_then(story, clustered, view, copied):
    """The federation as somebody saw it while it went on: up to each of some blocks, from the last to the first."""
    pages, last = Pages(IndexWatch(clustered.watch.source, copied)), view.judgements[-1]
    ballots = [each for each in story.committed(last.voted.number) if each.client in last.ballots]
    ends = {end.round: end.at.block for end in story.closed()}
    blocks = [ballots[1].at.block, *(block for number in sorted(ends, reverse=True)[1:] for block in (ends[number],))]
    for block in blocks:
        copied.forget_after(block)
        latest = copied.value("SELECT max(number) FROM rounds")
        for path in ("", "clusters/", f"rounds/{latest}/", "clients/1/"):
            check_well_formed(pages.render(path))
        if block == blocks[0]:
            page = pages.render("clusters/")
            assert page.count("no ballot") == len(last.case.members) * (len(last.ballots) - 2)
            assert "not yet" in page and "expelled from" not in pages.render(f"clients/{last.case.expelled[0]}/")


def test_a_cluster_with_too_few_members_for_a_sum_is_named(story, clustered, view, copied):
    """Where rounds are left: three may be summed by these terms, and one of three is revoked."""
    pages = Pages(IndexWatch(clustered.watch.source, copied))
    copied.forget_after(story.closed()[-1].at.block - 1)
    assert "a sum needs" not in pages.render("clusters/") and not view.small
    (cluster,) = [members for members in view.now.clusters if len(members) == 3][:1]
    with copied.changes() as database:
        database.execute("UPDATE members SET approved = 0 WHERE client = ?", (cluster[0],))
    page = pages.render("clusters/")
    check_well_formed(page)
    number = view.now.clusters.index(cluster) + 1
    assert f"Cluster {number} has 2 members, but a sum needs 3, " in page and "1 of its 1 former members" in page


# --- hostile ----------------------------------------------------------------------------------------------------------


def test_a_changed_ballot_is_red_and_counts_for_nobody(story, archive, view, tmp_path):
    last = view.judgements[-1]
    record = next(each for each in story.committed(last.voted.number) if each.client == last.case.committee[0])
    shutil.copytree(archive, tmp_path / "run")
    damage(tmp_path / "run" / STORE / "blocks" / record.digest.hex())
    with exploring(DirectorySource(tmp_path / "run"), tmp_path / "cache") as explorer:
        assert explorer.watch.sight.bad.round == last.voted.number
        page = explorer.page(f"rounds/{last.voted.number}/")
        assert page.count("no ballot") == len(last.case.members) and 'class="badge bad"' in page


def test_a_state_that_does_not_follow_is_not_shown(clustered, copied):
    """Other heads and statements than those behind the ledger's digests: pages stay, and say what is missing."""
    pages = Pages(IndexWatch(clustered.watch.source, copied))
    with copied.changes() as database:
        evil = (b"<script>alert(1)</script>", "[[1]]")
        database.execute("UPDATE rounds SET clusters = ?, scores = ? WHERE number = 4", evil)
        database.execute("UPDATE rounds SET clusters = NULL, stage = NULL WHERE number = 5")
        database.execute("UPDATE blobs SET text = ? WHERE digest IN (SELECT model FROM rounds)", (b"{}",))
    for path in ("", "clusters/", "rounds/4/", "rounds/5/", "rounds/6/", "clients/1/", "models/"):
        page = pages.render(path)
        check_well_formed(page)
        assert "<script>alert" not in page
    assert "unavailable" in pages.render("clusters/") and "unavailable" in pages.render("rounds/4/")


def test_a_state_of_too_many_and_too_large_numbers_makes_no_large_page(clustered, copied, heard, view):
    """One that the audit has not come to yet: members beyond any ledger's, and clusters without end."""
    pages = Pages(IndexWatch(clustered.watch.source, copied))
    number = next(step.number for step in view.steps if step.row.stage == "train")
    crowd = (*range(1, 200), *range(1 << 31, (1 << 31) + 200))
    sets, clusters = dict.fromkeys(crowd, ("ab" * 32, 7)), (crowd,) * 360
    state = replace(heard[number - 2], sets=sets, clients=crowd, overlaps=(), clusters=clusters, labels=(), groups=())
    known = {"labels": ((1,) * 10,) * 360, "references": ({},), "right": ((1,) * 10,), "tested": (1,) * 10}
    known["groups"] = ((),) * 360
    cases = tuple(Case(cluster, crowd[:200], crowd[200:]) for cluster in range(20))
    judged = replace(state, stage="show", cases=cases, began="ab" * 32, **known)
    for evil in (state, judged):
        assert MAX_HEAD_BYTES / 2 < len(evil.head()) < MAX_HEAD_BYTES and Left.from_row(*Left(evil).to_row())
        with copied.changes() as database:
            row = (*Left(evil).to_row(), evil.stage, number - 1)
            database.execute("UPDATE rounds SET clusters = ?, scores = ?, stage = ? WHERE number = ?", row)
            database.execute("UPDATE rounds SET clusters = NULL WHERE number >= ?", (number,))
        for path in ("", "clusters/", f"rounds/{number}/", "clients/1/"):
            assert len(pages.render(path)) < 1_000_000


def test_what_is_stated_wrongly_leads_nowhere(story):
    """No state or statement, however it is bent, gets further than to be left out."""
    coordinator = story.federation.coordinator_keys.account
    config, states, metrics = story.federation.config, story.states(), story.stated()
    watched = next(number for number, state in enumerate(states) if state.stage == "watch")
    for number in (1, watched):
        head, stated = states[number].head(), metrics[number]
        digest = cid_of(states[number].to_bytes()).digest
        assert hear(head, digest, stated.to_bytes(), config) is not None
        assert hear(head, bytes(32), stated.to_bytes(), config) is None
        changes = [
            {"overlaps": ((),)},
            {"right": ()},
            {"right": ((1,) * 10,) * 50},
            {"tested": (0,) * 10},
            {"tested": ()},
        ]
        for change in changes:
            bent = Stated().replace(**change)
            wrong = bent.replace(signature=sign_message(coordinator, bent.message(digest)).hex())
            assert hear(head, digest, stated.replace(stated=wrong.to_table()).to_bytes(), config) is None
        assert hear(head, digest, stated.replace(stated=None).to_bytes(), config) is None
        table = json.loads(head)
        for name in table:
            for value in (None, [], [[]], [[1]], {}, -1, 1 << 60, "x", [[{}]]):
                hear(_canonical({**table, name: value}), digest, stated.to_bytes(), config)
        for place in range(0, len(head), 97):
            hear(head[:place] + bytes([head[place] ^ 4]) + head[place + 1 :], digest, stated.to_bytes(), config)


def _canonical(table: dict) -> bytes:
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()


def test_an_index_of_an_older_version_is_made_anew(story, clustered, archive, copied, tmp_path):
    """As an explorer that knew nothing of clusters has left one: under the same name, with other tables."""
    with copied.changes() as database:
        database.execute("DROP TABLE rounds")
        database.execute("CREATE TABLE rounds (number INTEGER PRIMARY KEY)")
        database.execute("UPDATE meta SET value = '1' WHERE key = 'version'")
    copied.close()
    new = Index(tmp_path / "index.sqlite", story.history.deployment)
    assert new.value("SELECT count(*) FROM records") == 0 and not new.rows("SELECT stage, clusters FROM rounds")
    DirectorySource(archive).read(new)
    while survey(new, clustered.watch.source.store, 1, 10_000):
        pass
    query = "SELECT number, stage, clusters, scores FROM rounds"
    assert list(map(tuple, new.rows(query))) == list(map(tuple, clustered.index.rows(query)))
    new.close()


def test_terms_that_come_late_cost_nothing(story, clustered, archive, tmp_path):
    """A store that gets them only after all else, as one of a network may."""
    shutil.copytree(archive, tmp_path / "run")
    source, index = DirectorySource(tmp_path / "run"), Index(tmp_path / "index.sqlite", story.history.deployment)
    source.read(index)
    (config,) = (row["digest"] for row in index.rows("SELECT digest FROM blobs WHERE role = 'config'"))
    block = tmp_path / "run" / STORE / "blocks" / config.hex()
    block.rename(tmp_path / "away")
    while survey(index, source.store, 1, 10_000):
        pass
    assert not index.value("SELECT count(stage) FROM rounds")
    (tmp_path / "away").rename(block)
    ask_again(index, 1)
    while survey(index, source.store, 1, 10_000):
        pass
    query = "SELECT number, stage, clusters, scores FROM rounds"
    assert list(map(tuple, index.rows(query))) == list(map(tuple, clustered.index.rows(query)))
    index.close()


# --- drawings, and a browser ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 40, 41, 128])
def test_the_matrix_is_drawn_whole(count):
    ism = [[1.0 if row == column else 0.04 for column in range(count)] for row in range(count)]
    alike = [[row == column for column in range(count)] for row in range(count)]
    drawing = str(Heatmap(range(1, count + 1), [0] * count, ism, alike).draw("<title>"))
    assert drawing.count('class="home') == count and "&lt;title&gt;" in drawing
    cells = drawing.count("<title>") or drawing.count("z")
    assert cells == (count * count if count <= 40 else count)  # those of a shade too light to see are left out
    assert len(drawing) < 400 * count * count


def test_everybody_can_use_the_pages(clustered, view, open_page):
    voted, expelled = view.judgements[0].voted.number, view.judgements[0].case.expelled[0]
    with serving(clustered.watch) as address:
        page = open_page(address)
        paths = {"clusters": "clusters/", "votes": f"rounds/{voted}/", "expelled": f"clients/{expelled}/"}
        check_everybody_can_use(page, address, paths)
        page.close()
