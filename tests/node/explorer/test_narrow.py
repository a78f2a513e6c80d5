"""Comparing pages, tables and trees in a real browser, most of it as narrow as a phone."""

import pytest

from fedgrove.node.explorer.comparing import rounds_csv
from fedgrove.node.explorer.server import serving
from fedgrove.node.explorer.views.comparison import Comparison
from tests.node.explorer.conftest import check_everybody_can_use
from tests.node.explorer.test_drawings import contrast

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1200, "height": 900}
WITHOUT_SCROLLING = ("", "runs/1/", "runs/1/rounds/1/", "runs/1/clients/", "runs/1/contracts/", "runs/2/")
SIDEWAYS = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const shown = [...document.querySelectorAll("table.stack, svg.tree")].filter((each) => each.getClientRects().length);
  const boxes = shown.map((each) => each.closest(".scroll"));
  return {
    shown: shown.length,
    wide: boxes.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel ?? each.outerHTML),
    beyond: shown.filter((each) => each.getBoundingClientRect().right > innerWidth).length,
  };
}"""
RINGS = """() => [...document.querySelectorAll("svg.tree .ring")].filter((each) => each.getClientRects().length)
  .map((each) => {
    const focused = each.parentElement === document.activeElement;
    return {focused, stroke: getComputedStyle(each).stroke, width: parseFloat(getComputedStyle(each).strokeWidth)};
  })"""
BACKGROUND = "getComputedStyle(document.querySelector('.scroll')).backgroundColor"


def hexadecimal(colour: str) -> str:
    """``rgb(0, 17, 255)``, as a browser states a colour, as #0011ff."""
    return f"#{bytes(int(part) for part in colour[4:-1].split(',')).hex()}"


@pytest.fixture(scope="module")
def site(compared):
    with serving(*compared.watches) as address:
        yield address


def test_everybody_can_use_a_comparison(site, open_page):
    check_everybody_can_use(open_page(site), site, {"comparison": "", "a round of a compared run": "runs/2/rounds/1/"})


def test_no_table_and_no_tree_scrolls_sideways_on_a_phone(site, open_page):
    page = open_page(site, viewport=PHONE)
    for path in WITHOUT_SCROLLING:
        page.goto(site + path)
        found = page.evaluate(SIDEWAYS)
        assert found["shown"] and not found["wide"] and not found["beyond"], path
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_cells_on_a_phone_name_their_columns_and_stay_a_table(site, open_page):
    page = open_page(site + "runs/1/", viewport=PHONE)
    label = "getComputedStyle(document.querySelector('.rounds td[data-label=Accuracy]'), '::before').content"
    assert page.evaluate(label) == '"Accuracy"'
    table = page.locator("table.rounds")
    assert table.get_by_role("row").count() == 3 and table.get_by_role("columnheader", name="Accuracy").count() == 1
    table.get_by_role("rowheader", name="Round 2").get_by_role("link").click()
    page.wait_for_url("**/runs/1/rounds/2/")
    heading, check = (page.locator(f".records tbody {name}").first.bounding_box()["y"] for name in ("th", "td"))
    assert heading < check


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("viewport", "kind"), [(DESK, "lying"), (PHONE, "standing")])
def test_the_focus_is_seen_on_the_tree(site, open_page, viewport, kind, scheme):
    page = open_page(site + "runs/1/rounds/1/", viewport=viewport, color_scheme=scheme)
    assert page.locator("svg.tree:visible").count() == page.locator(f"svg.tree.{kind}:visible").count() == 1
    assert {ring["stroke"] for ring in page.evaluate(RINGS)} == {"none"}
    page.locator(f".tree.{kind}").locator("xpath=..").focus()
    for position in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.dataset.position") == str(position)
        rings = page.evaluate(RINGS)
        assert [ring["focused"] for ring in rings] == [other == position for other in range(6)]
        assert all((ring["stroke"] == "none") != ring["focused"] for ring in rings)
        assert rings[position]["width"] >= 2
        assert contrast(*map(hexadecimal, (rings[position]["stroke"], page.evaluate(BACKGROUND)))) >= 3
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/1/clients/*/")


def test_from_a_comparison_to_a_run_and_back_and_the_tables_are_saved(site, compared, open_page):
    page = open_page(site, viewport=DESK)
    page.locator(".runs").get_by_role("link", name="2", exact=False).last.click()
    page.wait_for_url("**/runs/2/")
    page.get_by_role("link", name="Comparison").click()
    page.wait_for_url(site)
    with page.expect_download() as saved:
        page.get_by_role("link", name="All figures as CSV").click()
    assert saved.value.path().read_text() == rounds_csv(Comparison.of(compared.watches), None)
    page.keyboard.press("/")  # there is no search here, and nothing breaks
    page.locator(".rounds-of-runs").get_by_role("link").first.click()
    page.wait_for_url("**/runs/1/rounds/1/")
