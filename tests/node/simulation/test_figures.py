"""Figures show the data that they are given, and the same data give the same file."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from fedgrove.node.simulation import figures
from tests.node.simulation.records import record_of

GROUPS = {
    "FedAvg": [record_of([0.1, 0.2, 0.3, 0.4]), record_of([0.3, 0.4, 0.5, 0.6], seed=1)],
    "FedAom": [record_of([0.5, 0.6, 0.7, 0.8]), record_of([0.7, 0.8, 0.9, 1.0], seed=1)],
}
LABELS = np.repeat(np.arange(3), 4)
PARTS = [np.array([0, 1, 4]), np.array([2, 5, 6, 7, 8]), np.array([3, 9, 10, 11])]


@pytest.fixture
def figure(tmp_path):
    with figures.drawing(tmp_path / "drawn.png", (5, 3)) as figure:
        yield figure


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_a_line_is_the_mean_over_the_seeds_and_the_band_their_deviation(figure):
    figures.draw_curves(figure, GROUPS, target=0.9)
    axes = figure.axes[0]
    line = lines(axes)["FedAvg"]
    assert list(line.get_xdata()) == [1, 2, 3, 4]
    assert line.get_ydata() == pytest.approx([0.2, 0.3, 0.4, 0.5])
    corners = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.min() == pytest.approx(0.2 - 0.1 * 2**0.5) and corners.max() == pytest.approx(0.5 + 0.1 * 2**0.5)
    assert set(lines(axes)["90%"].get_ydata()) == {0.9}
    assert "standard deviation" in axes.get_legend().get_title().get_text()
    assert axes.get_xlabel() == "communication round" and axes.get_ylabel() == "test accuracy"
    colours = {to_hex(lines(axes)[label].get_color()).upper() for label in GROUPS}
    assert colours == set(figures.SERIES[:2])


def test_points_may_be_the_mean_of_several_rounds(figure):
    figures.draw_curves(figure, GROUPS, window=3)
    axes = figure.axes[0]
    assert set(lines(axes)) == set(GROUPS)
    line = lines(axes)["FedAom"]
    assert list(line.get_xdata()) == [3, 4] and line.get_ydata() == pytest.approx([0.7, 0.8])
    assert "mean of 3 rounds" in axes.get_ylabel()


def test_one_seed_has_no_band(figure):
    figures.draw_curves(figure, {"one": GROUPS["FedAvg"][:1]})
    assert not figure.axes[0].collections
    assert not figure.axes[0].get_legend().get_title().get_text()


def test_seeds_of_which_one_stopped_early_are_shown_as_far_as_all_go(figure):
    figures.draw_curves(figure, {"arm": [record_of([0.1, 0.2, 0.3]), record_of([0.3, 0.4], seed=1)]})
    assert list(lines(figure.axes[0])["arm"].get_xdata()) == [1, 2]


def test_out_of_distribution_has_points_where_it_was_probed(figure):
    figures.draw_curves(figure, {"MOON": [record_of([0.5] * 6, ood={2: 0.1, 4: 0.3})]}, "ood")
    line = lines(figure.axes[0])["MOON"]
    assert list(line.get_xdata()) == [2, 4] and list(line.get_ydata()) == [0.1, 0.3]


def test_the_partition_is_stacked_by_class(figure):
    figures.draw_partition(figure, LABELS, PARTS, clients=2)
    axes = figure.axes[0]
    assert [bars.get_label() for bars in axes.containers] == ["0", "1", "2"]
    assert [[bar.get_height() for bar in bars] for bars in axes.containers] == [[2, 1], [1, 3], [0, 1]]
    tops = [bar.get_y() + bar.get_height() for bar in axes.containers[-1]]
    assert tops == [len(PARTS[0]), len(PARTS[1])], "the bars' tops are the clients' samples"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("client", "samples")


def test_many_classes_can_still_be_told_apart(figure):
    labels = np.arange(20)
    figures.draw_partition(figure, labels, [labels])
    looks = {(to_hex(bars[0].get_facecolor()), bars[0].get_hatch()) for bars in figure.axes[0].containers}
    assert len(looks) == 20


@pytest.mark.parametrize(
    "draw",
    [partial(figures.draw_curves, groups=GROUPS), partial(figures.draw_partition, labels=LABELS, parts=PARTS)],
    ids=["curves", "partition"],
)
def test_files_are_pictures_and_the_same_each_time(draw, tmp_path):
    for name in ("a.png", "b.png"):
        figures.write_figure(tmp_path / name, draw)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        image.load()
        assert image.format == "PNG" and min(image.size) > 300
        assert len(image.getcolors(1 << 20)) > 4, "more than an empty sheet"
        assert not {"Software", "Creation Time"} & set(image.info)


def test_without_matplotlib_one_sentence_says_what_to_install():
    script = """
import sys
sys.modules["matplotlib"] = None
from pathlib import Path
from fedgrove.common.errors import RunFailed
from fedgrove.node.simulation import figures
try:
    figures.write_figure(Path("never.png"), print)
except RunFailed as fault:
    print(fault)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout == 'figures need matplotlib: pip install "fedgrove[simulation]"\n', result.stderr
