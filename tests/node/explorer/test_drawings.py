"""The drawings show what is: each pair of partners once, each leaf at its place, and they are well-formed SVG."""

from xml.etree import ElementTree

import pytest
from fedgrove.chain import tree
from fedgrove.node.explorer.drawings import Leaf, PhaseWindow, cooperation_tree, lines, timeline

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
