"""``ppdinf infer`` and ``ppdinf demo``: a posterior, a table and a report from a release."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ppdinf as ppd
from ppdinf._internal.atomic_files import make_folder, require_replaceable, write_atomically
from ppdinf._internal.values import Json
from ppdinf.cli.plain_output import notes, paragraphs, plain_warnings, quoted, stage
from ppdinf.errors import LabelError

if TYPE_CHECKING:
    from xarray import DataArray

    from ppdinf.releases import Release
    from ppdinf.report import RateAnalysis


DRAWS = typer.Option(help="Draws per chain, after as many tuning steps, but at most 500.", min=10)
CHAINS = typer.Option(help="Chains.", min=2)
CORES = typer.Option(help="Number of parallel processes; by default the number of cores.", min=1)
OF_TABLES = ("--value", "--dims", "--rule", "--noise", "--rounded", "--suppressed")  # of denoise, not of infer
SEED = typer.Option(help="Seed of the analysis. The noise of a release has no seed.", min=0)


def infer(
    file: Annotated[Path, typer.Argument(metavar="FILE.ppd", help="Release file of a table.")],
    output: Annotated[
        Path, typer.Option(help="Folder for report, table and figures. Earlier ones in it are replaced.")
    ],
    exposure: Annotated[
        str | None, typer.Option(help="Covariate with the persons at risk (0 allowed); the model then has rates.")
    ] = None,
    previous: Annotated[str | None, typer.Option(help="Covariate with an earlier count of each cell.")] = None,
    name: Annotated[str, typer.Option(help="Name of the counts.")] = "count",
    formula: Annotated[
        str | None,
        typer.Option(help="Regression to fit instead: 'cases ~ rural + (1 | state) + offset(log(population))'."),
    ] = None,
    family: Annotated[str, typer.Option(help="poisson, negativebinomial or binomial; for --formula.")] = "poisson",
    covariates: Annotated[
        Path | None, typer.Option(help="CSV with covariates by label of the table, for --formula.")
    ] = None,
    draws: Annotated[int, DRAWS] = 1000,
    chains: Annotated[int, CHAINS] = 4,
    cores: Annotated[int | None, CORES] = None,
    seed: Annotated[int, SEED] = 1,
    described: Annotated[str | None, typer.Option(*OF_TABLES, hidden=True)] = None,
) -> None:
    """Estimate confidential counts and rates from a release, with calibrated intervals.

    Fits a hierarchical Poisson model with the exact noise distribution and all public sums, checks the result, and
    writes report.html, posterior.csv and the figures. Exit code 1 if the checks fail. After Ctrl-C during sampling, the
    report uses the finished draws.

    With --formula, fits that regression and writes parameters.csv, posterior.csv (the counts) and model.py, the PyMC
    code of the model.
    """
    from ppdinf.datasets.printed_file import SUFFIXES

    is_table = described is not None or file.suffix.lower() in SUFFIXES
    release = None if is_table else ppd.measurements.read_ppd(file)
    if not isinstance(release, ppd.Release):
        raise LabelError(
            f"infer reads releases. ppdinf denoise {file.name} estimates the counts of a published table or of "
            "measurements, with the same --rule and --noise. Write a regression of them as a model in Python: "
            "ppd.PartiallyPrivate(..., release=ppd.read_published(...))"
        )
    sampling = {"draws": draws, "chains": chains, "cores": cores, "random_seed": seed}
    if formula is not None:
        if exposure is not None or previous is not None or name != "count":
            raise LabelError(
                "--formula excludes --exposure, --previous and --name: write + offset(log(persons)) and names in it"
            )
        _regression(release, file, formula, family, covariates, output, sampling)
        return
    settings = {"name": name, "exposure": exposure, "previous": previous, **sampling}
    run(release, settings, output, f"{name.capitalize()} from {file.name}", file.name)


def _regression(
    release: Release, file: Path, formula: str, family: Any, covariates: Path | None, output: Path, sampling: Json
) -> None:
    """Fit a formula and write the parameters, the counts and the code of the model."""
    import arviz as az
    import pandas as pd

    from ppdinf.models.formula import translate

    data = None if covariates is None else pd.read_csv(covariates)
    translate(formula, release, family, data)  # a formula is refused before a folder is made
    make_folder(output)
    files = [output / name for name in ("parameters.csv", "posterior.csv", "model.py")]
    require_replaceable(*files)
    with plain_warnings(), stage("Sampling the posterior", shows_progress=True):
        fitted = ppd.fit(formula, release, family=family, data=data, **sampling)
    counts = ppd.sample_confidential(fitted.idata, fitted.model, random_seed=sampling["random_seed"] + 1)
    hidden = re.compile(rf"(.*_)?(level|unit)|{counts.name}")
    shown = [str(name) for name in fitted.idata.posterior if not hidden.fullmatch(str(name))]
    parameters = az.summary(fitted.idata, var_names=shown)
    write_atomically(files[0], parameters.to_csv())
    write_atomically(files[1], ppd.models.summary(counts).to_csv())
    write_atomically(files[2], fitted.source(str(file), str(covariates)))
    diagnosis = ppd.diagnose(fitted.idata, fitted.model)
    verdict = "Checks" if diagnosis.ok else "[red]Checks: do not use this posterior yet[/]"
    paragraphs("Posterior (ArviZ summary)", parameters.to_string())
    paragraphs(verdict, str(diagnosis))
    paragraphs("Written", "\n".join(map(str, files)))
    if not diagnosis.ok:
        raise typer.Exit(1)


def run(release: Release, settings: Json, output: Path, title: str, file: str, truth: DataArray | None = None) -> None:
    """Fit the ready model to a release, print the results and write the report."""
    from ppdinf.report import analyse_rates, write_report
    from ppdinf.report.analysis_report import FIGURES, require_report

    require_report(release, *(settings[name] for name in ("name", "exposure", "previous")))
    make_folder(output)
    names = ("report.html", "posterior.csv", *(f"{figure}.png" for figure in FIGURES))
    require_replaceable(*(output / name for name in names))
    with plain_warnings(), stage("Sampling the posterior", shows_progress=True):
        analysis = replace(analyse_rates(release, **settings, progressbar=True), truth=truth)
    about = "" if truth is None else "The epidemic is simulated: no real place, person or count."
    with stage("Drawing figures"):
        finding = write_report(analysis, output / "report.html", title=title, release_file=file, about=about)
        write_atomically(output / "posterior.csv", analysis.table().to_csv(index=False))
    drawn, finished = (analysis.idata.posterior.sizes[dim] for dim in ("draw", "chain"))
    if (drawn, finished) != (settings["draws"], settings["chains"]):
        notes(
            f"Interrupted: the results use the first {drawn} of {settings['draws']} draws of {finished} of "
            f"{settings['chains']} chains."
        )

    verdict = "Checks" if analysis.diagnosis.ok else "[red]Checks: do not use this posterior yet[/]"
    paragraphs(verdict, f"{analysis.diagnosis}\n{finding}".rstrip())
    if not analysis.diagnosis.ok:
        chains = "" if settings["chains"] >= 4 else " --chains 4"
        again = f"Next: the same command with --draws {_enough(analysis, settings['draws'])}{chains}"
        diverged = bool(analysis.idata.sample_stats["diverging"].any())
        notes(
            "Next: a model of your own with a narrower prior for the spread of the rates (ppdinf.models.rates has the "
            "model of this command). Chains diverged even with short steps, and more draws do not help."
            if diverged
            else f"{again}, unless a line above states that longer chains do not help."
        )
    paragraphs("Posterior (ArviZ summary)", analysis.summary().to_string())
    paragraphs("Guarantee (complete in the report)", release.guarantee.describe_unit())
    paragraphs("Written", "\n".join(sorted(quoted(path) for path in output.iterdir())))
    if not analysis.diagnosis.ok:
        raise typer.Exit(1)


def _enough(analysis: RateAnalysis, draws: int) -> int:
    """Return the draws that raise the smallest effective sample size to its limit, at least twice as many."""
    from ppdinf.diagnostics.problems import ESS

    diagnosis = analysis.diagnosis
    smallest = diagnosis.rated["ess_bulk"].min()
    return draws * (max(2, math.ceil(1.2 * ESS / smallest)) if smallest > 0 else 2)


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
    with stage("Reading the confidential table" if data else "Simulating an epidemic"):
        if data is None and population is not None:
            raise LabelError("--population requires --data: the simulated epidemic includes populations")
        datasets = ppd.datasets
        cases = (datasets.epidemic() if data is None else datasets.read_epidemic(data, population=population)).cases
        known = cases.month.values.tolist()
        for wanted in (month, _before(month)):
            if wanted not in known:
                raise LabelError(f"the table has no month {wanted!r}; it has {known[0]} to {known[-1]}")
        table = cases.sel(month=month, drop=True)
        table = table.assign_coords(previous_cases=("county", cases.sel(month=_before(month)).values))
    if "population" in table.coords and "column" in cases.population.attrs:
        notes(f"Populations: column {cases.population.attrs['column']!r} of {population.name if population else ''}")

    declared = [str(name) for name in table.coords if name not in table.dims]
    public = ppd.invariants.total() & ppd.invariants.covariates(*declared)
    file = output / f"cases-{month}.ppd"
    make_folder(output)
    mechanism = ppd.GeneralizedLaplace(public, epsilon=epsilon)
    with plain_warnings(), stage(f"Releasing {table.size} counts, epsilon = {epsilon}"):
        mechanism.release(table).save(file, overwrite=True)
    release = ppd.read_release(file)  # from here on only the file is used, as by an analyst

    exposure = "population" if "population" in declared else None
    sampling = {"draws": draws, "chains": chains, "cores": cores, "random_seed": seed}
    settings = {"name": "cases", "exposure": exposure, "previous": "previous_cases", **sampling}
    title = f"Cases by county, {month}"
    run(release, settings, output, title, file.name, None if data else table)


def _before(month: str) -> str:
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month):
        raise LabelError(f"--month {month!r} must be written like {MONTH}")
    year, number = int(month[:4]), int(month[5:])
    return f"{year - (number == 1)}-{(number - 2) % 12 + 1:02d}"
