"""Tables and claims of the COVID study: agreement with the paper, and properties of the posteriors.

`run.py` in this folder calls them.
"""

import numpy as np
import pandas as pd
from scipy.stats import hypergeom

from ppdinf.privacy import delta_z_counts, wasserstein_infinity

PAPER, LOSSES, DELTA_Z = "PPD 4", ("l2", "l1"), 2
SIZES = ("small", "middle", "large")
QUANTITIES = ("cases", "deaths", "fatality")
ANALYSES = ("panel", "month by month", "naive")  # of all months
WIDE = "too often: with little information, intervals are those of a prior fitted to months with larger changes"
NARROW = "too rarely: with little information, intervals are those of a prior fitted to months with smaller changes"


def relative_errors(released, truth):
    """List |released - true| / true in percent, of county-months with cases; counties are the last dimension."""
    errors = 100 * np.abs(released - truth) / np.maximum(truth, 1)
    return errors[np.broadcast_to(truth > 0, errors.shape)]


def quantiles(errors):
    """Tabulate quantiles of relative errors, by epsilon, loss and method."""
    rows = {
        (epsilon, norm, method): np.quantile(e, [0.5, 0.95, 0.99, 1]) for (epsilon, method, norm), e in errors.items()
    }
    table = pd.DataFrame.from_dict(
        rows, orient="index", columns=["median %", "95 % of them", "99 % of them", "largest"]
    )
    table.index = pd.MultiIndex.from_tuples(table.index, names=["epsilon", "loss", "method"])
    return table.sort_index()


def contracted(released, truth):
    """Return shares of replicates whose cases, deaths or survivors are 0 where the confidential ones are not."""
    c, d = np.moveaxis(released, -1, 0)
    x, z = np.moveaxis(truth, -1, 0)
    effects = {"no cases": (c == 0, x > 0), "no deaths": (d == 0, z > 0), "no survivors": ((c == d) & (c > 0), x > z)}
    return {
        name: hit[np.broadcast_to(possible, hit.shape)].mean() if possible.any() else np.nan
        for name, (hit, possible) in effects.items()
    }


def effects(released, truth, population):
    """Tabulate contracted counts of the most and the least populous county."""
    rows = {
        (epsilon, norm, method, county): contracted(tables[:, :, j], truth[:, np.newaxis, j])
        for (epsilon, method, norm), tables in released.items()
        for county, j in (("most", population.argmax()), ("least", population.argmin()))
    }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["epsilon", "loss", "method", "populous"])
    return table.sort_index()


def agrees(tables, truth):
    """Return whether all releases have the state's cases, and cases >= deaths >= 0."""
    c, d = tables[..., 0].astype(np.int64), tables[..., 1]
    total = c.sum(axis=2) == truth[..., 0].sum(axis=1)[:, np.newaxis]
    return bool(total.all() and (d >= 0).all() and (c >= d).all())


def nearest_laws(first=40, others=60, total=25):
    """Return distributions of the cases of two counties given the state's, by the status of one person of the first.

    Persons are cases independently, with a common probability.
    """
    return [
        {(case + k, total - case - k): hypergeom.pmf(k, first + others, first, total - case) for k in range(first + 1)}
        for case in (0, 1)
    ]


def enter(study, released, truth, quantile, effect, edges):
    """Enter the claims of section 4."""
    low, high = sorted({epsilon for epsilon, *_ in released})
    for norm in LOSSES:
        ours, theirs = (quantile.loc[(low, norm, method), "99 % of them"] for method in ("prior", "post-processed"))
        study.claim(
            f"at epsilon {low} the prior base measure has smaller largest errors than post-processing ({norm} loss)",
            f"{PAPER}, figure 2",
            "smaller",
            f"99 % of relative errors are below {ours:,.0f} %, against {theirs:,.0f} %",
            holds=ours < theirs,
        )
    for norm in LOSSES:
        medians = quantile.loc[(high, norm), "median %"]
        study.claim(
            f"at epsilon {high:g} all methods perform alike ({norm} loss)",
            f"{PAPER}, figure 2",
            "comparably well",
            "median relative errors: " + ", ".join(f"{name} {value:.2g} %" for name, value in medians.items()),
            holds=medians.max() < 2 * medians.min(),
            reason="the prior weighs more than so little noise",
        )
    for norm in LOSSES:
        post = effect.loc[(low, norm, "post-processed")]
        pairs = {name: (post.loc["least", name], post.loc["most", name]) for name in post}
        study.claim(
            f"post-processing contracts counts of the least populous county more often than of the most ({norm} loss)",
            f"{PAPER}, figure 3",
            "disproportionately",
            f"epsilon {low}: "
            + ", ".join(f"{name} {100 * a:.1f} % / {100 * b:.1f} %" for name, (a, b) in pairs.items()),
            holds=all(a > b for a, b in pairs.values()),
            reason="a county left without cases has no survivors to lose: they are counted among those with cases",
        )
        least = effect.xs("least", level=3).loc[(low, norm)]
        three = ["post-processed", "congenial", "prior"]
        found = {name: " / ".join(f"{100 * least.loc[m, name]:.1f}" for m in three) for name in least}
        study.claim(
            f"both congenial base measures temper this ({norm} loss)",
            f"{PAPER}, figure 3",
            "tempered",
            ", ".join(f"{name} {text}" for name, text in found.items()) + f" % ({', '.join(three)})",
            holds=bool((least.loc[three[1:]].max() < least.loc[three[0]]).all()),
        )
    kept = [agrees(tables, truth) for (_, method, _), tables in released.items() if method != "counting"]
    study.claim(
        "every release has the state's cases and cases >= deaths >= 0",
        PAPER,
        "public",
        f"{sum(kept)} of {len(kept)} sets of releases",
        holds=all(kept),
    )
    study.claim(
        "windows of l1 draws exclude no probability", "here", "0", f"at most {edges:.0e} at an end", holds=edges < 1e-12
    )
    ends = [delta_z_counts(100, *z) for z in ((0.5, 0.5), (0.1, 0.9), (0, 1))]
    study.claim(
        "Delta_z of a count of 100 persons grows from 1 to 100 as they depend on each other",
        f"{PAPER}.4, figure 4",
        "1 to n",
        ", ".join(f"{value}" for value in ends),
        holds=ends[0] == 1 and ends[-1] == 100,
    )
    apart = float(wasserstein_infinity(*nearest_laws(), norm="l1"))
    study.claim(
        "Delta_z = 2 (l1) is that of 'this person is a case' among independent persons, given the state's cases",
        f"{PAPER}.2, which leaves the model open",
        f"{DELTA_Z}",
        f"{apart:g}",
        holds=apart == DELTA_Z,
    )


