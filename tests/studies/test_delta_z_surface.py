"""The surface of Delta_z shows its numbers."""

import numpy as np

from case_studies.covid.delta_z_figure import delta_z_surface, plot_delta_z
from ppdinf.privacy import delta_z_counts


def test_the_surface_is_a_triangle_of_integers():
    surface = delta_z_surface(12, steps=4)
    assert np.isnan(surface[np.tril_indices(5, -1)]).all()
    assert surface[1, 3] == delta_z_counts(12, "1/4", "3/4")
    assert (np.diag(surface) == 1).all()


def test_figure(tmp_path):
    figure = plot_delta_z((5, 12), steps=4)
    figure.savefig(tmp_path / "delta_z.png")
    meshes = [axes.collections[0].get_array() for axes in figure.axes[:2]]
    np.testing.assert_allclose(meshes[1].filled(np.nan), delta_z_surface(12, 4).T / 12)
    assert [text.get_text() for axes in figure.axes[:2] for text in axes.texts if "persons" in text.get_text()] == [
        "5 persons",
        "12 persons",
    ]
