"""Refused statements, conversions and parameters, and large inputs, in negligible time and memory."""

import math
import time
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse, stats

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError
from ppdinf.invariants import at_least, margin, nonnegative, total, unit
from ppdinf.lattice import structure
from ppdinf.laws import DoubleGeometric, L2Laplace, Staircase
from ppdinf.privacy import (
    Guarantee,
    KAnonymity,
    Ledger,
    TCloseness,
    compose,
    compose_parallel,
    condition_output,
    conditioning_cost,
    delta_z,
    delta_z_counts,
    delta_z_normal,
    gaussian_delta,
    gaussian_sigma,
    secret_pair,
    sensitivity,
    sensitivity_polytope,
    to_approximate,
    to_zcdp,
    wasserstein_infinity,
    zcdp_epsilon,
)
from ppdinf.privacy.lattice_gaussian import lattice_delta, tail_bound, theorem14_sigma
from ppdinf.privacy.sensitivity import enclosing_ellipsoid
from ppdinf.privacy.zcdp import as_delta

HALF, ONE = Fraction(1, 2), Fraction(1)
PURE = Guarantee("pure", Fraction(2, 5), neighbours="one person more in the count")
SUBSPACE = Guarantee("integer-subspace", ONE, metric="l1")
WIDE = replace(SUBSPACE, delta=Fraction(1, 10))
RECORD = Guarantee("approximate", ONE, Fraction(1, 100), neighbours="one record added or removed")
SECRET = Guarantee("pufferfish", ONE, neighbours="whether one person is a case", unprotected=("the total",))


def guarantee(**arguments):
    return lambda: Guarantee(**({"variant": "integer-subspace", "epsilon": ONE, "metric": "l1"} | arguments))


def widths(**arguments):
    return lambda: gaussian_sigma(**({"epsilon": 1, "delta": 1e-6} | arguments))


def distances(distance):
    """Both functions of a distance."""
    return [(lambda ask=ask: ask(distance), "a distance must be a finite non-negative number")
            for ask in (WIDE.loss, WIDE.delta_at)]  # fmt: skip


