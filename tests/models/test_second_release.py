"""Nothing is compiled for another release of the same shape: machine code does not depend on published numbers."""

import numba.core.event
import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd

PUBLIC = {
    "pieces": (20, ppd.invariants.total()),
    "rows": (4, ppd.invariants.total()),
    "free": (6, ppd.invariants.covariates("people")),
}


class Compilations(numba.core.event.Listener):
    """Count kernels and functions of models that numba compiles."""

    def __init__(self):
        self.number = 0

    def on_start(self, event):
        self.number += 1

    def on_end(self, event):
        pass


def density(cells, public, seed):
    """Return the log density of a release of a month, and its gradient, at zeros."""
    rng = np.random.default_rng(seed)
    table = ppd.as_table(rng.poisson(20 + seed, cells), dims=["area"])
    table = table.assign_coords(people=("area", np.arange(100, 100 + cells)))
    mechanism = ppd.GeneralizedLaplace(public, epsilon="1/4")
    release = ppd.Release(mechanism.simulate(table, draws=1, rng=seed).squeeze("draw", drop=True), mechanism)
    with pm.Model() as model:
        log_rate = pm.Normal("log_rate", 3, 1, shape=cells)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(log_rate)), release=release, marginalize=True)
    found = Compilations()
    with numba.core.event.install_listener("numba:compile", found):
        value, gradient = model.logp_dlogp_function(ravel_inputs=True)(np.zeros(cells))
    return found.number, value, gradient


@pytest.mark.parametrize(
    "case", ["pieces", pytest.param("rows", marks=pytest.mark.deep), pytest.param("free", marks=pytest.mark.deep)]
)
def test_nothing_is_compiled_for_a_second_release(case):
    cells, public = PUBLIC[case]
    first = density(cells, public, 1)
    second = density(cells, public, 2)
    assert second[0] == 0
    assert second[1] != first[1]  # its values differ from those of the first release
    assert density(cells, public, 1)[1:] == (first[1], pytest.approx(first[2], rel=1e-12))
    found = Compilations()
    with numba.core.event.install_listener("numba:compile", found):
        numba.njit(lambda x: x + 1)(1)
    assert found.number == 1
