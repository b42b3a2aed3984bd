"""``ppdinf demo``: the complete workflow from a confidential table to a report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ppdinf as ppd
from ppdinf._internal.atomic_files import make_folder
from ppdinf.cli.infer_command import CHAINS, CORES, DRAWS, SEED, run
from ppdinf.cli.plain_output import notes, plain_warnings, stage, stdout
from ppdinf.errors import LabelError

if TYPE_CHECKING:
    import xarray as xr

MONTH = "2021-06"
"""A month with few cases: in 20 % of the counties the noise is as large as the counts."""


def demo(
    data: Annotated[
        Path | None,
        typer.Option(help="CSV with columns county,fips,month,cases,deaths; without it, a simulated epidemic."),
    ] = None,
    population: Annotated[
        Path | None, typer.Option(help="CSV with fips and population of each county; requires --data.")
    ] = None,
    month: Annotated[str, typer.Option(help="Month to release; the previous month is assumed public.")] = MONTH,
    epsilon: Annotated[str, typer.Option(help="Privacy loss per unit of distance.")] = "1/10",
    output: Annotated[
        Path, typer.Option(help="Folder for release, report and figures. Earlier ones in it are replaced.")
    ] = Path("ppdinf-demo"),
    draws: Annotated[int, DRAWS] = 1000,
    chains: Annotated[int, CHAINS] = 4,
    cores: Annotated[int | None, CORES] = None,
    seed: Annotated[int, SEED] = 1,
) -> None:
    """Run the complete workflow: confidential table, release, posterior, report.

    Uses one month of cases by county. The state total, the populations and the previous month are public; the
    county counts are released with noise; a hierarchical Poisson model is fitted to the release alone.
    Exit code 1 when the posterior fails its checks.
    """
    console = stdout()
    with stage(console, "Reading the confidential table" if data else "Simulating an epidemic"):
        cases = _cases(data, population)
        table = _month(cases, month)
    if "population" in table.coords and "column" in cases.population.attrs:
        notes(
            console,
            f"Populations: column {cases.population.attrs['column']!r} of {population.name if population else ''}",
        )

    declared = [str(name) for name in table.coords if name not in table.dims]
    public = ppd.invariants.total() & ppd.invariants.covariates(*declared)
    file = output / f"cases-{month}.ppd"
    make_folder(output)
    mechanism = ppd.GeneralizedLaplace(public, epsilon=epsilon)
    notes(console, mechanism.guarantee.describe_unit())
    with plain_warnings(console), stage(console, f"Releasing {table.size} counts, epsilon = {epsilon}"):
        mechanism.release(table).save(file, overwrite=True)
    release = ppd.read_release(file)  # from here on only the file is used, as by an analyst

    settings = {
        "name": "cases",
        "exposure": "population" if "population" in declared else None,
        "previous": "previous_cases",
        "draws": draws,
        "chains": chains,
        "cores": cores,
        "random_seed": seed,
    }
    about = "" if data else "The epidemic is simulated: no real place, person or count."
    title = f"Cases by county, {month}"
    analysis = run(console, release, settings, output, title, file.name, about)
    if not analysis.diagnosis.ok:
        raise typer.Exit(1)


def _cases(data: Path | None, population: Path | None) -> xr.DataArray:
    if data is None and population is not None:
        raise LabelError("--population requires --data: the simulated epidemic includes populations")
    return (
        ppd.datasets.epidemic().cases if data is None else ppd.datasets.read_epidemic(data, population=population).cases
    )


def _month(cases: xr.DataArray, month: str) -> xr.DataArray:
    """Select the counts of one month, with the counts of the previous month as a coordinate."""
    known = cases.month.values.tolist()
    for wanted in (month, _before(month)):
        if wanted not in known:
            raise LabelError(f"the table has no month {wanted!r}; it has {known[0]} to {known[-1]}")
    table = cases.sel(month=month, drop=True)
    return table.assign_coords(previous_cases=("county", cases.sel(month=_before(month)).values))


def _before(month: str) -> str:
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month):
        raise LabelError(f"--month {month!r} must be written like {MONTH}")
    year, number = int(month[:4]), int(month[5:])
    return f"{year - (number == 1)}-{(number - 2) % 12 + 1:02d}"
