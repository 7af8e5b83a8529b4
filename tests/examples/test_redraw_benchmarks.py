"""Figures are drawn from the committed files, and each committed figure has a file."""

import sys
from pathlib import Path

import pytest


pytest.importorskip("matplotlib")
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import redraw  # noqa: E402
from benchmarks.common import plots, record  # noqa: E402


def test_every_committed_figure_can_be_drawn_again():
    assert {path.stem for path in record.RESULTS.glob("*.png")} == {*redraw.FIGURES}


@pytest.mark.parametrize("figure", redraw.FIGURES)
def test_figure(figure, tmp_path):
    assert redraw.redraw(figure, tmp_path).stat().st_size > 10_000


def test_every_peer_is_drawn(tmp_path):
    peers = {f"peer {k}": [1.0 + k, ">2", None] for k in range(len(plots.PEERS))}
    figure, axes = plots.plt.subplots()
    plots.relative_to_ours(axes, ["a", "b", "c"], peers)
    assert axes.get_legend_handles_labels()[1] == [*peers]
    with pytest.raises(ValueError):
        plots.relative_to_ours(axes, ["a", "b", "c"], peers | {"one more": [1, 2, 3]})
    plots.plt.close(figure)
