"""A rate analysis of a release, and its report as one HTML page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf import plots
from ppdinf._internal.atomic_files import write_atomically
from ppdinf._internal.progress import COMPILING, progress
from ppdinf._internal.values import FilePath, Json
from ppdinf.diagnostics import Diagnosis, diagnose
from ppdinf.errors import LabelError, ModelError, PrivacyError
from ppdinf.models import sample_confidential, summary
from ppdinf.models.rates import draw_rates, rate_model
from ppdinf.plots.posterior import PROBABILITY
from ppdinf.releases import Release
from ppdinf.releases.rate_inputs import effects, exposures, require_rates
from ppdinf.report.page import FAILED, Page, base64_of, listed, png
from ppdinf.samplers.interrupts import between_draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PER = 100_000
FIGURES = ("posterior", "noise", "chains")
COUNTS = ("posterior_mean", "posterior_lower", "posterior_upper")
RATES = ("posterior_rate", "rate_lower", "rate_upper")
TUNE = 500  # maximum number of tuning steps
AGAIN = "Sampling again with shorter steps, because chains diverged"
ACCEPTANCE = {0.8: "Sampling", 0.95: AGAIN, 0.99: AGAIN}
"""Target acceptance probabilities in the order in which they are tried."""


@dataclass(frozen=True)
class RateAnalysis:
    """A fitted `ppdinf.models.rates.rate_model`, with its release."""

    release: Release
    name: str
    exposure: str | None
    previous: str | None
    sampling: Json
    idata: xr.DataTree
    diagnosis: Diagnosis
    truth: xr.DataArray | None = None  # the confidential table, known of simulated data only

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters shared by cells."""
        known = ["intercept", "slope", "spread"]  # effects are omitted: one per label would fill the page
        return [name for name in known if name in self.idata.posterior]

    def summary(self) -> pd.DataFrame:
        """ArviZ's summary of the shared parameters as text, with equal-tailed 90 % intervals."""
        summary = az.summary(
            self.idata, var_names=self.parameters, ci_prob=PROBABILITY, ci_kind="eti", round_to="none"
        ).drop(columns=["mcse_mean", "mcse_sd"])
        return summary.apply(lambda column: column.map(("{:.0f}" if "ess" in column.name else "{:.3f}").format))

    def table(self) -> pd.DataFrame:
        """One row per cell: labels, released count, posterior of the confidential count, rates."""
        frame = self.release.frame
        table = pd.DataFrame({dim: frame.broadcast(dim) for dim in frame.dims})
        table["released"] = self.release.table.values.ravel()
        table[[*COUNTS]] = _intervals(self.idata.posterior[self.name], frame.dims)
        at_risk = exposures(self.release, self.exposure).ravel()
        somebody = np.where(at_risk > 0, at_risk, np.nan)  # the rate is undefined if nobody is at risk
        if self.exposure is not None:
            table.insert(len(frame.dims), self.exposure, frame.broadcast(self.exposure))
            table["naive_rate"] = PER * table["released"] / somebody
        scale = PER if self.exposure is not None else 1
        rates = scale * _intervals(self.idata.posterior["rate"], frame.dims)
        rates[np.isnan(somebody)] = np.nan
        table[[*RATES]] = rates
        return table

    def finding(self, figure: Figure) -> str:
        """State the result in sentences: the title of the figure, and the coverage of a known truth."""
        found = f"{figure.get_suptitle()}."
        if self.truth is None:
            return found
        truth = self.truth.values.ravel()
        _, lower, upper = (self.table()[name] for name in COUNTS)
        inside = ((lower <= truth) & (truth <= upper)).sum()
        known = f"{inside} of the {truth.size} confidential counts, which are known in this demo only"
        return f"{found} The 90 % intervals contain {known}."

    def determined(self) -> str:
        """Name the cells whose counts follow from the public sums."""
        cells = [self.release.frame.cell(cell) for cell in np.flatnonzero(self.release.public.structure.fixed).tolist()]
        if not cells:
            return ""
        return f"\nThe public sums determine {len(cells)} of {self.release.frame.size} counts: {listed(cells)}."

    def model(self) -> str:
        """Describe the fitted model and the treatment of the confidential table in sentences."""
        labels = effects(self.release)
        at_risk = f" times its {self.exposure}" if self.exposure is not None else ""
        mean = "a common mean"
        if labels:
            mean += f" with additive effects of {listed(labels)} on the log scale"
        if self.previous is not None:
            mean += f" and a slope on the logarithm of the earlier rate ({self.previous})"
        nobody = exposures(self.release, self.exposure) == 0
        empty = f" In {int(nobody.sum())} cells nobody is at risk: the count is 0." if nobody.any() else ""
        stats = self.idata.get("sample_stats")
        sampled = stats is not None and "moved" in stats  # statistic of the table's step method
        rates = "integrated out, so counts are negative binomial" if sampled else "variables of the model"
        treated = "sampled along moves that preserve the public sums" if sampled else "marginalized exactly"
        return (
            f"Counts are Poisson with a rate for each cell{at_risk}. The rates vary around {mean}, with a relative "
            f"standard deviation called spread; the rates are {rates}.{empty} The confidential table is {treated}: "
            "every posterior draw of the table satisfies everything public. No confidential count was used."
        )

    def figures(self) -> dict[str, Figure]:
        """Figures by file name: posterior, noise, chains."""
        rate = "rate" if self.exposure is not None else None
        drawn = (
            plots.plot_posterior_table(
                self.idata, self.release, self.name, rate=rate, exposure=self.exposure, truth=self.truth
            ),
            plots.plot_noise(self.release),
            plots.plot_chains(self.idata, self.parameters, trusted=self.diagnosis.ok),
        )
        return dict(zip(FIGURES, drawn, strict=True))

    def code(self, path: str) -> str:
        """Return Python code that repeats the analysis from the release file at `path`."""
        named = {"name": self.name, "exposure": self.exposure, "previous": self.previous}
        model = ", ".join(f"{key}={value!r}" for key, value in named.items() if value is not None)
        rates = ", ".join(f"{key}={value!r}" for key, value in named.items() if value is not None and key != "previous")
        sampling = ", ".join(f"{key}={value!r}" for key, value in self.sampling.items())
        return (
            "import pymc as pm, ppdinf as ppd\n"
            "from ppdinf.models.rates import draw_rates, rate_model\n\n"
            f"release = ppd.read_release({path!r})\n"
            f"with rate_model(release, {model}) as model:\n"
            f"    idata = pm.sample({sampling})\n"
            "print(ppd.diagnose(idata, model))\n"
            f"confidential = ppd.sample_confidential(idata, model, random_seed={self.sampling['random_seed'] + 1})\n"
            f"rates = draw_rates(idata, release, {rates}, rng={self.sampling['random_seed']})\n"
        )


