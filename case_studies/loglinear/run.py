"""Logistic and log-linear models of contingency tables, from noisy cells and public margins.

Run with ``ppdinf reproduce loglinear``. Tables are in the folder of PPDINF_DATA (or ``--data``):
admissions to Berkeley, Czech autoworkers, women's work in Rochdale; otherwise tables of their shapes are simulated. The
papers do not fit such models to noisy tables. Each release is analysed with the noise in the model and naively, with
counts treated as true, and both are compared with the posterior from the confidential table.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import ppdinf as ppd
from ppdinf.datasets.table_file import public_folder
from ppdinf.invariants import margin
from ppdinf.samplers import dense_steps

from .._shared.estimates import Estimate, if_enough
from .._shared.study import Study

TAKES = "15 min; quick 1 min"
LEVEL, TAILS = 0.9, (0.05, 0.95)
READINGS = {
    "confidential": ("confidential table", "#222222", "o"),
    "aware": ("noisy table, noise in the model", "#0072B2", "s"),
    "naive": ("noisy table taken as true", "#D55E00", "^"),
}


def logistic(table):
    """Admission by gender in each department: intercepts, and log odds ratios; numbers of applicants are public."""
    departments = table.sizes["dept"]
    level = pm.Normal("level", 0, 1.5, shape=departments)
    beta = pm.Normal("beta", 0, 1, shape=departments)
    admitted = pm.math.sigmoid(level + np.array([[-0.5], [0.5]]) * beta)  # (gender, department)
    return pm.Multinomial.dist(table.sum("admit").values, pm.math.stack([admitted, 1 - admitted], axis=-1))


def loglinear(table):
    """All main effects and all products of two, each factor coded -1/2 and 1/2; the sum of the table is public."""
    codes = [np.array([-0.5, 0.5]).reshape([-1 if i == k else 1 for i in range(table.ndim)]) for k in range(table.ndim)]
    columns = codes + [one * other for one, other in combinations(codes, 2)]
    X = np.stack([np.broadcast_to(column, table.shape).ravel() for column in columns], axis=1)
    level = pm.Normal("level", np.log(float(table.mean())), 2)
    main = pm.Normal("main", 0, 1.5, shape=table.ndim)
    beta = pm.Normal("beta", 0, 1.5, shape=X.shape[1] - table.ndim)
    return pm.Poisson.dist(pm.math.exp(level + X @ pm.math.concatenate([main, beta])).reshape(table.shape))


@dataclass(frozen=True)
class Problem:
    """A table, its release, and the model whose coefficients are of interest.

    Attributes
    ----------
    file : str
    sizes : dict of str to int
        Dimensions of the table.
    Number of persons in the simulated table, if there is no file.
        In the table that is simulated where there is no file.
    mechanism : Mechanism
    model : callable
        ``model(table)`` states the priors, with the coefficients as ``beta``, and returns the distribution of the
        counts. It depends only on public sums of the table.
    released, coefficients : str
        Descriptions of noise and exact sums, and of the coefficients.
    walks : bool
        True if public sums cross, so that the table is a variable of the model.
    """

    file: str
    sizes: dict[str, int]
    persons: int
    mechanism: ppd.mechanisms.Mechanism
    model: Callable[[xr.DataArray], object]
    released: str
    coefficients: str
    walks: bool = False

    def names(self, table):
        """Name the coefficients."""
        if self.model is logistic:
            return [f"department {name}" for name in table.dept.values]
        return [f"{one} and {other}" for one, other in combinations(table.dims, 2)]


TRAITS = (
    "EconActive", "Age", "HusbandEmployed", "Child", "Education", "HusbandEducation", "Asian", "HouseholdWorking",
)  # fmt: skip
PROBLEMS = {
    "admissions": Problem(
        "ucb_admissions.csv", {"gender": 2, "dept": 6, "admit": 2}, 4526,
        ppd.GeneralizedLaplace(margin("gender", "dept"), epsilon="1/20"), logistic,
        "double geometric noise, epsilon 1/20, applicants by department and gender exact",
        "log odds ratio of admission, men against women",
    ),
    "autoworkers": Problem(
        "czech_autoworkers_2_6.csv", dict.fromkeys(("smoke", "mental", "phys", "systol", "protein", "family"), 2), 1841,
        ppd.GeneralizedGaussian(margin("smoke") & margin("mental"), rho="1/32"), loglinear,
        "discrete Gaussian noise, rho 1/32, smokers and workers with strenuous mental work exact", "log odds ratio",
        walks=True,
    ),
    "rochdale": Problem(
        "rochdale.csv", dict.fromkeys(TRAITS, 2), 665,
        ppd.GeneralizedLaplace(margin("EconActive", "HusbandEmployed"), epsilon=1), loglinear,
        "double geometric noise, epsilon 1, households by work of wife and of husband exact", "log odds ratio",
    ),
}  # fmt: skip


def read(problem, folder):
    """Read a table, or simulate one of its shape: random main effects, and a pair with log odds ratio 1."""
    if folder:
        rows = pd.read_csv(Path(folder, problem.file), keep_default_na=False)
        return rows.set_index(list(problem.sizes))["count"].to_xarray().astype(np.int64)
    rng = np.random.default_rng(3)
    sizes = problem.sizes.values()
    effects, codes = (
        np.ix_(*parts) for parts in ([rng.normal(0, 0.3, n) for n in sizes], [np.arange(n) for n in sizes])
    )
    log_mean = sum(effects) + codes[0] * codes[-1]
    mean = problem.persons * np.exp(log_mean) / np.exp(log_mean).sum()
    labels = {dim: [f"{dim} {k}" for k in range(size)] for dim, size in problem.sizes.items()}
    return xr.DataArray(rng.poisson(mean), dims=list(problem.sizes), coords=labels)


def fit(problem, data, draws, seed):
    """Draw the coefficients, given a release, or counts treated as true: shape (chains, draws, coefficients)."""
    options = {"nuts_sampler": "pymc"}
    with warnings.catch_warnings(), pm.Model() as model:
        warnings.simplefilter("ignore")  # of short chains: the largest R-hat of all is a claim
        if isinstance(data, ppd.Release):
            ppd.PartiallyPrivate("counts", problem.model(data.table), release=data)
            if problem.walks:
                options = {"step": dense_steps()}
        else:
            model.register_rv(problem.model(data), "counts", observed=data.values)
        found = pm.sample(
            draws, tune=draws, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True, **options
        )
    return found.posterior["beta"].values


def summary(beta, confidential):
    """Return mean, interval, its confidential posterior probability, and R-hat of each coefficient: (5, ...)."""
    low, high = np.quantile(beta, TAILS, axis=(0, 1))
    held = ((low <= confidential) & (confidential <= high)).mean(axis=(0, 1))
    return np.stack([beta.mean(axis=(0, 1)), low, high, held, [az.rhat(own) for own in np.moveaxis(beta, 2, 0)]])


def replicate(problem, table, confidential, draws, rng):
    """Release once, and analyse the release in two ways: a `summary` each."""
    noisy = problem.mechanism.simulate(table, draws=1, rng=rng)[0]
    most = noisy.sum("admit") if problem.model is logistic else None
    readings = {"aware": ppd.Release(noisy, problem.mechanism), "naive": noisy.clip(0, most)}
    return {
        name: summary(fit(problem, data, draws, int(rng.integers(2**31))), confidential)
        for name, data in readings.items()
    }


def compared(found, exact):
    """Tabulate the estimates of the coefficients, relative to those of the confidential table."""
    rows = {}
    for name in ("aware", "naive"):
        mean, low, high, held, rhat = np.array([each[name] for each in found]).swapaxes(0, 1)
        rows[name] = {
            "held": held.mean(),
            "standard error": Estimate.of(np.mean, held).error,
            "rmse": np.sqrt(((mean - exact[0]) ** 2).mean()),
            "slope": (mean @ exact[0]).mean() / (exact[0] @ exact[0]),
            "width": ((high - low) / (exact[2] - exact[1])).mean(),
            "largest R-hat": rhat.max(),
        }
    return pd.DataFrame(rows).T.rename_axis("reading")


def forest(study, name, problem, labels, parts):
    """Draw intervals of all coefficients: from the confidential table, and from one release by both analyses."""
    figure, axes = plt.subplots(figsize=(7.5, 0.3 * len(labels) + 1.5), layout="constrained")
    rank = np.argsort(parts["confidential"][0])
    for row, (reading, (label, color, mark)) in enumerate(READINGS.items()):
        mean, low, high = parts[reading][:3, rank]
        at = np.arange(len(labels)) + 0.25 * (1 - row)
        axes.errorbar(mean, at, xerr=[mean - low, high - mean], fmt=mark, ms=3.5, color=color, lw=1.1, label=label)
    axes.axvline(0, color="#888888", lw=0.7, zorder=0)
    axes.set_yticks(range(len(labels)), [labels[k] for k in rank], fontsize=8)
    axes.set(xlabel=f"{problem.coefficients}; mean and 90 % interval", ylim=(-0.7, len(labels) - 0.3))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, ncols=3, loc="outside upper center")
    study.figure(name, figure, f"One release of {name}: {problem.released}.")
    plt.close(figure)


def main(output, *, quick=False, data=None, seed=1, workers=None):
    """Fit all tables and their releases; write page, tables and figures to a folder."""
    folder = public_folder() if data is None else Path(data)
    study = Study(
        "Log-linear models from noisy tables",
        output,
        about="Coefficients of logistic and log-linear models, from confidential tables and from releases of them, "
        "with the noise in the model and with noisy counts taken as true.",
        settings={"quick": quick, "seed": seed, "real": folder is not None},
    )
    number, draws = (1, 200) if quick else (8, 500)
    rows = {}
    for name in [*PROBLEMS][: 2 if quick else None]:
        problem = PROBLEMS[name]
        table = read(problem, folder)
        (confidential,) = study.replicates(
            lambda rng, _, problem=problem, table=table: fit(problem, table, 4 * draws, int(rng.integers(2**31))),
            1,
            name=f"{name} confidential",
            progress=True,
        )
        exact = summary(confidential, confidential)
        found = study.replicates(
            lambda rng, _, problem=problem, table=table, confidential=confidential: replicate(
                problem, table, confidential, draws, rng
            ),
            number,
            name=name,
            workers=workers,
            progress=True,
        )
        forest(study, name, problem, problem.names(table), {"confidential": exact, **found[0]})
        rows[name] = compared(found, exact)
        enter(study, name, rows[name], found, exact[0])
    study.table("coefficients", pd.concat(rows, names=["table"]), f"{number} releases of each table. {COLUMNS}")
    study.write()


COLUMNS = (
    "Held: confidential posterior mass in 90 % intervals. Rmse: of means about the confidential ones. Slope: of means "
    "on the confidential ones. Width: of intervals, in widths of the confidential ones."
)


def enter(study, name, table, found, exact):
    """Enter the claims about one table: `table` from `compared`, and the replicates."""
    (aware_mean, aware_held), (naive_mean, naive_held) = (
        [np.array([each[way][row] for each in found]) for row in (0, 3)] for way in ("aware", "naive")
    )
    aware, naive = (Estimate.of(np.mean, held) for held in (aware_held, naive_held))
    error = lambda mean: np.sqrt(((mean - exact) ** 2).mean())  # noqa: E731
    ours, theirs = (Estimate.of(error, mean) for mean in (aware_mean, naive_mean))
    study.claim(
        f"{name}: 90 % intervals have 90 % of the confidential posterior with the noise in the model",
        "here",
        f"{LEVEL:.0%} +- 5 %",
        f"{aware:.1%}; with noisy counts taken as true {naive:.1%}",
        holds=aware.within(LEVEL - 0.05, LEVEL + 0.05),
        reason="this holds for tables drawn from the prior; for one table, the result depends on few noisy intervals",
    )
    study.claim(
        f"{name}: intervals with counts treated as true have less",
        "here",
        f"less than {float(aware):.1%}",
        f"{naive:.1%}",
        holds=(aware - naive).above(0),
    )
    study.claim(
        f"{name}: means are closer to those of the confidential table",
        "here",
        "smaller root mean squared error",
        f"{ours:.2f} against {theirs:.2f}",
        holds=(theirs - ours).above(0),
    )
    worst = table["largest R-hat"].max()
    study.claim(
        f"{name}: chains agree",
        "here",
        "R-hat at most 1.05",
        f"{worst:.3f}",
        holds=if_enough(not study.settings["quick"], worst < 1.05),
        reason="short chains",
    )
