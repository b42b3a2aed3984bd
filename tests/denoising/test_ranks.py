"""Calibration of the learned prior: ranks of prior parameters and tables among posterior draws are uniform."""

import numpy as np
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.denoising import learned_prior

inv, laws = ppd.invariants, ppd.laws
SHAPE = (3, 5)


def data_set(rng):
    """Draw parameters, a table, and noisy sums of it: cells and one margin, which overlaps the other margin or not."""
    level = rng.normal(0, learned_prior.LEVEL)
    spreads = abs(rng.normal(0, learned_prior.SPREAD, 2))
    effects = [rng.normal(0, spread, n) for spread, n in zip(spreads, SHAPE, strict=True)]
    shape = np.exp(rng.normal(*learned_prior.SHAPE))
    mean = np.exp(level + effects[0][:, None] + effects[1])
    return level, shape, rng.poisson(rng.gamma(shape, mean / shape))


def ranks(seed, *, overlapping, variance):
    rng = np.random.default_rng(seed)
    level, shape, table = data_set(rng)
    noise = laws.DiscreteGaussian(variance=4)

    def noisy(sums):
        return sums + np.rint(rng.normal(0, 2, sums.shape)).astype(int)

    stated = laws.DiscreteGaussian(variance=variance)
    parts = [ppd.measured(inv.margin("a"), noisy(table.sum(1)), noise)]
    parts += [ppd.measured(inv.margin("b"), noisy(table.sum(0)), noise)] if overlapping else []
    parts += [ppd.measured(inv.margin("a", "b"), noisy(table), stated)]
    seen = ppd.Measurements(
        {"a": range(SHAPE[0]), "b": range(SHAPE[1])}, *parts, public={inv.total(): int(table.sum())}
    )
    posterior = ppd.denoise(seen, draws=100, tune=50, chains=1, rng=seed, progressbar=False)
    tables = posterior.draws.values[0].reshape(100, -1)[::5]

    def far(tables):
        """Return squared differences of cells from their measurements, which depend on the scale of the noise."""
        return ((tables - parts[-1].values.ravel()) ** 2).sum(axis=-1) + rng.uniform(-0.5, 0.5, tables.shape[:-1])

    truth = [level, shape, table.ravel()[0] + rng.uniform(-0.5, 0.5), far(table.ravel())]
    draws = [
        posterior.parameters["level"][0][::5],
        posterior.parameters["shape"][0][::5],
        tables[:, 0] + rng.uniform(-0.5, 0.5, 20),
        far(tables),
    ]
    return [int((own < true).sum()) for own, true in zip(draws, truth, strict=True)]


def p_values(found):
    """Return the chi-square statistic of the ranks of each quantity, 21 ranks in bins of three."""
    counts = [np.bincount(np.array(column) // 3, minlength=7) for column in zip(*found, strict=True)]
    return [float(stats.chisquare(own).pvalue) for own in counts]


@pytest.mark.deep
@pytest.mark.parametrize("overlapping", [False, True], ids=["nested", "overlapping"])
def test_ranks_are_uniform(overlapping, monkeypatch):
    """Four quantities, p above 1e-4 each; draws 20 apart are still dependent.

    200 data sets, or 120 for the Gibbs sampler, which takes three times as long with the same parameter moves.
    """
    monkeypatch.setattr(learned_prior, "LEVEL", 1.0)
    monkeypatch.setattr(learned_prior, "SPREAD", 0.5)
    monkeypatch.setattr(learned_prior, "SHAPE", (0.0, 0.5))
    assert (
        min(p_values([ranks(seed, overlapping=overlapping, variance=4) for seed in range(120 if overlapping else 200)]))
        > 1e-4
    )


@pytest.mark.deep
def test_noise_stated_a_quarter_as_wide_is_detected(monkeypatch):
    """A few data sets suffice, since cells are too close to their measurements: p below 1e-20."""
    monkeypatch.setattr(learned_prior, "LEVEL", 1.0)
    monkeypatch.setattr(learned_prior, "SPREAD", 0.5)
    monkeypatch.setattr(learned_prior, "SHAPE", (0.0, 0.5))
    assert min(p_values([ranks(seed, overlapping=False, variance=0.25) for seed in range(20)])) < 1e-4