def require_report(release: Release, name: str, exposure: str | None, previous: str | None) -> None:
    """Refuse inputs of which no model of rates can be fitted, or no report written."""
    require_rates(release, name, exposure, previous)
    if "/" in name or name in (".", ".."):
        raise ModelError(f"name must not contain a slash or be a dot, because results are stored by name: {name!r}")
    columns = [*release.dims, *([] if exposure is None else [exposure]), *COUNTS, "naive_rate", *RATES]
    if twice := [column for column in columns if columns.count(column) > 1]:
        raise LabelError(f"{twice[0]!r} would name two columns of the results: rename the dimension or covariate")
    if release.public.structure.fixed.all():
        raise PrivacyError("the public sums determine every cell, so that nothing is unknown")


def analyse_rates(
    release: Release,
    *,
    name: str = "count",
    exposure: str | None = None,
    previous: str | None = None,
    draws: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int = 1,
    progressbar: bool = False,
) -> RateAnalysis:
    """Fit the model of rates to a release and check the result."""
    require_report(release, name, exposure, previous)  # before anything slow
    model = rate_model(release, name=name, exposure=exposure, previous=previous)
    tune = min(draws, TUNE)
    for target_accept, words in ACCEPTANCE.items():
        sampling = {
            "draws": draws, "tune": tune, "chains": chains, "target_accept": target_accept, "random_seed": random_seed,
            "nuts_sampler": "pymc",  # which stops between two draws, and needs no compilation of its own
        }  # fmt: skip
        idata = _sampled(model, sampling, cores, words, progressbar)
        diverging = idata.sample_stats["diverging"]
        if diverging.size < draws * chains or not diverging.any():
            break  # stopped by the user, or without divergences
    diagnosis = diagnose(idata, model)
    # other random numbers than those of rates
    tables = sample_confidential(idata, model, random_seed=random_seed + 1, progressbar=progressbar)
    idata.posterior[name] = tables
    idata.posterior["rate"] = draw_rates(idata, release, name=name, exposure=exposure, rng=random_seed)
    return RateAnalysis(release, name, exposure, previous, sampling, idata, diagnosis)