REFUSED = [
    # guarantees
    (guarantee(variant="other"), "variant must be one of"),
    (guarantee(metric="max"), "metric must be one of"),
    (guarantee(metric=None), "either a metric or neighbours"),
    (guarantee(neighbours="one record"), "either a metric or neighbours"),
    (guarantee(rho=ONE), "must have rho"),
    (guarantee(epsilon=None), "must have rho"),
    (guarantee(variant="zcdp"), "must have rho"),
    (guarantee(delta=ONE), "delta must be"),
    *((lambda distance=distance: SECRET.loss(distance), "no loss at a distance") for distance in (0, 2, HALF)),
    *(row for distance in (-3, math.nan, math.inf, True, "2") for row in distances(distance)),
    # composition
    (lambda: compose(), "at least one guarantee"),
    (lambda: compose(1, 2), "found int"),
    (lambda: compose(SUBSPACE, None), "found NoneType"),
    (lambda: compose(SUBSPACE, Guarantee("zcdp", rho=ONE, metric="l2")), "do not add up"),
    (lambda: compose(*(Guarantee("pure", ONE, neighbours=f"one {unit}") for unit in ("record", "household"))),
     "different kinds of neighbours"),
    (lambda: compose(SUBSPACE, replace(SUBSPACE, unit="household", contributions=3)),
     "one household with at most 3 records; one person with at most 1"),
    (lambda: compose(SECRET, SECRET), "independent=True"),
    (lambda: compose(SECRET, replace(SECRET, unprotected=("the total", "the margin of sex")), independent=True),
     "all public information"),
    *((lambda within=within: compose_parallel(SECRET, SECRET, disjoint=True, within=within),
       "one sensitivity for all data") for within in (True, False)),
    (lambda: compose_parallel(SUBSPACE, SUBSPACE, disjoint=True, within=True), "unit of distance"),
    (lambda: compose_parallel(RECORD, RECORD, disjoint=False, within=True), "overlapping"),
    (lambda: compose_parallel(RECORD, RECORD, disjoint=True),
     "replaced by a record of another part, which changes both"),
    (lambda: compose_parallel(*[replace(RECORD, delta=HALF)] * 2, disjoint=True, within=False),
     "sum of the deltas must be below 1"),
    *((lambda given=given: to_zcdp(given), "no zCDP form") for given in (WIDE, SECRET, RECORD)),
    (lambda: to_approximate(WIDE, "1/20"), "delta must be at least"),
    (lambda: to_approximate(SECRET, "1e-6"), "does not cover single tables"),
    (lambda: zcdp_epsilon(10**8, 1e-6), "between 1e-12 and 1e6"),
    (lambda: Ledger(), "must have either epsilon or rho"),
    (lambda: Ledger(epsilon=1, rho=1), "must have either epsilon or rho"),
    *((lambda entered=entered: Ledger(epsilon=1).add(entered), "enters releases")
      for entered in (np.eye(2), "release.ppd", None)),
    # deltas of zCDP, and normal noise
    *((lambda delta=delta: as_delta(delta), "delta")
      for delta in (0, 1, -1e-3, "x", None, True, math.nan, math.inf, "1/0", [0.1], "1e-400", "1e-99999999")),
    *((widths(epsilon=epsilon), "epsilon") for epsilon in (0, -1.0, math.nan, math.inf, True, None)),
    (widths(delta=0.0), "delta"),
    (widths(delta=1.0), "delta must be between 0 and 1"),
    (widths(delta="often"), "delta"),
    (widths(sensitivity=0.0), "sensitivity"),
    (widths(sensitivity=math.inf), "sensitivity"),
    (widths(calibration="best"), "calibration must be"),
    (lambda: gaussian_delta(1, 0), "sigma"),
    # noise on a lattice
    (lambda: theorem14_sigma(structure([[1, 1]]), 0.5, 1e-6), "Theorem 14 needs"),
    (lambda: theorem14_sigma(structure([[1, 1]]), 0.1, 0.2), "Theorem 14 needs"),
    (lambda: lattice_delta(structure([[1, 1, 1]]), np.array([0, 0, 0]), 1.0, 1.0), "same public sums"),
    (lambda: lattice_delta(structure([[1, 1, 1]]), np.array([1, 0, 0]), 1.0, 1.0), "same public sums"),
    *((lambda law=law, distance=distance: tail_bound([[1, 1]], law, distance),
       "requires L2Laplace or DiscreteGaussian noise and a positive distance")
      for law, distance in ((DoubleGeometric(1), 3), (L2Laplace(1), 0), (L2Laplace(1), math.inf))),
    # sensitivities
    (lambda: sensitivity([1, 2], p=1), "shape"),
    (lambda: sensitivity(np.zeros((0, 3)), p=1), "shape"),
    (lambda: sensitivity(np.zeros((2, 0)), p=1), "shape"),
    (lambda: sensitivity([[1, np.nan]], p=1), "finite"),
    (lambda: sensitivity(sparse.coo_array([[1, np.inf]]), p=1), "finite"),
    (lambda: sensitivity([["a"]], p=1), "numbers only"),
    (lambda: sensitivity([[1], [1, 2]], p=1), "equal length"),
    (lambda: sensitivity([[1, 2]], p=3), "p must be 1 or 2"),
    (lambda: sensitivity([[1, 2]], p=True), "p must be 1 or 2"),
    (lambda: sensitivity([[1, 2]], p=1, neighbours="swapped"), "neighbours must be one of"),
    (lambda: sensitivity_polytope(np.eye(800)), "too many to enumerate"),
    *((lambda points=points: enclosing_ellipsoid(points), "fewer dimensions")
      for points in (np.zeros((2, 3)), np.ones((3, 2)), np.outer([1.0, 2.0], [1.0, 3.0, 2.0]))),
    # Pufferfish: conditioned outputs, secrets, disclosure limits, normal statistics
    (lambda: condition_output(Guarantee("zcdp", rho=ONE, neighbours="a person"), "x"), "only pure"),
    (lambda: condition_output(Guarantee("approximate", ONE, HALF / 50, neighbours="a person"), "x"), "only pure"),
    (lambda: condition_output(condition_output(PURE, "a"), "x"), "only pure"),
    (lambda: condition_output(PURE, ""), "known must describe"),
    (lambda: condition_output(PURE, None), "known must describe"),
    (lambda: secret_pair(0, 0, 1), "n must be an integer"),
    (lambda: secret_pair(2.0, 0, 1), "n must be an integer"),
    (lambda: secret_pair(True, 0, 1), "n must be an integer"),
    (lambda: delta_z_counts(3, "0.6", "0.5"), "z0 must not exceed z1"),
    (lambda: delta_z_counts(3, -0.1, 0.5), "z0 must be positive"),
    (lambda: delta_z_counts(3, 0, 1.5), "z1 must be a probability"),
    (lambda: delta_z_counts(3, math.nan, 1), "z0 must be a finite number"),
    (lambda: delta_z_counts(3, False, 1), "z0 must be a number"),
    (lambda: delta_z([]), "pairs is empty"),
    (lambda: delta_z([({0: 1}, {1: 0.5})]), "sum to 1"),
    (lambda: KAnonymity(4, 3), "k must be an integer from 0 to 2"),
    (lambda: KAnonymity(0, 0), "n must be"),
    (lambda: TCloseness(4, 2, 0), "share must be a probability"),
    (lambda: TCloseness(4, "1/2", -1), "t must be positive"),
    (lambda: TCloseness(3, "1/2", "1/10"), "no count of 3 persons is within 1/10"),
    (lambda: delta_z_normal([[1, 0]], 1), "square matrix"),
    (lambda: delta_z_normal([[1]], 1), "two rows or more"),
    (lambda: delta_z_normal([[1, 0.5], [0.4, 1]], 1), "symmetric"),
    (lambda: delta_z_normal([[1, np.nan], [np.nan, 1]], 1), "finite numbers"),
    (lambda: delta_z_normal([[1, 2], [2, 1]], 1), "positive semidefinite"),
    (lambda: delta_z_normal([[1, 0.5, 0.5], [0.5, 1, 1], [0.5, 1, 1]], 1), "must not determine"),
    *((lambda width=width: delta_z_normal([[1, 0.5], [0.5, 1]], width), "width") for width in (0, math.inf, math.nan)),
    # distances of laws
    (lambda: wasserstein_infinity({0: HALF}, {0: 1}), "sum to 1, found 0.5"),
    (lambda: wasserstein_infinity({0: 0.5, 1: 0.4}, {0: 1}), "sum to 1, found 0.9"),
    (lambda: wasserstein_infinity({}, {0: 1}), "sum to 1, found 0"),
    (lambda: wasserstein_infinity({0: 2, 1: -1}, {0: 1}), "negative, found -1 at 1"),
    (lambda: wasserstein_infinity({0: math.nan}, {0: 1}), "a probability of a law must be a finite number"),
    (lambda: wasserstein_infinity({math.inf: 1}, {0: 1}), "a value of a law must be a finite number"),
    (lambda: wasserstein_infinity({"a": 1}, {0: 1}), "a value of a law must be a finite number"),
    (lambda: wasserstein_infinity({True: 1}, {0: 1}), "a value of a law"),
    (lambda: wasserstein_infinity({(0, 1): 1}, {0: 1}), r"one length, found \[1, 2\]"),
    (lambda: wasserstein_infinity([0.5, 0.5], {0: 1}), "a mapping from values to probabilities or a frozen"),
    (lambda: wasserstein_infinity(stats.poisson(3), stats.poisson(4)), "poisson has infinite support"),
    (lambda: wasserstein_infinity(stats.norm(), {0: 1}), "norm has infinite support"),
    (lambda: wasserstein_infinity({0: 1}, {0: 1}, norm="l3"), "norm must be"),
]  # fmt: skip

