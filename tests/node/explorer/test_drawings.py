"""The drawings show what is: each pair of partners once, each leaf at its place, and they are well-formed SVG."""

import itertools
import json
import re
from importlib.resources import files
from xml.etree import ElementTree

import pytest

from fedgrove.chain.crypto import tree
from fedgrove.node.explorer.drawings import HEIGHT, PhaseWindow, bars, compared, lines, timeline
from fedgrove.node.explorer.tree_drawing import Leaf, cooperation_tree

SVG = "svg"


def elements(drawing: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(drawing)
    return [each for each in root.iter() if kind in (each.get("class") or "").split()]


@pytest.mark.parametrize("n", [1, 2, 3, 6, 17, 100])
def test_a_tree_has_an_arc_for_each_pair_of_partners_and_a_branch_to_each_node(n):
    states = ("survived", "recovered", "left")
    leaves = [Leaf(client, states[client % 3], client % 2 == 0, f"../{client}/") for client in range(1, n + 1)]
    drawing = cooperation_tree(leaves, "<title>")
    pairs = {tuple(sorted((a, b))) for a in range(n) for b in tree.partners(a, n)}
    arcs = elements(drawing, "arc")
    assert {tuple(map(int, arc.get("data-ends").split())) for arc in arcs} == pairs and len(arcs) == len(pairs)
    assert len(elements(drawing, "branch")) == 2 * n - 1  # one to each node, the root's being the trunk
    places = elements(drawing, "place")
    assert [int(place.get("data-position")) for place in places] == list(range(n))
    assert [place.get("class").split()[1] for place in places] == [leaf.state for leaf in leaves]


def test_an_arc_to_a_client_that_left_looks_different():
    leaves = [Leaf(1, "survived", True), Leaf(2, "recovered", False), Leaf(3, "survived", True), Leaf(4, "left", False)]
    drawn = {
        arc.get("data-ends"): arc.get("class").split()[1] for arc in elements(cooperation_tree(leaves, "t"), "arc")
    }
    assert drawn == {
        " ".join(map(str, sorted((a, b)))): "unused" if 3 in (a, b) else "dangling" if 1 in (a, b) else "held"
        for a in range(4)
        for b in tree.partners(a, 4)
    }


def test_a_timeline_has_a_window_for_each_phase_and_says_where_the_round_ended():
    phases = [
        PhaseWindow("draw", 10, 19, (11, 11, 12)),
        PhaseWindow("share", 20, 40),
        PhaseWindow("close", 41, 41, (41,)),
    ]
    drawing = timeline(phases, 41, 99, "phases")
    assert len(elements(drawing, "window")) == 3
    assert len(elements(drawing, "tick")) == 3
    assert len(elements(drawing, "end")) == 3 and not elements(drawing, "now")
    assert elements(timeline(phases, None, 30, "phases"), "now")


def test_a_chart_has_a_dot_for_each_value_above_its_scale():
    drawing = lines([(1, 0.2), (3, 0.8)], 4, "accuracy", "accuracy", 1.0)
    first, second = elements(drawing, "dot")
    assert float(first.get("cy")) > float(second.get("cy")) and (first.get("cx"), second.get("cx")) == (
        "12.50%",
        "62.50%",
    )


def test_a_chart_reads_out_its_values_and_states_the_last_without_a_script():
    drawing = lines([(1, 0.2), (3, 0.8)], 4, "accuracy", "accuracy", 1.0)
    root = ElementTree.fromstring(drawing)
    assert root.get("aria-label") == "accuracy. Round 3: 80.0 %"
    assert "".join(elements(drawing, "readout")[0].itertext()) == "Round 3 80.0 %"
    readings = json.loads(root.get("data-chart"))
    assert [(number, x, [value[2] for value in values]) for number, x, values in readings] == [
        (1, 12.5, ["20.0 %"]),
        (3, 62.5, ["80.0 %"]),
    ]


def test_a_chart_of_very_many_rounds_reads_out_some_of_them_and_the_last():
    readings = json.loads(
        ElementTree.fromstring(bars([(n, n) for n in range(1, 5001)], 5000, "gas", "gas")).get("data-chart")
    )
    assert len(readings) <= 400 and readings[-1][0] == 5000


def test_graphics_stand_out_three_to_one_in_both_themes():
    """WCAG 2.2, 1.4.11: lines, bars, dots and branches against what is behind them."""
    css = files("fedgrove.node.explorer").joinpath("static/explorer.css").read_text()
    blocks = re.findall(r"color-scheme: (?:light|dark);(.*?)\}", css, re.DOTALL)
    light, dark, system = (dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block)) for block in blocks)
    assert dark == system
    for theme in (light, dark):
        for name in ("leaf", "lost", "gone", "bark", "arc", "focus", "soft", *(f"line{k}" for k in range(8))):
            found = [contrast(theme[name], theme[behind]) for behind in ("sheet", "paper", "shade")]
            assert min(found) >= 3, (name, theme["paper"])


def contrast(first: str, second: str) -> float:
    """The contrast of two colours, as WCAG 2 defines it."""
    light, dark = sorted(map(_luminance, (first, second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in bytes.fromhex(colour[1:])]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("n", [1, 2, 6, 100, 1024])
def test_a_standing_tree_fits_a_phone_and_fingers(n):
    """Its leaves are the lying one's, one below the other, at least 24 pixels apart."""
    leaves = [Leaf(client, "survived", True, f"../{client}/") for client in range(1, n + 1)]
    lying, standing = (cooperation_tree(leaves, "t", standing=each) for each in (False, True))
    width, height = (float(each) for each in ElementTree.fromstring(standing).get("viewBox").split()[2:])
    assert width <= 356  # 390, less the margins and borders around it
    rows = [float(leaf.get("cy")) for leaf in elements(standing, "leaf")]
    assert all(after - before >= 24 for before, after in itertools.pairwise(rows)) and max(rows) < height
    for kind in ("arc", "branch", "place"):
        assert len(elements(standing, kind)) == len(elements(lying, kind))
    for drawing in (lying, standing):
        across, down = (float(each) for each in ElementTree.fromstring(drawing).get("viewBox").split()[2:])
        for ring in elements(drawing, "ring"):
            x, y, r = (float(ring.get(name)) for name in ("cx", "cy", "r"))
            assert r + 1.5 <= min(x, y, across - x, down - y), "the focus would be cut off"


def test_numbers_at_the_ends_of_lines_do_not_cover_each_other():
    lines = [(number, [(1, 0.5), (2, 0.9)]) for number in range(1, 9)]
    drawing = compared([*lines, (9, [])], 3, "accuracy", 1.0)
    ends = elements(drawing, "ending")
    heights = sorted(float(end.get("y")) for end in ends)
    assert [end.text for end in ends] == [str(number) for number in range(1, 9)]
    assert all(after - before >= 12 for before, after in itertools.pairwise(heights)) and heights[-1] < HEIGHT + 6
    low = compared([(number, [(1, 0.0)]) for number in range(1, 9)], 1, "loss")
    assert max(float(end.get("y")) for end in elements(low, "ending")) < HEIGHT + 6
    assert {line.get("class") for line in elements(drawing, "line")} == {f"line k{k}" for k in range(8)}