def _sampled(model: pm.Model, sampling: Json, cores: int | None, words: str, progressbar: bool) -> xr.DataTree:
    """Sample a model with progress; after Ctrl-C, return the draws that all chains have."""
    steps = (sampling["tune"] + sampling["draws"]) * sampling["chains"]
    shown = progress(words, steps, disable=not progressbar, before=COMPILING)
    with model, between_draws() as stop, shown as advance:

        def callback(*args: object, **kwargs: object) -> None:
            stop()
            advance(1)

        try:
            return pm.sample(
                **sampling,
                cores=cores or os.cpu_count(),  # PyMC would use half of them
                callback=callback,
                progressbar=False,
                quiet=True,
                compute_convergence_checks=False,
            )
        except ValueError as error:
            if "Not enough samples" not in str(error):
                raise
            raise KeyboardInterrupt from None  # stopped during tuning


def _intervals(draws: xr.DataArray, dims: tuple[str, ...]) -> np.ndarray:
    """Return mean and interval of each cell, shape (cells, 3)."""
    return summary(draws.transpose("chain", "draw", *dims), PROBABILITY)[["estimate", "lower", "upper"]].to_numpy()


def write_report(analysis: RateAnalysis, path: FilePath, *, title: str, release_file: str, about: str = "") -> str:
    """Write a release and its posterior as one page, and its figures in the same folder; return the finding."""
    path = Path(path)
    release = analysis.release
    figures = analysis.figures()
    images = {name: png(figure) for name, figure in figures.items()}
    for name, image in images.items():
        write_atomically(path.parent / f"{name}.png", image)
    ok = analysis.diagnosis.ok
    page = Page(
        title,
        f"Posterior of a privacy-protected table given its noise and its exact public sums. {about}",
        verdict="The posterior passed its checks." if ok else "Do not use this posterior yet: its checks failed.",
        ok=ok,
        finding=analysis.finding(figures["posterior"]) if ok else "",
        details=f"{analysis.diagnosis}{analysis.determined()}",
        stamp="" if ok else FAILED,
    )
    page.write(
        path,
        "analysis.html.j2",
        analysis=analysis,
        release=release,
        images={name: base64_of(image) for name, image in images.items()},
        cells=analysis.table().to_dict("records"),
        noise=figures["noise"].axes[0].get_title(loc="left").strip(),
        digits=0 if release.mechanism.is_integer else 1,
        sums=list(zip(release.public.names, release.public.values.tolist(), strict=True)),
        kept=bool(release.public.check(release.table)["agrees"].all()),
        summary=analysis.summary(),
        per=f"{PER:,}",
        code=analysis.code(release_file),
    )
    return page.finding
