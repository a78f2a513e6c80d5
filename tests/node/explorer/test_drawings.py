"""The drawings show what is: each pair of partners once, each leaf at its place, and they are well-formed SVG."""

import itertools
from xml.etree import ElementTree

import pytest
from fedgrove.chain import tree
from fedgrove.node.explorer.drawings import HEIGHT, PhaseWindow, compared, lines, timeline
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
    assert [tick.get("d").count("M") for tick in elements(drawing, "tick")] == [2, 1]
    assert elements(drawing, "end") and not elements(drawing, "now")
    assert elements(timeline(phases, None, 30, "phases"), "now")


def test_a_chart_has_a_dot_for_each_value_above_its_scale():
    drawing = lines([(1, 0.2), (3, 0.8)], 4, "accuracy", "accuracy", 1.0)
    first, second = elements(drawing, "dot")
    assert float(first.get("cy")) > float(second.get("cy")) and float(first.get("cx")) < float(second.get("cx"))


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
    assert all(after - before >= 12 for before, after in itertools.pairwise(heights)) and heights[-1] < HEIGHT
    low = compared([(number, [(1, 0.0)]) for number in range(1, 9)], 1, "loss")
    assert max(float(end.get("y")) for end in elements(low, "ending")) < HEIGHT
    assert {line.get("class") for line in elements(drawing, "line")} == {f"line k{k}" for k in range(8)}
