"""What members find is beside the coordinator's word: the common figures, and the metrics of their task."""

import pytest

from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.views.rounds import MAX_OWN_METRICS, all_rounds
from tests.node.explorer.conftest import exploring, restate
from tests.node.explorer.test_hostile import MARKUP
from tests.node.explorer.test_pages import check_well_formed

COMMON = {"samples": 50, "loss": 0.5, "standard_error": 0.01, "accuracy": 0.9}


@pytest.fixture
def stated(kept, tmp_path):
    """Makes an explorer over a run whose members state these means of their task's own metrics in its first round."""
    with exploring(DirectorySource(kept), tmp_path / "cache") as made:

        def state(own: dict, common: dict = COMMON, rounds: str = "number = 1"):
            restate(made.index, {"members": common | own}, rounds)
            return made

        yield state


def test_the_metrics_of_a_task_have_a_figure_and_a_chart(stated):
    made = stated({"recall": 0.75, "regret": -2.5})
    page = made.page("rounds/1/")
    check_well_formed(page)
    assert "<dt>Members’ recall</dt><dd>0.75<" in page and "<dt>Members’ regret</dt><dd>-2.5<" in page
    assert "<dt>Members’ samples" not in page and "<dt>Members’ standard_error" not in page
    overview = made.page()
    assert "<figcaption>Members’ recall</figcaption>" in overview
    assert "<figcaption>Members’ regret</figcaption>" not in overview  # a chart begins at zero
    own = made.client.get("/api/v1/runs/1/rounds/1").json()["members"]
    assert own == COMMON | {"recall": 0.75, "regret": -2.5}


def test_names_are_inert_and_few_and_values_are_numbers(stated):
    names = [f"m{number}" for number in range(3 * MAX_OWN_METRICS)]
    made = stated({MARKUP: 1.0, "x" * 10_000: 2.0, "endless": 1e999, **dict.fromkeys(names, 1.0)})
    row = all_rounds(made.index, Checks(made.watch.sight))[0]
    assert len(row.own_metrics) <= MAX_OWN_METRICS and "endless" not in row.own_metrics
    assert all(len(name) < 80 for name in row.own_metrics)
    for path in ("", "rounds/1/"):
        page = made.page(path)
        check_well_formed(page)
        assert "<img src=x" not in page and page.count("Members’ m") <= MAX_OWN_METRICS


def test_a_round_without_members_metrics_has_none(explorer):
    assert all(not row.own_metrics for row in all_rounds(explorer.index, Checks(explorer.watch.sight)))
    assert "Members’" not in explorer.page("rounds/1/")


def test_noisy_rates_are_shown_with_their_noise_and_without_a_count(stated):
    made = stated({"recall": 0.75}, {"accuracy": 0.8125, "noise": 0.0075}, "status = 'closed'")
    page, overview = made.page("rounds/1/"), made.page()
    for text in (page, overview):
        check_well_formed(text)
        assert "81.2 %<small> ± 0.75 % of noise" in text and "Members’ loss" not in text
    assert "<dt>Members’ recall</dt><dd>0.75<small> ± 0.75 % of noise" in page
    assert "Members’ noise" not in page and "samples" not in page.split("Members’ accuracy")[1][:200]
    assert "<figcaption>Members’ accuracy</figcaption>" in overview
    told = made.client.get("/api/v1/runs/1/rounds/1").json()["members"]
    assert told == {"accuracy": 0.8125, "noise": 0.0075, "recall": 0.75}
