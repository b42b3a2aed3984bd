"""Tables and claims of the COVID study: agreement with the paper, and properties of the posteriors.

`run.py` in this folder calls them.
"""

import numpy as np
import pandas as pd
from scipy.stats import betabinom

from ppdinf.privacy import delta_z_counts

from .._shared.estimates import Estimate, every, if_enough
from .joint_sensitivity import stated

PAPER, LOSSES = "PPD 4", ("l2", "l1")
SIZES = ("small", "middle", "large")
QUANTITIES = ("cases", "deaths", "fatality")
NAMES = {"congenial": "congenial base measure (b)", "prior": "prior-congenial base measure (c)"}
METHODS = ("post-processed", "congenial", "prior")
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
    """Estimate shares of replicates whose cases, deaths or survivors are 0 where the confidential ones are not."""
    c, d = np.moveaxis(released, -1, 0)
    x, z = np.moveaxis(truth, -1, 0)
    effects = {"no cases": (c == 0, x > 0), "no deaths": (d == 0, z > 0), "no survivors": ((c == d) & (c > 0), x > z)}
    return {
        name: Estimate.share(hit[np.broadcast_to(possible, hit.shape)]) for name, (hit, possible) in effects.items()
    }


def effects(released, truth, population):
    """Tabulate shares of contracted counts of the most and the least populous county, with their errors."""
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


def enter(study, released, truth, population, effect, ends):
    """Enter the claims of section 4; `ends` are those of `prior_intervals`."""
    low, high = sorted({epsilon for epsilon, *_ in released})
    true = truth[:, np.newaxis, :, 0]

    def quantile(level, *key):
        """Estimate a quantile of the relative errors of cases."""
        return Estimate.of(lambda y: np.quantile(relative_errors(y[..., 0], true), level), released[key], axis=1)

    for norm in LOSSES:
        prior, post = (quantile(0.99, low, method, norm) for method in ("prior", "post-processed"))
        study.claim(
            f"the prior base measure has smaller largest errors than post-processing ({stated(low, norm)})",
            f"{PAPER}, figure 2",
            "smaller",
            f"99 % of relative errors are below {prior:,.0f} %, against {post:,.0f} %",
            holds=(post - prior).above(0),
        )
    for norm in LOSSES:
        methods = sorted({method for _, method, _ in released})
        medians = {method: quantile(0.5, high, method, norm) for method in methods}
        largest, least = (choose(medians.values(), key=float) for choose in (max, min))
        study.claim(
            f"all methods perform alike ({stated(high, norm)})",
            f"{PAPER}, figure 2",
            "comparably well",
            "median relative errors: " + ", ".join(f"{name} {value:.2g} %" for name, value in medians.items()),
            holds=(largest / least).below(2),
            reason="the prior weighs more than so little noise",
        )
    for norm in LOSSES:
        enter_conformity(
            study, {m: released[low, m, norm][..., 0] for m in METHODS}, truth[..., 0], ends, stated(low, norm)
        )
    smallest = int(population.argmin())
    for norm in LOSSES:
        own = {method: released[high, method, norm][:, :, smallest, 0] for method in METHODS}
        enter_smallest(study, own, truth[:, smallest, 0], stated(high, norm))
    for norm in LOSSES:
        post = effect.loc[(low, norm, "post-processed")]
        pairs = {name: (post.loc["least", name], post.loc["most", name]) for name in post}
        possible = [name for name, shares in pairs.items() if np.isfinite([float(share) for share in shares]).all()]
        pairs = {name: pairs[name] for name in possible}
        study.claim(
            "post-processing contracts counts of the least populous county more often than of the most "
            f"({stated(low, norm)})",
            f"{PAPER}, figure 3",
            "disproportionately",
            ", ".join(f"{name} {100 * float(a):.1f} % / {100 * float(b):.1f} %" for name, (a, b) in pairs.items()),
            holds=every(*((a - b).above(0) for a, b in pairs.values())),
            reason="a county left without cases has no survivors to lose: they are counted among those with cases",
        )
        least = effect.xs("least", level=3).loc[(low, norm)]
        found = {name: " / ".join(f"{100 * float(least.loc[m, name]):.1f}" for m in METHODS) for name in possible}
        study.claim(
            f"both congenial base measures temper this ({stated(low, norm)})",
            f"{PAPER}, figure 3",
            "tempered",
            ", ".join(f"{name} {text}" for name, text in found.items()) + f" % ({', '.join(METHODS)})",
            holds=every(
                *((least.loc[METHODS[0], n] - least.loc[m, n]).above(0) for n in possible for m in METHODS[1:])
            ),
        )
    kept = [agrees(tables, truth) for (_, method, _), tables in released.items() if method != "counting"]
    study.claim(
        "every release has the state's cases and cases >= deaths >= 0",
        PAPER,
        "public",
        f"{sum(kept)} of {len(kept)} sets of releases",
        holds=all(kept),
    )
    grown = [delta_z_counts(100, *z) for z in ((0.5, 0.5), (0.1, 0.9), (0, 1))]
    study.claim(
        "Delta_z of a count of 100 persons grows from 1 to 100 as they depend on each other",
        f"{PAPER}.4, figure 4",
        "1 to n",
        ", ".join(f"{value}" for value in grown),
        holds=grown[0] == 1 and grown[-1] == 100,
    )


