"""The JSON interface: as documented, in pages of bounded size, harmless whatever chain and store say."""

import json
import re
from pathlib import Path

import pytest

from fedgrove.node.explorer.api import MAX_LIMIT
from fedgrove.node.explorer.inert import MAX_TEXT
from fedgrove.node.explorer.server import HEADERS
from fedgrove.node.explorer.sources import DirectorySource
from tests.node.explorer.conftest import exploring, restate
from tests.node.explorer.test_hostile import MARKUP, TRICKS

DOCS = Path(__file__).resolve().parents[3] / "docs" / "explorer-api.md"
REFERENCE = DOCS.with_name("reference.md")
LISTS = ("runs", "runs/1/rounds", "runs/1/members", "runs/1/records", "runs/1/terms", "comparison")


def documented(heading: str, page: Path = DOCS) -> set[str]:
    """Fields in the table under a heading of the documentation."""
    section = page.read_text().split(f"## {heading}\n")[1].split("\n#")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


def ask(made, path: str, **parameters):
    answer = made.client.get(f"/api/v1/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def everything(made, path: str, limit: int, **parameters) -> list:
    """All items of a list, a page after another."""
    found, after = [], {}
    while True:
        page = ask(made, path, limit=limit, **after, **parameters)
        assert set(page) == {"items", "next"} and len(page["items"]) <= limit
        found += page["items"]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


@pytest.mark.parametrize(
    ("heading", "path"),
    [
        ("Run", "runs"),
        ("Round", "runs/1/rounds"),
        ("Member", "runs/1/members"),
        ("Record", "runs/1/records"),
        ("Term", "runs/1/terms"),
        ("Compared term", "comparison"),
    ],
)
def test_every_field_is_documented_and_there(compared, heading, path):
    items = ask(compared, path)["items"]
    figures = documented("Figures of a round", REFERENCE) if heading == "Round" else set()
    assert items and all(set(item) == documented(heading) | figures for item in items)


def test_every_address_is_documented(compared):
    found = set(re.findall(r"^\| `/api/v1/(\S+)` \|", DOCS.read_text(), re.MULTILINE))
    assert {path.replace("1", "RUN") for path in LISTS} | {"runs/RUN", "runs/RUN/rounds/ROUND"} == found
    for path in found:
        ask(compared, path.replace("RUN", "2").replace("ROUND", "1"))


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", [1, 3])
def test_pages_hold_each_item_once_and_in_order(compared, path, limit):
    whole = everything(compared, path, MAX_LIMIT)
    assert everything(compared, path, limit) == whole and len(whole) > 1


def test_rounds_are_those_of_the_report(run, second, compared):
    for number, each in ((1, run), (2, second)):
        for found, stated in zip(everything(compared, f"runs/{number}/rounds", 1), each.report["rounds"], strict=True):
            assert {name: found[name] for name in stated} == stated | {"seconds": None}
            assert found["check"]["state"] == "good" and found["scores"]["auc"] > 0.5
            assert found["cost"] is None  # a practice chain's fees cost nothing
            assert found == ask(compared, f"runs/{number}/rounds/{found['round']}")
    members = ask(compared, "runs/2/rounds/1")["members"]
    stated = second.report["rounds"][0]["members"]
    assert members == stated
    assert ask(compared, "runs/1/rounds/1")["members"] is None


def test_records_are_those_of_the_ledger_and_can_be_filtered(run, compared):
    whole = everything(compared, "runs/1/records", 50)
    assert [(each["kind"], each["block"], each["transaction"]) for each in whole] == [
        (type(record).__name__, record.at.block, "0x" + record.at.transaction.hex()) for record in run.records
    ]
    assert [each["record"] for each in whole] == list(range(1, len(run.records) + 1))
    some = everything(compared, "runs/1/records", 2, round=2, client=3)
    assert some == [each for each in whole if (each["round"], each["client"]) == (2, 3)] != []


def test_terms_are_those_of_the_federation(run, compared):
    terms = {(term["table"], term["key"]): term["value"] for term in everything(compared, "runs/1/terms", 7)}
    for table in ("training", "federation"):
        for key, value in run.report["config"][table].items():
            assert terms[table, key] == value and type(terms[table, key]) is type(value)


def test_a_run_says_how_far_it_is_checked(run, explorer):
    (found,) = ask(explorer, "runs")["items"]
    assert found == ask(explorer, "runs/1")
    audit = found["audit"]
    assert (audit["verdict"], audit["checked"], audit["first_bad_record"]) == ("verified", len(run.records), None)
    assert found["head_hash"] == "0x" + run.history.block_hash(run.history.head_block).hex()
    assert ask(explorer, "runs/1/rounds/1")["cost"] is None  # without a price


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("runs?limit=0", 400),
        (f"runs?limit={MAX_LIMIT + 1}", 400),
        ("runs?limit=x", 400),
        ("runs?limit=1&limit=2", 400),
        ("runs?after=-1", 400),
        (f"runs/1/rounds?after={1 << 63}", 400),
        ("runs/1/rounds?round=1", 400),
        ("runs/1?limit=1", 400),
        ("runs/1/records?client=%D9%A1", 400),
        ("runs/x", 400),
        ("runs?%3Cscript%3E=1", 400),
        ("runs/0", 404),
        ("runs/3", 404),
        ("runs/1/rounds/99", 404),
        (f"runs/1/rounds/{(1 << 63) - 1}", 404),
        ("runs/1/nothing", 404),
        ("", 404),
    ],
)
def test_a_mistake_gets_a_sentence(compared, path, status):
    answer = compared.client.get(f"/api/v1/{path}")
    assert answer.status_code == status and answer.headers["content-type"] == "application/json"
    (said,) = answer.json().values()
    assert said and "<" not in answer.text


