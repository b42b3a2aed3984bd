"""Small random models: the density of the release equals that of all tables, or an error states the problem.

The long run has 150 cases: each builds a model, in a quarter of a second.
"""

import itertools
import warnings

import numpy as np
import pymc as pm
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from noise_totals import log_total
from pymc.logprob.utils import ParameterValueError

import ppdinf as ppd
from ppdinf.errors import ModelError, PpdinfError
from ppdinf.invariants import Public, between, nonnegative, total, zeros

SOUND = [0.3, 0.5, 0.9, np.array([0.5, 0.9, 0.2]), 3, 6, 2.5, np.array([4, 6, 5])]
NUMBERS = st.sampled_from(
    [*SOUND * 4, 0, 1, 2, 1.0, 7, -1, float("nan"), float("inf"), 1e-300, 1e300, True, np.float32(0.5),
     np.array([0.5, 1.0, 2.0]), np.array([1, 2, 3]), np.array([0.2, 0.0, 1.0]), np.array([1.0, 2.0]), np.ones((3, 1))]
)  # fmt: skip
FAMILIES = {
    "poisson": lambda a, b: pm.Poisson.dist(a),
    "binomial": lambda a, b: pm.Binomial.dist(n=a, p=b),
    "negative binomial": lambda a, b: pm.NegativeBinomial.dist(mu=a, alpha=b),
    "geometric": lambda a, b: pm.Geometric.dist(b),
    "zero-inflated": lambda a, b: pm.ZeroInflatedPoisson.dist(psi=b, mu=a),
    "hurdle": lambda a, b: pm.HurdlePoisson.dist(psi=b, mu=a),
    "uniform": lambda a, b: pm.DiscreteUniform.dist(a, a + b),
    "beta-binomial": lambda a, b: pm.BetaBinomial.dist(n=a, alpha=b, beta=1.5),
    "truncated": lambda a, b: pm.Truncated.dist(pm.Poisson.dist(a), lower=1, upper=9),
    "mixture": lambda a, b: pm.Mixture.dist([0.3, 0.7], [pm.Poisson.dist(a), pm.Poisson.dist(b)]),
    "constant": lambda a, b: pm.DiracDelta.dist(a),
    "normal": lambda a, b: pm.Normal.dist(a, b),
    "multinomial": lambda a, b: pm.Multinomial.dist(n=4, p=b),
}
PUBLIC = [total(), total() & nonnegative(), between(0, 6), total() & zeros({"dim_0": 1}), Public()]
NOISE = {
    "l1": lambda public, scale: ppd.GeneralizedLaplace(public, epsilon=scale),
    "gaussian": lambda public, scale: ppd.GeneralizedGaussian(public, rho=scale),
    "l2": lambda public, scale: ppd.GeneralizedLaplace(public, epsilon=scale, norm="l2"),
}


def log_noise(kind, scale, z):
    return -scale * np.abs(z).sum(axis=1) if kind == "l1" else -scale * (z**2).sum(axis=1)


def listed(release, family, a, b, kind, scale):
    """Return the log of the sum over all tables, by one call of PyMC's density; None if there is no density."""
    high = int(release.public.values[0]) if release.public.names else 14
    points = np.array(list(itertools.product(range(max(high, 0) + 1), repeat=3)))
    A, B = release.public.A.toarray(), release.public.B.toarray()
    points = points[np.all(points @ A.T == release.public.values, axis=1)]
    points = points[np.all(points @ B.T >= release.public.limits, axis=1)]
    wide = (
        np.broadcast_to(np.asarray(v, dtype=float if np.asarray(v).dtype == bool else None), points.shape)
        for v in (a, b)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = pm.logp(FAMILIES[family](*wide), points).eval(mode="FAST_COMPILE").sum(axis=1)
        except Exception:
            return None
    found = np.logaddexp.reduce(data + log_noise(kind, scale, points - release.table.values), initial=-np.inf)
    free = 2 if "zero" in str(release.public.public.to_dict()) else 3  # cells with noise
    constant = log_total(lambda z: log_noise(kind, scale, z[:, None]), free, kept=bool(release.public.names))
    return None if np.isnan(found) else float(found - constant)


def looked_at(case):
    family, a, b, kind, scale, public, y, marginalize = case
    scale_of = {"1/2": 0.5, 1: 1.0}[scale]
    y = np.array(y)
    if "zero" in str(public.to_dict()):
        y[1] = 0
    release = ppd.Release(y, NOISE[kind](public, scale))
    try:
        dist = FAMILIES[family](a, b)
    except Exception:  # PyMC raises its own error
        return "refused by PyMC"
    try:
        with pm.Model(coords=release.coords) as model:
            ppd.PartiallyPrivate("x", dist, release=release, marginalize=marginalize)
        point = model.initial_point(random_seed=1)
        logp = model.compile_fn(
            model.logp(sum=True, jacobian=False), inputs=model.value_vars, mode="FAST_COMPILE", on_unused_input="ignore"
        )
        found = float(logp(point))
    except (PpdinfError, ParameterValueError) as error:
        return type(error).__name__ if 0 < len(str(error)) < 3000 else "a long story"
    if model.free_RVs or kind == "l2":
        return "walked"
    expected = listed(release, family, a, b, kind, scale_of)
    if expected is not None:
        tolerance = 1e-4 if not release.public.names else 1e-7
        assert found == pytest.approx(expected, abs=tolerance) or (expected == found == -np.inf), (found, expected)
        return "compared"
    return "no density"


CASES = st.tuples(
    st.sampled_from(sorted(FAMILIES)), NUMBERS, NUMBERS, st.sampled_from(sorted(NOISE)), st.sampled_from(["1/2", 1]),
    st.sampled_from(PUBLIC), st.lists(st.integers(-1, 6), min_size=3, max_size=3),
    st.sampled_from(["auto", "auto", "auto", True, False]),
)  # fmt: skip


def fuzz(cases):
    seen = {}

    @settings(
        max_examples=cases, derandomize=True, deadline=None, database=None,  # kernels are compiled in some cases
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(CASES)
    def run(case):
        outcome = looked_at(case)
        seen[outcome] = seen.get(outcome, 0) + 1

    run()
    return seen


@pytest.mark.deep
def test_many_models():
    seen = fuzz(100)
    assert "a long story" not in seen
    assert seen["compared"] > 10


def test_a_shape_known_only_later_is_refused_by_name():
    """A truncated distribution does not have a static shape, and its parameters may have another one."""
    release = ppd.Release(np.array([3, 5, 2]), NOISE["l1"](total(), 1))
    for wrong in (np.array([1.0, 2.0]), np.ones((2, 1))):
        with pm.Model(coords=release.coords), pytest.raises(ModelError, match="the table has"):
            ppd.PartiallyPrivate("x", FAMILIES["truncated"](wrong, 1), release=release)
    with pm.Model(coords=release.coords):
        ppd.PartiallyPrivate("x", FAMILIES["truncated"](np.array([1.0, 2.0, 3.0]), 1), release=release)


def test_truncation_to_improbable_values_can_have_no_draws():
    release = ppd.Release(np.array([2, 0, 3]), NOISE["l1"](total() & zeros({"dim_0": 1}), 1))
    improbable = pm.Truncated.dist(pm.Poisson.dist(np.array([0.2, 0.0, 1.0])), lower=1, upper=9, max_n_steps=200)
    with pm.Model(coords=release.coords), pytest.raises(PpdinfError):
        ppd.PartiallyPrivate("x", improbable, release=release)
