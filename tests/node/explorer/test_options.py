"""A price and a public block explorer: what is accepted, what they add to the pages, and what they never make."""

import html
import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from fedgrove.chain.records import Closed
from fedgrove.common.errors import InvalidInput
from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.figures import coins, in_unit, unit_of
from fedgrove.node.explorer.options import BlockExplorer, PageOptions
from fedgrove.node.explorer.server import make_app
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.views.rounds import all_rounds
from fedgrove.node.status.price import Price
from tests.node.explorer.conftest import HOME, exploring, restate
from tests.node.explorer.test_hostile import MARKUP
from tests.node.explorer.test_pages import check_well_formed

GOOD = [
    "https://etherscan.io/{kind}/{id}",
    "https://chain.example:8443/look?what={kind}&name={id}#top",
    "http://127.0.0.1:4000/{kind}/{id}",
    "http://[::1]:4000/{kind}/{id}",
]
BAD = [
    "",
    "https://etherscan.io/",
    "https://etherscan.io/{kind}/{kind}/{id}",
    "https://etherscan.io/{kind}/{id}/{id}",
    "https://etherscan.io/{kind}/{id}/{other}",
    "https://etherscan.io/{kind}/{id}}",
    "https://{kind}.example/{id}",
    "https://{id}/{kind}",
    "https://user:secret@etherscan.io/{kind}/{id}",
    "https:///{kind}/{id}",
    "https://chain.example:0/{kind}/{id}",
    "https://chain.example:99999/{kind}/{id}",
    "https://[::1/{kind}/{id}",
    "http://etherscan.io/{kind}/{id}",
    "javascript:alert('{kind}{id}')",
    "data:text/html,{kind}{id}",
    "//etherscan.io/{kind}/{id}",
    "ftp://etherscan.io/{kind}/{id}",
    "https://etherscan.io/{kind}/{id} onclick=1",
    'https://etherscan.io/"><script>{kind}{id}',
    "https://etherscan.io\\@evil/{kind}/{id}",
    "https://etherscan.io/\n{kind}/{id}",
    "https://etherscan.io/{kind}/{id}" + "x" * 400,
    "x=https://etherscan.io/{kind}/{id}",
]
TRANSACTION, ADDRESS = "0x" + "ab" * 32, "0x" + "Ab" * 20


@pytest.mark.parametrize("pattern", GOOD)
def test_a_good_pattern_makes_addresses(pattern):
    site = BlockExplorer.parse(pattern)
    assert site.link("tx", TRANSACTION) == pattern.replace("{kind}", "tx").replace("{id}", TRANSACTION)
    assert BlockExplorer.parse(f"10={pattern}") == BlockExplorer(pattern, 10)


@pytest.mark.parametrize("pattern", BAD)
def test_a_bad_pattern_is_refused_in_a_sentence(pattern):
    with pytest.raises(InvalidInput, match=r"https://example\.org/\{kind\}/\{id\}"):
        BlockExplorer.parse(pattern)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tx", MARKUP), ("tx", ADDRESS), ("tx", TRANSACTION + "0"), ("address", "../x"), ("address", ""), ("block", -1)],
)
def test_only_names_of_the_chain_are_linked(kind, name):
    assert BlockExplorer.parse(GOOD[0]).link(kind, name) == ""


def test_a_site_about_a_chain_is_only_for_it(run):
    sites = tuple(map(BlockExplorer.parse, (GOOD[0], f"10={GOOD[1]}")))
    options = PageOptions(block_explorers=sites)
    on_ten, on_one = (replace(run.history.deployment, chain_id=number) for number in (10, 1))
    assert options.block_explorer(on_ten) == sites[1] and options.block_explorer(on_one) == sites[0]
    assert PageOptions(block_explorers=sites[1:]).block_explorer(on_one) is None


def test_no_public_site_is_linked_for_a_practice_chain_unless_it_is_named_for_it(run):
    practice = run.history.deployment
    assert practice.practice and not replace(practice, chain_id=11155111).practice
    assert PageOptions(block_explorers=(BlockExplorer.parse(GOOD[0]),)).block_explorer(practice) is None
    own = BlockExplorer.parse(f"{practice.chain_id}={GOOD[2]}")
    assert PageOptions(block_explorers=(own,)).block_explorer(practice) == own


@pytest.mark.parametrize(
    ("text", "price"),
    [("2500 EUR", Price(2500, "EUR")), ("0.5€", Price(0.5, "€")), (" 1 USD ", Price(1, "USD"))],
)
def test_a_price_is_an_amount_and_a_currency(text, price):
    assert Price.parse(text) == price


@pytest.mark.parametrize(
    "text", ["", "2500", "EUR", "-1 EUR", "1e5 EUR", "nan EUR", "1 eur", "1 EURO", "1 <b>", "9" * 400 + " EUR"]
)
def test_what_is_no_price_is_refused_in_a_sentence(text):
    with pytest.raises(InvalidInput, match="2500 EUR"):
        Price.parse(text)


