"""Enumerated audits of post-processed noise: the pushforward of its law."""

import numpy as np
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.invariants import between, covariates, groups, margin, nonnegative, total
from ppdinf.privacy import audit

THREE = xr.DataArray([2, 0, 1], dims="county")
SQUARE = xr.DataArray([[1, 1], [1, 1]], dims=("sex", "age"))
STATES = xr.DataArray([1, 0, 0], dims="county", coords={"state": ("county", list("AAB"))})
SUM = total() & nonnegative()
MARGINS = margin("sex") & margin("age") & nonnegative()
FREE = between(0, 1)
CASES = {
    "rounded, total": (lambda p: ppd.PostProcessed(p, "3/4"), SUM, THREE),
    "rounded, margins": (lambda p: ppd.PostProcessed(p, 2), MARGINS, SQUARE),
    "nonnegative, total": (lambda p: ppd.PostProcessed(p, "3/4", "nonnegative"), SUM, THREE),
    "projected, total": (lambda p: ppd.PostProcessed(p, "3/4", "l2"), SUM, THREE),
    "nearest, total": (lambda p: ppd.PostProcessed(p, "3/4", "l1"), SUM, THREE),
    "truncated": (lambda p: ppd.PostProcessed(p, "3/4", "truncated"), FREE, THREE.clip(0, 1)),
    "top-down": (lambda p: ppd.TopDown(p, 4, groups("state"), ["3/4", "1/4"]), SUM & covariates("state"), STATES),
    "top-down, uneven": (
        lambda p: ppd.TopDown(p, 4, total(), ["1/4", "3/4"]),
        groups("state") & nonnegative(),
        STATES + np.array([0, 1, 1]),
    ),
}


def scaled(mechanism, public, factor):
    """The same post-processing after noise that is wider by a factor."""
    if isinstance(mechanism, ppd.TopDown):
        return ppd.TopDown(public, mechanism.epsilon / factor, levels=mechanism.levels, shares=mechanism.shares)
    return ppd.PostProcessed(public, mechanism.epsilon / factor, mechanism.method)


LONG = {"top-down", "top-down, uneven", "rounded, margins"}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.deep) if name in LONG else name for name in CASES]
)
def test_the_guarantee_holds_and_half_of_it_is_too_small(name):
    make, public, table = CASES[name]
    mechanism, system = make(public), public.on(table)
    reach = 1 if name in ("rounded, margins", "top-down", "top-down, uneven") else 2  # those take milliseconds each
    found = audit(mechanism, system, reach=reach)
    allowed = float(mechanism.guarantee.epsilon) * found.distances("l1")
    assert np.all(found.loss <= allowed + 1e-9)
    assert not np.all(found.loss <= allowed / 2 + 1e-9)
    assert np.all(np.exp(found.log_p).sum(axis=1) <= 1 + 1e-12)
    # noise drawn at twice the stated rate would be detected
    careless = audit(scaled(mechanism, public, 0.5), system, reach=reach)
    assert not np.all(careless.loss <= allowed + 1e-9)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    ("mechanism", "reach", "draws"),
    [
        (ppd.PostProcessed(SUM, "3/4"), 9, 20_000),
        pytest.param(ppd.TopDown(nonnegative(), 3, levels=total()), 4, 1000, marks=pytest.mark.deep),
    ],
)
def test_the_enumerated_law_is_that_of_the_draws(mechanism, reach, draws):
    table = np.array([2, 0])
    system = mechanism.public.on(table)
    p = np.exp(mechanism.push(system, table.reshape(1, -1), reach)[0])
    drawn = mechanism.simulate(table, draws=draws, rng=1).values
    shares = np.sort(np.unique(drawn, axis=0, return_counts=True)[1] / draws)[::-1][:5]
    assert p.sum() == pytest.approx(1, abs=0.01)
    assert np.sort(p)[::-1][:5] == pytest.approx(shares, abs=6 * 0.5 / np.sqrt(draws))
    narrower = np.exp(mechanism.push(system, table.reshape(1, -1), 1)[0])
    assert narrower.sum() < p.sum() - 0.01


def test_refuses_large_audits():
    with pytest.raises(InvariantError, match="more than 200,000 measurements"):
        audit(ppd.PostProcessed(SUM, 1), SUM.on(THREE), reach=40)
