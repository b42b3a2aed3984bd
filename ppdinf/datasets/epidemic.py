"""A fictitious state of 67 counties in a simulated epidemic: monthly cases and deaths over two years.

The data are simulated, so they can be published and used in tests. Sizes are those of a real state of 11 million
persons (counties with 4,500 to 1,500,000 persons, months with tens to tens of thousands of cases). Places and numbers
are fictitious.

The model, county i in month t:

    log rate(i, t) = wave(t - lead(i)) + county(i) + local(i, t),     cases ~ NegativeBinomial

where lead, county and local vary smoothly over a map and local is autoregressive in time. A share of the
cases is fatal. Half of the deaths are reported in the month of the case and half in the next month, so
deaths can exceed the cases of their month, but cumulative deaths never exceed cumulative cases.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import xarray as xr
from scipy.special import ndtri

SEED = 2020

# fmt: off
COUNTIES = (
    "Alderfen", "Ashwick", "Barrowmere", "Beechgrave", "Birnholt", "Blackthorn", "Bramblecote",
    "Brindle Hill", "Caldermoor", "Chantrey", "Clovermead", "Coldwater", "Cranebrook", "Dapplewood",
    "Deepwell", "Dunmarrow", "Eastmarch", "Elderbourne", "Emberley", "Fallowmere", "Fernhollow",
    "Flintridge", "Foxglove", "Gallowglass", "Goldmere", "Greywether", "Hallowford", "Harrowdale",
    "Hazelmoor", "Heronsgate", "Highfell", "Hollowbrook", "Ironwick", "Ivycombe", "Juniper Falls",
    "Kestrel", "Kingsmarrow", "Larkspur", "Linden Moor", "Longshadow", "Mapleholt", "Marshgate",
    "Merrowdown", "Mistvale", "Netherby", "Northmarch", "Oakhaven", "Otterbourne", "Pellham", "Pinewarden",
    "Quarrymoor", "Ravenscar", "Redfern", "Rookery", "Saltmarsh", "Silverbeck", "Stonehollow", "Swanmere",
    "Tanglewood", "Thistledown", "Ulverwick", "Valemarch", "Westmarch", "Whitewillow", "Windmere",
    "Wolfsgarth", "Yarrowby",
)
# fmt: on
MONTHS = tuple(f"{2020 + (m + 2) // 12}-{(m + 2) % 12 + 1:02d}" for m in range(24))

# monthly cases per 100,000 in the state: two small waves, a winter wave, a quiet summer, a large winter wave
_WAVE = np.array(
    [35, 300, 190, 85, 140, 150, 190, 410, 1150, 2050, 1500, 640,
     690, 930, 380, 80, 95, 480, 900, 960, 1150, 2200, 4300, 720], dtype=float
)  # fmt: skip
_FATAL = np.interp(np.arange(24), [0, 4, 10, 16, 23], [0.06, 0.02, 0.022, 0.013, 0.009])


@lru_cache(maxsize=1)
def _cached() -> xr.Dataset:
    return simulate_epidemic(rng=SEED)


def epidemic() -> xr.Dataset:
    """Return the embedded table: `simulate_epidemic` with seed 2020.

    Returns
    -------
    xarray.Dataset
        As for `simulate_epidemic`; a new copy at each call.

    See Also
    --------
    ppdinf.datasets.simulate_epidemic, ppdinf.datasets.read_epidemic

    Examples
    --------
    >>> from ppdinf.datasets import epidemic
    >>> epidemic().cases.sizes
    Frozen({'county': 67, 'month': 24})
    """
    return _cached().copy(deep=True)


def simulate_epidemic(*, rng: int | np.random.Generator | None = None) -> xr.Dataset:
    """Simulate monthly cases and deaths of an epidemic in 67 fictitious counties.

    Parameters
    ----------
    rng : int or numpy.random.Generator, optional
        Seed or generator.

    Returns
    -------
    xarray.Dataset
        ``cases`` and ``deaths``, int64 of shape (county 67, month 24); coordinates ``fips`` (five digits as
        text; the state number 99 is unused) and ``population`` by county; months as text from ``2020-03`` to
        ``2022-02``.

    See Also
    --------
    ppdinf.datasets.epidemic

    Examples
    --------
    >>> from ppdinf.datasets import simulate_epidemic
    >>> table = simulate_epidemic(rng=1)
    >>> bool((table.deaths.cumsum("month") <= table.cases.cumsum("month")).all())
    True
    """
    rng = np.random.default_rng(rng)
    n, months = len(COUNTIES), len(MONTHS)
    population = _populations(rng, n)
    smooth = _smooth_factor(rng, n)

    county = 0.25 * smooth @ rng.standard_normal(n)
    lead = 0.5 * smooth @ rng.standard_normal(n)  # months by which waves are early
    local = np.empty((n, months))
    local[:, 0] = smooth @ rng.standard_normal(n)
    for t in range(1, months):
        local[:, t] = 0.7 * local[:, t - 1] + np.sqrt(1 - 0.7**2) * smooth @ rng.standard_normal(n)
    month = np.arange(months)
    wave = np.array([np.interp(month + shift, month, np.log(_WAVE)) for shift in lead])

    expected = population[:, None] / 1e5 * np.exp(wave + county[:, None] + 0.25 * local)
    dispersion = 25.0
    cases = rng.poisson(expected * rng.gamma(dispersion, 1 / dispersion, size=expected.shape))
    fatal = rng.binomial(cases, _FATAL)
    late = rng.binomial(fatal, 0.5)
    deaths = fatal - late
    deaths[:, 1:] += late[:, :-1]

    return xr.Dataset(
        {
            "cases": (("county", "month"), cases.astype(np.int64)),
            "deaths": (("county", "month"), deaths.astype(np.int64)),
        },
        coords={
            "county": list(COUNTIES),
            "month": list(MONTHS),
            "fips": ("county", [f"99{2 * i + 1:03d}" for i in range(n)]),
            "population": ("county", population),
        },
        attrs={"title": "Simulated epidemic in a made-up state (no real place, person or count)"},
    )


def _populations(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return log-normal quantiles with median 82,000, in random order."""
    quantiles = ndtri((np.arange(n) + 0.5) / n)
    sizes = np.exp(np.log(82_000) + 1.2 * quantiles + 0.02 * rng.standard_normal(n))
    return rng.permutation(np.round(sizes)).astype(np.int64)


def _smooth_factor(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a Cholesky factor of a correlation over random places: exp(-distance) plus independent local noise."""
    place = rng.uniform(0, 3, size=(n, 2))
    distance = np.linalg.norm(place[:, None] - place[None, :], axis=2)
    return np.linalg.cholesky(0.8 * np.exp(-distance) + 0.2 * np.eye(n))