def thirds(population):
    """Label counties by population."""
    ranks = np.argsort(np.argsort(population))
    return np.array(SIZES)[ranks * 3 // len(ranks)]


def coverage(found, truth, which):
    """Tabulate coverage of the confidential number, bias, error and width of intervals, by analysis and county size.

    `found` maps (epsilon, analysis) to (months, replicates, counties, quantities, mean and ends); `truth` is (months,
    counties, 2).
    """
    values = np.concatenate([truth, (truth[..., 1] / np.maximum(truth[..., 0], 1))[..., np.newaxis]], axis=-1)
    rows = {}
    for (epsilon, name), estimates in found.items():
        for size in (*SIZES, "all"):
            own = np.flatnonzero((which == size) | (size == "all"))
            for q, quantity in enumerate(QUANTITIES):
                true = values[:, np.newaxis, own, q]
                mean, low, high = np.moveaxis(estimates[:, :, own, q].astype(float), -1, 0)
                slack = 1e-6 * np.maximum(1, true)  # of single precision
                rows[epsilon, name, size, quantity] = {
                    "coverage": ((low <= true + slack) & (true <= high + slack)).mean(),
                    "bias": (mean - true).mean(),
                    "rmse": np.sqrt(((mean - true) ** 2).mean()),
                    "width": (high - low).mean(),
                }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["epsilon", "analysis", "counties", "quantity"])
    return table.sort_index()


def enter_posteriors(study, table):
    """Enter claims on the posteriors that the paper calls intractable."""
    for epsilon in table.index.levels[0]:
        for quantity in QUANTITIES:
            ours, naive = (
                [table.loc[(epsilon, name, size, quantity), "coverage"] for size in SIZES]
                for name in ("conditioning", "naive")
            )
            texts = [" ".join(f"{share:.3f}" for share in shares) for shares in (ours, naive)]
            study.claim(
                f"95 % intervals of {quantity}, given noisy table and total, hold the truth (epsilon {epsilon:g})",
                "here",
                "in 0.92 to 0.98 of small, middle and large counties",
                f"{texts[0]}; post-processed as true {texts[1]}",
                holds=min(ours) >= 0.92 and max(ours) <= 0.98,
                reason=WIDE if min(ours) >= 0.92 else NARROW,
            )
        rmse = table.loc[epsilon, "rmse"]
        for quantity in QUANTITIES:
            ours, naive = (rmse.loc[name, "all", quantity] for name in ("conditioning", "naive"))
            study.claim(
                f"posterior means err less than post-processed counts in {quantity} (epsilon {epsilon:g})",
                "here",
                "-",
                f"root mean squared errors {ours:.3g} and {naive:.3g}",
                holds=ours < naive,
            )
        ratios = [rmse.loc["conditioning", size, "cases"] / rmse.loc["no total", size, "cases"] for size in SIZES]
        study.claim(
            f"knowing the state's total lowers errors of county cases further (epsilon {epsilon:g})",
            "here",
            "-",
            "by factors of " + ", ".join(f"{ratio:.3f}" for ratio in ratios) + " in small, middle and large counties",
            holds=max(ratios) < 1,
            reason="the total assigns the joint errors of the prior of many small counties to the large ones",
        )


def enter_panel(study, table, verdict, good):
    """Enter claims on the joint posterior of all months, from noisy tables only."""
    (epsilon,) = table.index.levels[0]
    study.claim(
        "the posterior of all months together, from noisy tables alone, passes its diagnosis",
        "here",
        "no problem found",
        verdict.splitlines()[0],
        holds=good,
        reason="\n".join(verdict.splitlines()[1:]),
    )
    for quantity in QUANTITIES:
        held, errors = (
            {name: [table.loc[(epsilon, name, size, quantity), what] for size in SIZES] for name in ANALYSES}
            for what in ("coverage", "rmse")
        )
        study.claim(
            f"95 % intervals of {quantity} in the panel of all months hold the truth (epsilon {epsilon:g})",
            "here",
            "in 0.92 to 0.98 of small, middle and large counties",
            "; ".join(f"{name} " + " ".join(f"{share:.3f}" for share in held[name]) for name in ANALYSES),
            holds=min(held["panel"]) >= 0.92 and max(held["panel"]) <= 0.98,
            reason="one release of all months, whose counts are dependent",
        )
        study.claim(
            f"the panel errs less in {quantity} than post-processed counts, in counties of every size",
            "here",
            "-",
            "root mean squared errors: "
            + "; ".join(f"{name} " + " ".join(f"{error:.3g}" for error in errors[name]) for name in ANALYSES),
            holds=all(a < b for a, b in zip(errors["panel"], errors["naive"], strict=True)),
            reason="if noise is far smaller than counts, post-processed counts cannot be improved",
        )
