"""Figures of experiments show the data that they are given."""

from fedgrove.node.simulation.figures import drawing
from fedgrove_lab.experiments.figures import Masked, draw_masked

MODELS = [Masked(4, 0.9, {"ours": 0.1, "the paper's": 0.3}), Masked(7, 0.8, {"ours": 0.2, "the paper's": 0.4})]


def test_masked_models_have_a_bar_for_each_kind_of_mask(tmp_path):
    with drawing(tmp_path / "a.png") as figure:
        draw_masked(figure, MODELS)
        axes = figure.axes[0]
        shown = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
        assert shown == {"before masking": [0.9, 0.8], "after, ours": [0.1, 0.2], "after, the paper's": [0.3, 0.4]}
        assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "7"]
        (chance,) = [line for line in axes.get_lines() if line.get_label() == "chance, 10%"]
        assert set(chance.get_ydata()) == {0.1}
