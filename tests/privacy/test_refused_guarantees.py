"""Refused statements, conversions and parameters: each call with its error and its message."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse, stats

from ppdinf.errors import InvariantError, LabelError, PrivacyError
from ppdinf.invariants import unit
from ppdinf.lattice import structure
from ppdinf.privacy import (
    Guarantee,
    KAnonymity,
    Ledger,
    TCloseness,
    compose,
    condition_output,
    delta_z,
    delta_z_counts,
    delta_z_normal,
    gaussian_delta,
    gaussian_sigma,
    secret_pair,
    sensitivity,
    sensitivity_polytope,
    wasserstein_infinity,
)
from ppdinf.privacy.lattice_gaussian import lattice_delta, theorem14_sigma
from ppdinf.privacy.sensitivity import enclosing_ellipsoid
from ppdinf.privacy.zcdp import as_delta

HALF, ONE = Fraction(1, 2), Fraction(1)
PURE = Guarantee("pure", Fraction(2, 5), neighbours="one person more in the count")
SUBSPACE = Guarantee("integer-subspace", ONE, metric="l1")


def guarantee(**arguments):
    return lambda: Guarantee(**({"variant": "integer-subspace", "epsilon": ONE, "metric": "l1"} | arguments))


def widths(**arguments):
    return lambda: gaussian_sigma(**({"epsilon": 1, "delta": 1e-6} | arguments))


def distances(distance):
    """Both functions of a distance."""
    wide = Guarantee("integer-subspace", ONE, Fraction(1, 10), metric="l1")
    return [(lambda ask=ask: ask(distance), "a distance must be a finite non-negative number")
            for ask in (wide.loss, wide.delta_at)]  # fmt: skip


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
    *(row for distance in (-3, math.nan, math.inf, True, "2") for row in distances(distance)),
    # composition
    (lambda: compose(), "at least one guarantee"),
    (lambda: compose(1, 2), "found int"),
    (lambda: compose(SUBSPACE, None), "found NoneType"),
    (lambda: compose(SUBSPACE, Guarantee("zcdp", rho=ONE, metric="l2")), "do not add up"),
    (lambda: compose(*(Guarantee("pure", ONE, neighbours=f"one {unit}") for unit in ("record", "household"))),
     "different kinds of neighbours"),
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
