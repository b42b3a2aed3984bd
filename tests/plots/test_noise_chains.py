"""Figures of noise chains show their data, and ArviZ reads the chains."""

import numpy as np
import pytest

from ppdinf.noise.mcmc.tv_bound import TVBound
from ppdinf.plots.noise_chains_figure import noise_tree, plot_autocorrelation, plot_noise_boxes, plot_tv_bound


@pytest.fixture
def noise():
    return np.random.default_rng(1).integers(-9, 10, (2, 300, 4))


def test_arviz_summarises_the_tree(noise):
    import arviz_stats as azs

    tree = noise_tree(noise, labels=list("abcd"))
    summary = azs.summary(tree)
    assert len(summary) == 5
    assert (tree["posterior"]["size"] == np.abs(noise).sum(axis=2)).all()


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


def test_boxes_and_autocorrelations_are_drawn_for_every_cell_and_chain(noise, tmp_path):
    boxes = plot_noise_boxes(noise, labels=list("abcd"), draws=100)
    boxes.savefig(tmp_path / "boxes.png")
    assert [tick.get_text() for tick in boxes.axes[0].get_xticklabels()] == list("abcd")
    memory = plot_autocorrelation({"one": noise, "two": noise[:, ::2]}, longest=20)
    memory.savefig(tmp_path / "memory.png")
    assert memory.axes[0].lines[0].get_ydata()[0] == pytest.approx(1)
    assert abs(memory.axes[0].lines[0].get_ydata()[5]) < 0.2


def test_boxes_of_simulated_releases_name_their_cells():
    import xarray as xr

    import ppdinf as ppd
    from ppdinf.errors import LabelError

    table = xr.DataArray([[4, 0], [9, 3]], dims=("county", "sex"), coords={"county": ["a", "b"], "sex": ["f", "m"]})
    drawn = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).simulate(table, draws=50, rng=1)
    noise = (drawn - table).transpose("sex", "draw", "county")
    boxes = plot_noise_boxes(noise)
    assert [tick.get_text() for tick in boxes.axes[0].get_xticklabels()] == ["f, a", "f, b", "m, a", "m, b"]
    marked = boxes.axes[0].lines[-2].get_ydata()
    assert list(marked) == noise.isel(draw=49).values.ravel().tolist()
    with pytest.raises(LabelError, match="the dimension 'draw'"):
        plot_noise_boxes(table)