OTHER_ERRORS = [
    (lambda: unit(" "), LabelError, "must not be empty"),
    (lambda: unit("x", contributions=0), InvariantError, "at least 1"),
    (lambda: unit("x", contributions=1.5), InvariantError, "integer"),
    (lambda: unit("person") & unit("visit"), InvariantError, "at most one unit"),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), [*((call, PrivacyError, message) for call, message in REFUSED), *OTHER_ERRORS]
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


LARGE = 330_000_000


class Small:
    """Refuse more than 100 MB, or ten seconds."""

    def __enter__(self):
        tracemalloc.start()
        self.started = time.process_time()

    def __exit__(self, *error):
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100e6
        assert time.process_time() - self.started < 10


CONDITIONED = {
    "one total": (total() & nonnegative(), [LARGE, 0, 7]),
    "margins": (margin("dim_0") & margin("dim_1") & nonnegative(), [[LARGE, 3], [0, LARGE]]),
    "linked": (total() & nonnegative() & at_least(0, 1, dim="dim_0"), [LARGE, 5, 2]),
}


@pytest.mark.parametrize("where", CONDITIONED)
def test_guarantees_of_large_totals(where):
    """The cells of three persons and of the whole population take the same time."""
    public, table = CONDITIONED[where]
    mechanism, table = ppd.Conditioned(public, noise=DoubleGeometric("1/2")), np.array(table)
    with Small():
        found = ppd.Release(table, mechanism).guarantee
    assert found.gamma > 0
    with Small():  # climbing along moves as long as the total
        cost = conditioning_cost(mechanism, public.on(np.minimum(table, 10**5)), search=0)
    assert cost.gamma > 0