def test_amounts_are_short():
    shown = [coins(amount) for amount in (0, 1e-9, 0.000134213, 1.5, 31.4159, 999.96, 1234.5, 5.1e12)]
    assert shown == ["0", "< 0.0001", "0.0001342", "1.5", "31.42", "1000", "1,234", "5.1e+12"]
    units = [unit_of([amount, 0]) for amount in (0, 2.5, 0.001, 6.606e-5, 9.21e-11, 2.5e-14)]
    assert units == ["ether", "ether", "ether", "gwei", "gwei", "wei"]
    assert [in_unit(amount, "gwei") for amount in (2.5, 6.606e-5, 1.5e-9, 0)] == ["2.5e+09", "66,060", "1.5", "0"]


def test_records_accounts_and_contracts_are_linked(run, explorer):
    chain = run.history.chain_id
    options = PageOptions(None, (BlockExplorer.parse(f"{chain}=https://chain.example/{{kind}}/{{id}}"),))
    pages = TestClient(make_app(explorer.watch, options=options), base_url=HOME)
    record = next(record for record in run.records if isinstance(record, Closed))
    page = pages.get(f"/rounds/{record.round}/").text
    check_well_formed(page)
    for name in (f"tx/0x{record.at.transaction.hex()}", f"block/{record.at.block}"):
        (link,) = set(re.findall(rf'<a class="outer" href="https://chain\.example/{name}" rel="([^"]*)"', page))
        assert {"noopener", "noreferrer"} <= set(link.split())
    account = explorer.index.value("SELECT account FROM members WHERE client = 1")
    for path, address in (
        ("clients/", account),
        ("clients/1/", account),
        ("contracts/", run.history.deployment.ledger),
    ):
        assert f'href="https://chain.example/address/{address}"' in pages.get("/" + path).text
    assert "chain.example" not in explorer.page(f"rounds/{record.round}/")


def test_no_link_is_made_of_what_only_claims_to_be_an_account(run, explorer, compared):
    index = compared.watches[0].index
    account = index.value("SELECT account FROM members WHERE client = 1")
    with index.changes() as database:
        database.execute("UPDATE members SET account = ? WHERE client = 1", (MARKUP,))
    try:
        page = compared.page("runs/1/clients/")
        assert "<img src=x" not in page and page.count('class="outer"') == page.count("<tr>") - 2
    finally:
        with index.changes() as database:
            database.execute("UPDATE members SET account = ? WHERE client = 1", (account,))


def test_fees_are_what_the_chain_took_and_cost_what_the_price_says(run, explorer, compared, monkeypatch):
    facts = run.history.transactions
    by_round = {
        number: sum(
            facts[each].fee for each in {r.at.transaction for r in run.records if getattr(r, "round", None) == number}
        )
        for number in (1, 2)
    }
    for row in all_rounds(explorer.index, Checks(explorer.watch.sight)):
        assert row.fee_wei == by_round[row.round] > 0
    fee = by_round[2] / 10**18
    unit = unit_of([fee])
    for page in (explorer.page("rounds/2/"), compared.page("runs/1/rounds/2/")):
        assert f"<dt>Practice fees</dt><dd>{in_unit(fee, unit)}<small> {unit}</small></dd>" in page
    for page in (compared.page(), compared.page("runs/1/"), compared.page("rounds.csv")):
        assert "EUR" not in page  # a practice chain's fees cost nothing
    monkeypatch.setattr("fedgrove.chain.records.deployment.PRACTICE_CHAINS", frozenset())
    public = TestClient(make_app(*compared.watches, options=PageOptions(Price(2500, "EUR"))), base_url=HOME)
    page = html.unescape(public.get("/runs/1/rounds/2/").text)
    assert f"<dt>Fees</dt><dd>{in_unit(fee, unit)}<small> {unit}, {coins(2500 * fee)} EUR</small>" in page
    for path in ("/", "/runs/1/"):
        page = public.get(path).text
        assert "Cost, EUR" in page and "ractice fees" not in page
    assert "EUR" in public.get("/rounds.csv").text
    stated = public.get("/api/v1/runs/1/rounds/2").json()
    assert stated["cost"] == {"amount": 2500 * stated["fee"], "currency": "EUR"}


def test_all_fees_of_a_table_are_in_one_unit(run, tmp_path):
    with exploring(DirectorySource(run.directory), tmp_path) as explorer:
        restate(explorer.index, {"fee_wei": str(2 * 10**15)}, "number = 1")
        restate(explorer.index, {"fee_wei": str(5 * 10**11)}, "number = 2")
        page = explorer.page()
        assert '<th scope="col" class="n">Practice fees, ether</th>' in page and "gwei" not in page
        assert re.findall(r'data-label="Practice fees, ether">([^<]*)', page) == ["&lt; 0.0001", "0.002"]
