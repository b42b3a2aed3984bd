"""Monthly cases and deaths by county: a fictitious state in a simulated epidemic, and CSV files of this form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from os import PathLike
from pathlib import Path

import numpy as np
import xarray as xr
from scipy.special import ndtri

from ppdinf._internal.values import Integers
from ppdinf.datasets.printed_file import PrintedFile
from ppdinf.datasets.table_file import counts_of, grid
from ppdinf.errors import CountError, LabelError

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
    return _simulated(rng=SEED).copy(deep=True)


def simulate_epidemic(*, rng: int | np.random.Generator | None = None) -> xr.Dataset:
    """Simulate monthly cases and deaths of an epidemic in 67 fictitious counties.

    Parameters
    ----------
    rng : int or numpy.random.Generator, optional
        Seed or generator.

    Returns
    -------
    xarray.Dataset
        ``cases`` and ``deaths``, int64 of shape (county 67, month 24); coordinates ``fips`` (five digits as text; the
        state number 99 is unused) and ``population`` by county; months as text from ``2020-03`` to ``2022-02``.

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
    # populations: log-normal quantiles with median 82,000, in random order
    quantiles = ndtri((np.arange(n) + 0.5) / n)
    sizes = np.exp(np.log(82_000) + 1.2 * quantiles + 0.02 * rng.standard_normal(n))
    population = rng.permutation(np.round(sizes)).astype(np.int64)
    # counties at random places, with correlation exp(-distance) plus independent local noise
    place = rng.uniform(0, 3, size=(n, 2))
    distance = np.linalg.norm(place[:, None] - place[None, :], axis=2)
    smooth = np.linalg.cholesky(0.8 * np.exp(-distance) + 0.2 * np.eye(n))

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


_simulated = lru_cache(maxsize=1)(simulate_epidemic)

COLUMNS = ("county", "fips", "month", "cases", "deaths")
FORMATS = {
    "county": (r"\S(.*\S)?", "is blank, or begins or ends with a blank"),
    "fips": (r"[0-9]{5}", "must have five digits; spreadsheets drop leading zeros, so format the column as text"),
    "month": (r"[0-9]{4}-(0[1-9]|1[0-2])", "must be written like 2021-07"),
}
"""Pattern of each column of labels, and the rule in words."""
_DATED = re.compile(r"pop(?:ulation)?_([0-9]{4})(?:_.*)?")


def read_epidemic(path: str | PathLike[str], *, population: str | PathLike[str] | None = None) -> xr.Dataset:
    r"""Read monthly cases and deaths by county, and optionally the counties' populations.

    Parameters
    ----------
    path : str or path
        CSV (UTF-8) with exactly the columns county, fips, month, cases, deaths, in any order, and one
        row for every county in every month. fips is five digits with its leading zero, month is
        ``2021-07``. Deaths are those reported in the month: they can exceed its cases.
    population : str or path, optional
        CSV with a column fips and either a column ``population`` or dated columns such as
        ``pop_2020_base``; the latest column is used. It may hold further columns and counties (a
        national file); every county of `path` must be in it, matched by fips alone.

    Returns
    -------
    xarray.Dataset
        ``cases`` and ``deaths``, int64 (county, month), both in order of first appearance; coordinate
        ``fips`` and, if given, ``population``, whose attribute ``column`` names the column that was read.

    Raises
    ------
    LabelError
        Columns missing, repeated or unknown; a county, fips or month that is malformed, repeated,
        absent or inconsistent with another row.
    CountError
        A count that is blank, negative, fractional, above 2**53 or not a number; a population of 0;
        more deaths than cases in the complete file.

    See Also
    --------
    ppdinf.datasets.epidemic, ppdinf.datasets.read_table

    Examples
    --------
    >>> from ppdinf.datasets import read_epidemic
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "cases.csv")
    ...     _ = file.write_text("county,fips,month,cases,deaths\nKestrel,99071,2021-07,12,0\n")
    ...     read_epidemic(file).cases.item()
    12
    """
    file = PrintedFile.read(path, strict=True)
    file.require(*COLUMNS)
    for name in file.header:
        if name not in COLUMNS:
            raise LabelError(f"{file.name} has an unknown column {name!r}: drop it from the file")
    _require_formats(file, FORMATS)
    fips = _one_code(file)
    labels, order = grid(file, ("county", "month"))
    shape = [len(values) for values in labels.values()]
    counts = {name: (("county", "month"), counts_of(file, name)[order].reshape(shape)) for name in ("cases", "deaths")}
    if counts["deaths"][1].sum() > counts["cases"][1].sum():
        raise CountError(f"{file.name} holds more deaths than cases: are the two columns swapped?")
    table = xr.Dataset(counts, coords={**labels, "fips": ("county", list(fips.values()))})
    if population is None:
        return table
    persons, column = _read_populations(Path(population), fips)
    return table.assign_coords(population=("county", persons, {"column": column}))


def _require_formats(file: PrintedFile, names: Iterable[str]) -> None:
    """Refuse a label that is not written as its column requires."""
    for line, row in file.rows:
        for name in names:
            pattern, rule = FORMATS[name]
            if not re.fullmatch(pattern, row[name]):
                raise LabelError(f"{file.name} line {line}, column {name!r}: {row[name]!r} {rule}")


def _one_code(file: PrintedFile) -> dict[str, str]:
    """Return the code of each county in order of first appearance; no two counties have the same code."""
    fips: dict[str, str] = {}
    county_of: dict[str, str] = {}
    for line, row in file.rows:
        county, code = row["county"], row["fips"]
        if fips.setdefault(county, code) != code:
            raise LabelError(
                f"{file.name} line {line}: county {county!r} has fips {code} here and {fips[county]} above; "
                "add the state to the names of counties with the same name"
            )
        if county_of.setdefault(code, county) != county:
            raise LabelError(f"{file.name}: fips {code} belongs to both {county_of[code]!r} and {county!r}")
    return fips


def _read_populations(path: Path, fips: Mapping[str, str]) -> tuple[Integers, str]:
    """Return the persons of each county, and the name of the column that was read."""
    file = PrintedFile.read(path, strict=True)
    file.require("fips")
    file.places(file.labels(["fips"]))
    _require_formats(file, ["fips"])
    column = _population_column(file)
    for county, code in fips.items():
        if file.line("fips", code) is None:
            raise LabelError(f"{file.name} has no row with fips {code} (county {county!r})")
    file = file.only(file.table["fips"].isin(fips.values()).to_numpy())
    persons = counts_of(file, column)
    if not persons.all():
        line, code = file.line(column, "0"), file.table["fips"].iloc[int(np.argmin(persons))]
        raise CountError(f"{file.name} line {line}, column {column!r}: fips {code} has the population 0")
    return persons[np.argsort(file.codes("fips", list(fips.values())))], column


def _population_column(file: PrintedFile) -> str:
    """Return the column of populations, or the latest of several dated ones."""
    if "population" in file.header:
        return "population"
    dated = [(match[1], name) for name in file.header if (match := _DATED.fullmatch(name))]
    latest = [name for year, name in dated if year == max(dated)[0]]
    if not latest:
        raise LabelError(f"{file.name} has no column 'population' or 'pop_2020'; it has {', '.join(file.header)}")
    if len(latest) > 1:
        raise LabelError(f"{file.name}: {' and '.join(latest)} are equally recent; rename one column to 'population'")
    return latest[0]
