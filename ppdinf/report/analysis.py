"""From a release to everything that a report shows: posterior, checks, table of cells, figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ppdinf.releases import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ppdinf.diagnostics import Diagnosis

__all__ = ["RateAnalysis", "analyse_rates"]

PROBABILITY = 0.9
PER = 100_000


@dataclass(frozen=True)
class RateAnalysis:
    """A fitted `ppdinf.models.rates.rate_model`, with the release it was fitted to.

    Attributes
    ----------
    release : Release
    name : str
        What is counted; the confidential table in the posterior.
    exposure, previous : str or None
        Covariates of the release that the model used.
    sampling : dict
        Arguments of `pm.sample`, to say how it was made.
    idata : xarray.DataTree
        With the confidential table and ``rate`` in its posterior.
    diagnosis : Diagnosis
    """

    release: Release
    name: str
    exposure: str | None
    previous: str | None
    sampling: dict[str, float]
    idata: Any
    diagnosis: Diagnosis

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters that are shared by cells."""
        known = ["intercept", "slope", "spread"]
        return [name for name in known if name in self.idata.posterior]

    def summary(self) -> pd.DataFrame:
        """ArviZ's summary of the shared parameters as text, with equal-tailed 90 % intervals."""
        import arviz as az

        summary = az.summary(
            self.idata, var_names=self.parameters, ci_prob=PROBABILITY, ci_kind="eti", round_to="none"
        ).drop(columns=["mcse_mean", "mcse_sd"])
        return summary.apply(lambda column: column.map(("{:.0f}" if "ess" in column.name else "{:.3f}").format))

    def table(self) -> pd.DataFrame:
        """One row per cell: labels, released count, posterior of the confidential count, rates.

        Rates are per 100,000 units of exposure, or expected counts where there is no exposure. The naive
        rate takes the released count as true.
        """
        frame = self.release.frame
        table = pd.DataFrame({dim: frame.broadcast(dim) for dim in frame.dims})
        table["released"] = self.release.table.values.ravel()
        table[["posterior_mean", "posterior_lower", "posterior_upper"]] = _summarise(
            self.idata.posterior[self.name], frame.dims
        )
        if self.exposure is not None:
            at_risk = frame.broadcast(self.exposure)
            table.insert(len(frame.dims), self.exposure, at_risk)
            table["naive_rate"] = PER * table["released"] / at_risk
        scale = PER if self.exposure is not None else 1
        table[["posterior_rate", "rate_lower", "rate_upper"]] = scale * _summarise(
            self.idata.posterior["rate"], frame.dims
        )
        return table

    def figures(self) -> dict[str, Figure]:
        """Figures by file name: posterior, noise, chains."""
        from ppdinf import plots

        rate = "rate" if self.exposure is not None else None
        return {
            "posterior": plots.plot_posterior_table(
                self.idata, self.release, self.name, rate=rate, exposure=self.exposure
            ),
            "noise": plots.plot_noise(self.release),
            "chains": plots.plot_chains(self.idata, self.parameters),
        }

    def code(self, path: str) -> str:
        """Python that repeats the analysis from the release file at `path`."""
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
            "confidential = ppd.sample_confidential(idata, model)\n"
            f"rates = draw_rates(idata, release, {rates}, rng={self.sampling['random_seed']})\n"
        )


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
    """Fit the ready model of rates to a release and check the result.

    Parameters
    ----------
    release : Release
    name, exposure, previous : str, optional
        As for `ppdinf.models.rates.rate_model`.
    draws, chains, cores, random_seed, progressbar
        As for `pm.sample`; as many draws again are spent on tuning.

    Returns
    -------
    RateAnalysis

    Raises
    ------
    ModelError, LabelError
        The release does not fit the model.

    Warns
    -----
    DiagnosisWarning
        For each problem that `ppdinf.diagnose` finds.
    """
    import pymc as pm

    from ppdinf.diagnostics import diagnose
    from ppdinf.models import sample_confidential
    from ppdinf.models.rates import draw_rates, rate_model

    # short steps cost little with so few parameters, and leave no divergence to explain
    sampling = {"draws": draws, "tune": draws, "chains": chains, "target_accept": 0.95, "random_seed": random_seed}
    with rate_model(release, name=name, exposure=exposure, previous=previous) as model:
        idata = pm.sample(
            **sampling, cores=cores, progressbar=progressbar, quiet=not progressbar, compute_convergence_checks=False
        )
    diagnosis = diagnose(idata, model)
    idata.posterior[name] = sample_confidential(idata, model)
    idata.posterior["rate"] = draw_rates(idata, release, name=name, exposure=exposure, rng=random_seed)
    return RateAnalysis(release, name, exposure, previous, sampling, idata, diagnosis)


def _summarise(draws: Any, dims: tuple[str, ...]) -> np.ndarray:
    """Mean and interval of each cell, shape (cells, 3)."""
    flat = draws.transpose("chain", "draw", *dims).values.reshape(draws.sizes["chain"] * draws.sizes["draw"], -1)
    tail = (1 - PROBABILITY) / 2
    return np.column_stack([flat.mean(axis=0), *np.quantile(flat, [tail, 1 - tail], axis=0)])