def prior_intervals(totals, alphas):
    """Return 95 % intervals of the Dirichlet-multinomial prior by month, shape (2, months, counties)."""
    n, a = np.asarray(totals)[:, np.newaxis], np.asarray(alphas)
    return np.stack([betabinom.ppf(level, n, a, a.sum(axis=1, keepdims=True) - a) for level in (0.025, 0.975)])


def enter_conformity(study, released, cases, ends, noise):
    """Enter the claim of figure 1 on the prior: released cases (months, replicates, counties) within its intervals."""
    low, high = ends[:, :, np.newaxis]
    shares = {name: Estimate.share((low <= y) & (y <= high), axis=1) for name, y in released.items()}
    own = ((ends[0] <= cases) & (cases <= ends[1])).mean()
    study.claim(
        f"releases conform to the prior with the prior base measure, not with post-processing ({noise})",
        f"{PAPER}, figure 1",
        "conforming to the prior",
        "within 95 % intervals of the prior: "
        + ", ".join(f"{name} {100 * float(share):.0f} %" for name, share in shares.items())
        + f"; confidential counts {100 * own:.0f} %",
        holds=every(shares["prior"].above(0.9), *(shares[m].below(0.5) for m in METHODS if m != "prior")),
        reason="more noise in l2 leaves the prior alone; in l1 large counties still depend on the confidential count",
    )


def enter_smallest(study, released, cases, noise):
    """Enter the claim of figure 1 on one county: released cases (months, replicates) by method, and true ones."""
    errors = {
        method: Estimate.of(lambda y: np.abs(y - cases[:, np.newaxis]).mean(), y, axis=1)
        for method, y in released.items()
    }
    fewest = int(cases.argmin())
    low, high = np.quantile(released["congenial"][fewest], [0.25, 0.75], method="inverted_cdf")
    study.claim(
        f"releases of the least populous county concentrate around the confidential number ({noise})",
        f"{PAPER}, figure 1",
        "concentrated",
        f"mean errors at {cases.mean():.0f} cases a month: "
        + ", ".join(f"{method} {error:.1f}" for method, error in errors.items())
        + f"; {cases[fewest]} cases are released as {low} to {high} (congenial, middle half)",
        holds=every(*(error.below(cases.mean() / 2) for error in errors.values())),
        reason="in l2 only: the standard deviation of l2 noise in a count grows with the root of the number of counts",
    )