def test_the_search_for_a_lower_bound_steps_to_the_ends_of_lines():
    """A line through a table ends at a bound, at any distance."""
    public = margin("dim_0") & margin("dim_1") & nonnegative()
    table = np.array([[40, 3, 0], [2, 30, 9]])
    mechanism = ppd.Conditioned(public, noise=DoubleGeometric("1/2"))
    found = conditioning_cost(mechanism, public.on(table), search=20, rng=1)
    assert 0 < found.lower <= found.gamma


@pytest.mark.parametrize("noise", [DoubleGeometric("1e-9"), Staircase("1e-9", sensitivity=2)])
def test_noise_that_is_too_wide_to_tabulate_is_refused(noise):
    public = total() & nonnegative()
    with Small(), pytest.raises(InvariantError, match=r"noise this wide|weights of a cell cover more than"):
        ppd.Conditioned(public, noise=noise).release(np.array([2**50, 2**50, 2**49]))


def test_narrow_bounds_need_no_wide_tables():
    released = ppd.Conditioned(total() & nonnegative(), noise=DoubleGeometric("1e-9")).release(np.array([3, 0, 2]))
    assert int(released.table.sum()) == 5


@pytest.mark.parametrize("refused", [
    lambda: secret_pair(10**9, 0, "1/3"), lambda: delta_z_counts(10**7, "1/3", "1/2"),
    lambda: wasserstein_infinity(stats.binom(10**11, 0.5), stats.binom(10**11, 0.25)),
    lambda: wasserstein_infinity(*({(k, j): 1 / 2000 for k in range(2000)} for j in range(2))),
])  # fmt: skip
def test_laws_that_are_too_large_to_list_are_refused(refused):
    with Small(), pytest.raises(PrivacyError, match=r"more than|from 1 to 10000|the limit is 1,000,000"):
        refused()


def test_measurements_are_counted_before_they_are_listed():
    public = total() & nonnegative()
    tables = np.array([[0, LARGE], [LARGE, 0]])
    with Small(), pytest.raises(InvariantError, match="more than 200,000 measurements"):
        ppd.PostProcessed(public, epsilon=1).push(public.on(tables[0]), tables, reach=2)


def test_noise_is_too_wide_before_it_is_drawn():
    """A refusal that depends on the draw would truncate the law for users who draw again."""
    with pytest.raises(PrivacyError, match="limit of exact integers"):
        ppd.GeneralizedLaplace(total(), epsilon="1e-12", norm="l2").sampler_plan([3, 1, 2])
    ppd.GeneralizedLaplace(total(), epsilon="1e-6", norm="l2").sampler_plan([3, 1, 2])
    for count, allowed in ((2**52, True), (2**52 + 1, False)):
        mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1)
        if allowed:
            mechanism.release([count, 1])
            continue
        with pytest.raises(CountError, match=r"dim_0=0 exceeds 2\*\*52"):
            mechanism.release([count, 1])
