"""Releases of small tables, each with enumerated tables and its noise distribution written again."""

from collections.abc import Callable
from dataclasses import dataclass

import enumerator as own
import numpy as np
import xarray as xr
from grids import tables

import ppdinf as ppd
from ppdinf.invariants import Public, between, groups, margin, nonnegative, total

TOTAL = ((1, 1, 1),)


@dataclass(frozen=True)
class Published:
    """A release, and the enumeration of its tables.

    `log_weight` is that of the noise with epsilon (or 1 / sigma) times its argument, so that it can be made wrong.
    """

    mechanism: Callable
    noisy: tuple
    log_weight: Callable
    A: tuple = TOTAL
    a: tuple | None = None  # public values, if the noisy table does not have them
    high: int | None = None  # the largest public count; otherwise determined by the public sums
    base: Callable | None = None  # log base measure of a release
    normalised: bool = False  # whether C(x) depends on the table
    walked_only: bool = False
    reach: int | None = None  # maximum of the noise; `diagnose` reports counts further away
    dims: tuple | None = None
    coords: dict | None = None
    known: Callable | None = None  # further public knowledge

    @property
    def values(self):
        if self.a is not None:
            return self.a
        return tuple(int(np.dot(row, np.ravel(self.noisy))) for row in self.A)

    def release(self):
        table = np.array(self.noisy)
        if self.dims is not None:
            table = xr.DataArray(table, dims=self.dims, coords=self.coords)
        known = None if self.known is None else self.known().on(table, values=np.array(self.a))
        return ppd.Release(table, self.mechanism(), public=known)

    def listed(self, low=0, high=None, *, times=1.0, normalised=None):
        """Return its tables within limits of the data model, and the log density of the release given each.

        `times` multiplies epsilon, `normalised` states whether C(x) is divided by: both can be made wrong on purpose.
        """
        y = np.ravel(self.noisy)
        ceiling = max(self.values, default=0) if self.high is None else self.high
        lows, highs = np.full(y.size, low), np.full(y.size, ceiling if high is None else high)
        if low >= 0:
            highs = np.minimum(highs, ceiling)
        x = tables(lows, highs, self.A, self.values)
        weigh = self.log_weight(times)
        log_noise = weigh(y - x)
        if self.base is not None:
            log_noise = log_noise + self.base(y)
        if self.normalised if normalised is None else normalised:
            released = tables([0] * y.size, [ceiling] * y.size, self.A, self.values)
            base = 0.0 if self.base is None else self.base(released)
            log_noise = log_noise - own.log_normaliser(lambda z: weigh(z) + base, x, released)
        return own.Listed(x, log_noise - (self.release().likelihood.constant() or 0.0))


def double_geometric(epsilon):
    return lambda times: own.l1(times * epsilon)


def _resembles(previous, concentration, pseudo_count):
    """Return Dirichlet-multinomial weights of a table, up to a constant of all tables with its total."""
    from scipy.special import gammaln

    alpha = concentration * np.array(previous) + pseudo_count
    return lambda y: (gammaln(np.asarray(y) + alpha) - gammaln(alpha) - gammaln(np.asarray(y) + 1.0)).sum(axis=-1)


PUBLISHED = {
    "total": Published(lambda: ppd.GeneralizedLaplace(total(), epsilon="1/2"), (4, -1, 5), double_geometric(0.5)),
    "two persons": Published(lambda: ppd.GeneralizedLaplace(total(), epsilon="1/2"), (2, -1, 1), double_geometric(0.5)),
    "nothing": Published(
        lambda: ppd.GeneralizedLaplace(Public(), epsilon=1), (3, -1), double_geometric(1.0), A=(), high=120, reach=26
    ),
    "groups": Published(
        lambda: ppd.GeneralizedLaplace(groups("state"), epsilon="1/4"),
        (5, 0, -1, 4),
        double_geometric(0.25),
        A=((1, 1, 0, 0), (0, 0, 1, 1)),
        dims=("county",),
        coords={"state": ("county", list("AABB"))},
    ),
    "gaussian": Published(
        lambda: ppd.GeneralizedGaussian(total(), sigma=2), (3, 5, 0), lambda times: own.gaussian(2.0 / times)
    ),
    "staircase": Published(
        lambda: ppd.Conditioned(total(), noise=ppd.mechanisms.Staircase(1, sensitivity=2, step=1)),
        (1, 7, 1),
        lambda times: own.staircase(times, 2, 1),
    ),
    "known apart": Published(
        lambda: ppd.GeneralizedLaplace(Public(), epsilon="1/2"),
        (6, -2, 7),
        double_geometric(0.5),
        a=(9,),
        known=total,
    ),
    "at most 5": Published(
        lambda: ppd.GeneralizedLaplace(total() & between(0, 5), epsilon="1/2"), (7, 2, 0), double_geometric(0.5), high=5
    ),
    "suppressed": Published(
        lambda: ppd.Suppression(total() & nonnegative()), (7, 0, 0), lambda times: lambda z: np.zeros(len(z))
    ),
    "bounded": Published(
        lambda: ppd.Conditioned(total() & nonnegative(), noise=ppd.mechanisms.DoubleGeometric("1/2")),
        (0, 0, 8),
        double_geometric(0.5),
        normalised=True,
        walked_only=True,
    ),
    "congenial": Published(
        lambda: ppd.WassersteinExponential(
            total() & nonnegative(),
            epsilon=2,
            sensitivity=2,
            secrets="whether one person is a case",
            base_measure=ppd.mechanisms.DirichletMultinomial([3, 0, 5]),
        ),
        (3, 1, 4),
        double_geometric(0.5),
        base=_resembles([3, 0, 5], 1.0, 0.5),
        normalised=True,
        walked_only=True,
    ),
    "rows": Published(
        lambda: ppd.GeneralizedLaplace(margin("sex"), epsilon="1/2"),
        ((4, -1, 2), (0, 3, 1)),
        double_geometric(0.5),
        A=((1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1)),
        dims=("sex", "age"),
    ),
    "margins": Published(
        lambda: ppd.GeneralizedLaplace(margin("sex") & margin("age"), epsilon="1/2"),
        ((4, -1, 2), (0, 3, 1)),
        double_geometric(0.5),
        A=((1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1), (1, 0, 0, 1, 0, 0), (0, 1, 0, 0, 1, 0), (0, 0, 1, 0, 0, 1)),
        walked_only=True,
        dims=("sex", "age"),
    ),
}