def thirds(population):
    """Label counties by population."""
    ranks = np.argsort(np.argsort(population))
    return np.array(SIZES)[ranks * 3 // len(ranks)]


def coverage(found, truth, which, *, some_months=False):
    """Tabulate coverage of the confidential number, bias, error and width of intervals, by analysis and county size.

    Entries are estimates with the errors of replicates, or of months if there is one replicate. The errors of coverage
    are also those of months if `some_months` stand for all. `found` maps (epsilon, analysis) to (months, replicates,
    counties, quantities, mean and ends); `truth` is (months, counties, 2).
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
                axis = 1 if estimates.shape[1] > 1 else 0
                rows[epsilon, name, size, quantity] = {
                    "coverage": Estimate.share(
                        (low <= true + slack) & (true <= high + slack), axis=0 if some_months else axis
                    ),
                    "bias": Estimate.of(np.mean, mean - true, axis=axis),
                    "rmse": Estimate.of(lambda error: np.sqrt((error**2).mean()), mean - true, axis=axis),
                    "width": Estimate.of(np.mean, high - low, axis=axis),
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
            held = every(*(share.within(0.92, 0.98) for share in ours))
            reason = WIDE if float(min(ours, key=float)) >= 0.92 else NARROW
            texts = [" ".join(f"{share:.3f}" for share in shares) for shares in (ours, naive)]
            study.claim(
                f"95 % intervals of {quantity}, given noisy table and total, hold the truth (epsilon {epsilon:g})",
                "here",
                "in 0.92 to 0.98 of small, middle and large counties",
                f"{texts[0]}; post-processed as true {texts[1]}",
                holds=held,
                reason=reason if held is False else "",
            )
        rmse = table.loc[epsilon, "rmse"]
        for quantity in QUANTITIES:
            ours, naive = (rmse.loc[name, "all", quantity] for name in ("conditioning", "naive"))
            study.claim(
                f"posterior means err less than post-processed counts in {quantity} (epsilon {epsilon:g})",
                "here",
                "-",
                f"root mean squared errors {ours:.3g} and {naive:.3g}",
                holds=(naive - ours).above(0),
            )
        ratios = [rmse.loc["conditioning", size, "cases"] / rmse.loc["no total", size, "cases"] for size in SIZES]
        study.claim(
            f"knowing the state's total lowers errors of county cases further (epsilon {epsilon:g})",
            "here",
            "-",
            "by factors of " + ", ".join(f"{ratio:.3f}" for ratio in ratios) + " in small, middle and large counties",
            holds=every(*(ratio.below(1) for ratio in ratios)),
            reason="the total assigns the joint errors of the prior of many small counties to the large ones",
        )


def enter_congenial(study, table, released, truth, effective, norm):
    """Enter claims on posteriors from releases of the congenial mechanisms, which have base measures (b) and (c)."""
    for epsilon, method in released:
        share = effective[epsilon, method]
        text = f"{NAMES[method]}, epsilon {epsilon:g}, {norm} loss"
        for q, quantity in enumerate(QUANTITIES[:2]):
            held = [table.loc[(epsilon, method, size, quantity), "coverage"] for size in SIZES]
            study.claim(
                f"95 % intervals of {quantity} given one release hold the truth ({text})",
                f"{PAPER}.2: the mechanism accommodates corrections",
                "in 0.92 to 0.98 of small, middle and large counties",
                " ".join(f"{one:.3f}" for one in held),
                holds=every(*(one.within(0.92, 0.98) for one in held)),
                reason="intervals are mostly those of the prior, which was fitted to other months",
            )
            own = table.loc[(epsilon, method, "all", quantity), "rmse"]
            error = (released[epsilon, method] - truth[:, np.newaxis])[..., q].astype(float)
            raw = Estimate.of(lambda e: np.sqrt((e**2).mean()), error, axis=1)
            study.claim(
                f"posterior means err less than the release in {quantity} ({text})",
                "here",
                "-",
                f"root mean squared errors {own:.3g} and {raw:.3g}; at least {100 * share:.0f} % effective draws",
                holds=(raw - own).above(0),
            )


def enter_panel(study, table, verdict, good, part):
    """Enter claims on the joint posterior of all months, from noisy tables only; `part` describes the tables."""
    (epsilon,) = table.index.levels[0]
    study.claim(
        f"the posterior of all months together, from noisy tables alone, passes its diagnosis ({part})",
        "here",
        "no problem found",
        verdict.splitlines()[0],
        holds=if_enough(not study.settings["quick"], good),
        reason="\n".join(verdict.splitlines()[1:]),
    )
    for quantity in QUANTITIES:
        held, errors = (
            {name: [table.loc[(epsilon, name, size, quantity), what] for size in SIZES] for name in ANALYSES}
            for what in ("coverage", "rmse")
        )
        study.claim(
            f"95 % intervals of {quantity} in the panel of all months hold the truth (epsilon {epsilon:g}, {part})",
            "here",
            "in 0.92 to 0.98 of small, middle and large counties",
            "; ".join(f"{name} " + " ".join(f"{share:.3f}" for share in held[name]) for name in ANALYSES),
            holds=every(*(share.within(0.92, 0.98) for share in held["panel"])),
            reason="one release of all months, whose counts are dependent",
        )
        study.claim(
            f"the panel errs less in {quantity} than post-processed counts, in counties of every size ({part})",
            "here",
            "-",
            "root mean squared errors: "
            + "; ".join(f"{name} " + " ".join(f"{error:.3g}" for error in errors[name]) for name in ANALYSES),
            holds=every(*((b - a).above(0) for a, b in zip(errors["panel"], errors["naive"], strict=True))),
            reason="if noise is far smaller than counts, post-processed counts cannot be improved",
        )
