"""``ppdinf infer``: a posterior, a table and a report from a release."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import ppdinf as ppd
from ppdinf._internal.atomic_files import make_folder, require_replaceable, write_atomically
from ppdinf.cli.plain_output import notes, paragraphs, plain_warnings, stage, stdout

if TYPE_CHECKING:
    from ppdinf.releases import Release
    from ppdinf.report import RateAnalysis

DRAWS = typer.Option(help="Draws per chain, after as many tuning steps, but at most 500.", min=10)
CHAINS = typer.Option(help="Chains.", min=2)
CORES = typer.Option(help="Number of parallel processes; by default the number of cores.", min=1)
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
    draws: Annotated[int, DRAWS] = 1000,
    chains: Annotated[int, CHAINS] = 4,
    cores: Annotated[int | None, CORES] = None,
    seed: Annotated[int, SEED] = 1,
) -> None:
    """Estimate confidential counts and rates from a release, with calibrated intervals.

    Fits a hierarchical Poisson model with the exact noise distribution and all public sums, checks the result, and
    writes report.html, posterior.csv and the figures. Exit code 1 if the checks fail. After Ctrl-C during sampling, the
    report uses the finished draws.
    """
    console = stdout()
    release = ppd.read_release(file)
    settings = {
        "name": name,
        "exposure": exposure,
        "previous": previous,
        "draws": draws,
        "chains": chains,
        "cores": cores,
        "random_seed": seed,
    }
    title = f"{name.capitalize()} from {file.name}"
    analysis = run(console, release, settings, output, title, file.name)
    if not analysis.diagnosis.ok:
        raise typer.Exit(1)


def run(
    console: Console,
    release: Release,
    settings: dict[str, Any],
    output: Path,
    title: str,
    file: str,
    about: str = "",
) -> RateAnalysis:
    """Fit the ready model to a release, print the results and write the report."""
    from ppdinf.report import analyse_rates, write_report
    from ppdinf.report.analysis_report import FIGURES, require_report

    require_report(release, *(settings[name] for name in ("name", "exposure", "previous")))
    make_folder(output)
    for written in ("report.html", "posterior.csv", *(f"{figure}.png" for figure in FIGURES)):
        require_replaceable(output / written)
    live = console.is_terminal
    with plain_warnings(console), stage(console, "Sampling the posterior", shows_progress=live):
        analysis = analyse_rates(release, **settings, progressbar=True)
    with stage(console, "Drawing figures"):
        write_report(analysis, output / "report.html", title=title, release_file=file, about=about)
        write_atomically(output / "posterior.csv", analysis.table().to_csv(index=False))
    drawn, finished = (analysis.idata.posterior.sizes[dim] for dim in ("draw", "chain"))
    if (drawn, finished) != (settings["draws"], settings["chains"]):
        notes(
            console,
            f"Interrupted: the results use the first {drawn} of {settings['draws']} draws of {finished} of "
            f"{settings['chains']} chains.",
        )

    paragraphs(console, "Guarantee", release.guarantee.describe())
    paragraphs(console, "Posterior (ArviZ summary)", analysis.summary().to_string())
    verdict = "Checks" if analysis.diagnosis.ok else "[red]Checks: do not use this posterior yet[/]"
    paragraphs(console, verdict, str(analysis.diagnosis))
    if not analysis.diagnosis.ok:
        chains = "" if settings["chains"] >= 4 else " --chains 4"
        again = f"Next: the same command with --draws {_enough(analysis, settings['draws'])}{chains}"
        diverged = bool(analysis.idata.sample_stats["diverging"].any())
        notes(
            console,
            "Next: a model of your own with a narrower prior for the spread of the rates (ppdinf.models.rates has the "
            "model of this command). Chains diverged even with short steps, and more draws do not help."
            if diverged
            else f"{again}, unless a line above states that longer chains do not help.",
        )
    paragraphs(console, "Written", "\n".join(sorted(str(path) for path in output.iterdir())))
    return analysis


def _enough(analysis: RateAnalysis, draws: int) -> int:
    """Return the draws that raise the smallest effective sample size to its limit, at least twice as many."""
    from ppdinf.diagnostics.problems import ESS

    diagnosis = analysis.diagnosis
    smallest = diagnosis.rated["ess_bulk"].min()
    return draws * (max(2, math.ceil(1.2 * ESS / smallest)) if smallest > 0 else 2)