def test_the_last_place_that_a_page_can_be_after_is_fine(compared):
    for path in LISTS:
        assert ask(compared, path, after=(1 << 63) - 1) == {"items": [], "next": None}


def test_texts_are_harmless_and_cut(kept, tmp_path):
    with exploring(DirectorySource(kept), tmp_path / "cache") as made:
        evil = MARKUP + TRICKS + "x" * 10_000
        with made.index.changes() as database:
            config = database.execute("SELECT text FROM blobs WHERE role = 'config'").fetchone()["text"]
            text = config.replace(b'"digits demo"', json.dumps(MARKUP).encode())
            database.execute("UPDATE blobs SET text = ? WHERE role = 'config'", (text,))
            database.execute("UPDATE members SET account = ?, vrf_key = ?", (evil, evil))
            database.execute("UPDATE blobs SET cid = ?", (evil,))
            database.execute("UPDATE rounds SET status = 'failed' WHERE number = 1")
        restate(made.index, {"status": "failed", "reason": evil}, "number = 1")
        endless = {"fee_wei": "9" * 300, "privacy": {"epsilon": 9e999, evil: evil}, "loss": -9e999}
        restate(made.index, endless, "number = 2")
        for path in LISTS:
            answer = made.client.get(f"/api/v1/{path}")
            assert answer.status_code == 200 and {name: answer.headers[name] for name in HEADERS} == HEADERS
            assert answer.text.isascii() and answer.text.isprintable() and not set("<>&'") & set(answer.text)
            assert longest(answer.json()) < MAX_TEXT + 100
        assert ask(made, "runs/1")["federation"] == MARKUP
        assert ask(made, "runs/1/rounds/2")["privacy"]["epsilon"] is None


def longest(value) -> int:
    """Characters of the longest text in an answer."""
    if isinstance(value, dict):
        return max(map(longest, value.values()), default=0)
    if isinstance(value, list):
        return max(map(longest, value), default=0)
    return len(value) if isinstance(value, str) else 0


def test_a_long_history_is_answered_in_bounded_pieces(tmp_path, kept):
    with exploring(DirectorySource(kept), tmp_path / "cache") as made:
        with made.index.changes() as database:
            columns = "opened, opened_at, rate, able, config, trained_from"
            copied = f"SELECT number + ?1, {columns}, json_set(figures, '$.round', number + ?1) FROM rounds"
            for step in range(1, 3000):
                statement = f"INSERT OR IGNORE INTO rounds (number, {columns}, figures) {copied} WHERE number = 1"
                database.execute(statement, (step,))
        answer = made.client.get("/api/v1/runs/1/rounds", params={"limit": MAX_LIMIT})
        assert len(answer.json()["items"]) == MAX_LIMIT and len(answer.content) < 1 << 20
        assert [each["round"] for each in everything(made, "runs/1/rounds", MAX_LIMIT)] == list(range(1, 3001))
