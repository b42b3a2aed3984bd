"""Figures of noise chains show their data."""

import numpy as np
import pytest

from case_studies.isdp.noise_chains_figure import plot_noise_boxes, plot_tv_bound
from ppdinf.noise.mcmc.tv_bound import TVBound


@pytest.fixture
def noise():
    return np.random.default_rng(1).integers(-9, 10, (2, 300, 4))


def test_tv_curves_start_at_one_and_name_pairs_that_did_not_meet(tmp_path):
    met = TVBound(2, 2 + np.random.default_rng(2).geometric(0.1, 200), 1000)
    bounds = {"met": met, "apart": TVBound(2, np.array([5, -1]), 1000)}
    figure = plot_tv_bound(bounds, unit="sweeps")
    figure.savefig(tmp_path / "tv.png")
    axes = figure.axes[0]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["met", "apart, 1 of 2 pairs not met"]
    x, y = axes.lines[0].get_data()
    assert np.array_equal(y, met.estimate(x))


def test_boxes_are_drawn_for_every_cell(noise, tmp_path):
    boxes = plot_noise_boxes(noise, labels=list("abcd"), draws=100)
    boxes.savefig(tmp_path / "boxes.png")
    assert [tick.get_text() for tick in boxes.axes[0].get_xticklabels()] == list("abcd")
