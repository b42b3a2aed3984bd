"""Log rates with effects of labels, in coordinates that suit NUTS, however much a release tells.

For counts of areas and months, say, with log rates

    intercept + effect of the area + effect of the month,    effects ~ Normal(0, spread of the label),

two things decide whether NUTS takes long steps or short ones that diverge. An effect of which the release tells much is
best moved itself, one of which it tells little in units of its spread: here each goes as far between the two as is
told of it. And where the sums over the cells of each label are public, an intercept and effects that share them lie on
a thin curved shell: what moves is then by how much the log of the expected sum exceeds that of the public one.
The priors are those above in any case.

References
----------
O. Papaspiliopoulos, G. O. Roberts, M. Skoeld, "A general framework for the parametrization of hierarchical models",
Statistical Science 22 (2007), 59-73. S. E. Fienberg, "The Analysis of Cross-Classified Categorical Data", 2nd ed.
(1980), section 2.4, for Poisson sampling as a total and shares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf.errors import ModelError
from ppdinf.models.rates import REACH, USUAL
from ppdinf.releases import Release
from ppdinf.releases.rates import exposures

__all__ = ["log_rates"]

PRIOR_SD = 2.5  # of the intercept


def log_rates(release: Release, effects: list[str], *, exposure: str | None = None) -> Any:
    """Log rates of the cells of a table, with an effect for every label of some of its coordinates.

    Parameters
    ----------
    release : Release
        Of a table; chains move in coordinates that suit what it tells.
    effects : list of str
        Dimensions of the table, or coordinates of labels along them (the state of a county), published with it.
    exposure : str, optional
        Covariate of the release with the persons at risk in each cell. Without it rates are expected counts.

    Returns
    -------
    TensorVariable, shape of the table
        Log rate per unit of exposure: ``pm.Poisson.dist(pm.math.exp(log_rates) * exposure)``.

    Raises
    ------
    ModelError
        An effect named twice; a bad exposure.
    LabelError
        The release has no such coordinate, or one of decimals.

    Notes
    -----
    Adds to the model ``intercept`` ~ Normal(log of the overall rate, 2.5), ``{label}_spread`` ~ HalfNormal(1) and
    ``{label}_effect`` ~ Normal(0, spread), one for each label in order of appearance. What chains move is called
    ``{label}_moved`` and ``intercept_moved``; forward draws know all of it.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.margin("dim_1"), epsilon=1)
    >>> release = ppd.Release(np.array([[3, 1], [4, 2]]), mechanism)
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.math.exp(log_rates(release, ["dim_0", "dim_1"]))
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    >>> [variable.name for variable in model.free_RVs]
    ['intercept', 'dim_0_spread', 'dim_0_moved', 'dim_1_spread', 'dim_1_moved']
    """
    if len(set(effects)) < len(effects):
        raise ModelError(f"an effect is named twice among {', '.join(effects)}")
    at_risk = exposures(release, exposure).ravel()
    cells = _Cells(release.table.values.ravel().astype(float), at_risk, release.likelihood.half_width / REACH)
    labels = {name: release.frame.codes(name)[0] for name in effects}
    bearer = next((name for name in effects if _public(release, labels[name])), None)
    overall, one = float(np.log(max(cells.noisy.sum(), 1) / at_risk.sum())), np.zeros(at_risk.size, dtype=np.int64)
    moved = bearer is None and _public(release, one)
    eta: Any = np.zeros(at_risk.size) if moved else pm.Normal("intercept", overall, PRIOR_SD)
    for name in sorted(effects, key=lambda name: name == bearer):  # who bears the public sums comes last
        eta = eta + _effect(name, labels[name], cells, eta if name == bearer else None)[labels[name]]
    if moved:
        intercept = _moved("intercept", overall, PRIOR_SD, cells.sums(one), *cells.beyond(one, eta))[0]
        eta = eta + pm.Deterministic("intercept", intercept)
    return (eta + np.zeros(at_risk.size)).reshape(release.shape)


class _Cells(NamedTuple):
    """Noisy counts, persons at risk, and a standard deviation of the noise, roughly."""

    noisy: NDArray[np.float64]
    at_risk: NDArray[np.float64]
    noise: float

    def sums(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Information about a log rate in sums without noise: their size."""
        return np.maximum(np.bincount(codes, weights=self.noisy), 0.0)

    def told(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Information about a log rate in noisy counts, shrunk to what their exposure lets expect."""
        expected = np.maximum(self.at_risk * max(self.noisy.sum(), 1) / self.at_risk.sum(), 1e-9)
        spread = (USUAL * expected) ** 2
        counts = expected + spread / (spread + expected + self.noise**2) * (self.noisy - expected)
        counts = np.maximum(counts, 0.1 * expected)
        return np.bincount(codes, weights=counts**2 / (counts + self.noise**2))

    def beyond(self, codes: NDArray[np.int64], eta: Any) -> tuple[NDArray[np.float64], Any]:
        """Logarithms of sums, and of what they are expected to be under log rates."""
        sums = np.maximum(np.bincount(codes, weights=self.noisy), 0.5)
        expected = pt.inc_subtensor(pt.zeros(sums.size)[codes], pt.exp(eta) * self.at_risk)
        return np.log(sums), pt.log(expected)


def _public(release: Release, codes: NDArray[np.int64]) -> bool:
    """Whether the sum over the cells of every label is public."""
    A = release.public.A.tocsr()
    rows = {
        tuple(np.sort(A.indices[a:b])) for a, b in zip(A.indptr, A.indptr[1:], strict=False) if (A.data[a:b] == 1).all()
    }
    return all(tuple(np.flatnonzero(codes == label)) in rows for label in range(codes.max() + 1))


def _effect(name: str, codes: NDArray[np.int64], cells: _Cells, others: Any) -> Any:
    """Effects of labels; `others` is the log rate but for them where they bear public sums."""
    spread = pm.HalfNormal(f"{name}_spread", 1)
    if others is None:
        effect = _moved(name, 0.0, spread, cells.told(codes), np.zeros(codes.max() + 1), 0.0)
    else:
        effect = _moved(name, 0.0, spread, cells.sums(codes), *cells.beyond(codes, others + np.zeros(codes.size)))
    return pm.Deterministic(f"{name}_effect", effect)


def _moved(
    name: str, mean: float, sd: Any, information: NDArray[np.float64], told: NDArray[np.float64], others: Any
) -> Any:
    """Add normal variables with given mean and sd, of which something tells that they are near ``told - others``."""
    share = USUAL**2 * information / (1 + USUAL**2 * information)
    near = share * (told - others - mean)
    z = pm.Normal(
        f"{name}_moved", -near * sd ** (share - 1), sd**share, shape=share.shape, initval=np.zeros(share.size)
    )
    return mean + near + sd ** (1 - share) * z
