"""Errors of log densities and derivatives of marginalized models, against sums over all integers in 40 digits.

Run with ``python benchmarks/accuracy.py [row ...]``. Each row is a model at 200 draws of its posterior (20 for 67
areas) and at a quarter as many far points, 4 to 15 posterior standard deviations from the mean. The table shows the
largest errors of the log density, of its derivative in a random direction, and of its derivative by the logarithm of
the shape (without a shape: by the last coefficient). Errors of derivatives that exceed 1 in size are relative.

Exact numbers are balls (Arb): weights of counts follow from their ratios, and sums over tables are coefficients of
products of polynomials. The coefficients of a model are the log rate (or log odds), a slope, the logarithm of the
shape, and the log odds of dependents or of inflation, as far as it has them.
"""

import sys
from typing import NamedTuple

import numpy as np
import pymc as pm
from flint import arb, arb_poly, ctx

import ppdinf as ppd

DRAWS, THIN, SEED = 200, 10, 1
BITS, STEP = 240, 64  # digits of numbers, and of the step of differences
REACH = 140  # noise beyond so many times its scale is below 1e-60
inv = ppd.invariants
PUBLIC = {0: inv.nonnegative, 1: inv.total, 3: lambda: inv.groups("side")}


class Counts(NamedTuple):
    """Counts of areas with noise of ``1 / inverse`` under some totals."""

    family: str
    shape: float | None
    inverse: int
    totals: int = 1
    extra: str = ""
    areas: int = 20
    typical: int = 60


MODELS = [
    Counts("negative binomial", 0.3, 10, areas=67, typical=200),
    Counts("negative binomial", 0.5, 10, 0),
    Counts("negative binomial", 0.5, 100),
    Counts("negative binomial", 1.0, 10, 3),
    Counts("negative binomial", 5.0, 100, areas=24, typical=250),
    Counts("negative binomial", 2.0, 10, 1, "binomial dependents"),
    Counts("negative binomial", 2.0, 10, 1, "zero-inflated"),
    Counts("negative binomial", 2.0, 10, 1, "truncated at 1"),
    Counts("beta-binomial", 5.0, 10),
    Counts("binomial", None, 10, 3, "binomial dependents"),
    Counts("Poisson", None, 100),
    Counts("Poisson", None, 10, 3),
]


class ExactDensity:
    """A simulated release, its PyMC model, and the density of the coefficients."""

    def __init__(self, counts: Counts, seed: int = 1) -> None:
        self.counts, rng, d = counts, np.random.default_rng(seed), counts.areas
        self.x, self.size = np.linspace(-1, 1, d), np.exp(rng.normal(0, 0.5, d))
        self.persons = np.ceil(5 * counts.typical * self.size).astype(int)
        self.mean = [-1.5 if counts.family in ("binomial", "beta-binomial") else np.log(counts.typical), 0.3]
        self.mean += [np.log(counts.shape)] if counts.shape else []
        self.mean += {"binomial dependents": [-2.0], "zero-inflated": [1.5]}.get(counts.extra, [])
        true = pm.draw(self._distribution(np.array(self.mean)), random_seed=rng, mode="FAST_COMPILE")
        self.died, self.block = rng.binomial(true, 0.12), np.arange(d) % max(counts.totals, 1)
        table = ppd.as_table(true, dims=["area"]).assign_coords(side=("area", self.block))
        mechanism = ppd.GeneralizedLaplace(PUBLIC[counts.totals](), epsilon=f"1/{counts.inverse}")
        noisy = mechanism.simulate(table, draws=1, rng=seed).squeeze("draw", drop=True)
        self.released = [int(y) for y in noisy.values]
        ctx.prec = BITS
        fall, self.noise = (-1 / arb(counts.inverse)).exp(), [arb(1)]
        while len(self.noise) <= max(self.released) + REACH * counts.inverse:
            self.noise.append(self.noise[-1] * fall)
        with pm.Model() as self.model:
            theta = pm.Normal("theta", self.mean, 1, shape=len(self.mean))
            x = ppd.PartiallyPrivate("x", self._distribution(theta), release=ppd.Release(noisy, mechanism))
            if counts.extra == "binomial dependents":
                pm.Binomial("died", n=x, p=pm.math.invlogit(theta[-1]), observed=self.died)

    def _distribution(self, theta):
        family, extra, level = self.counts.family, self.counts.extra, theta[0] + theta[1] * self.x
        mu, p = self.size * pm.math.exp(level), pm.math.invlogit(level)
        shape = pm.math.exp(theta[2]) if self.counts.shape else None
        if extra == "zero-inflated":
            return pm.ZeroInflatedNegativeBinomial.dist(psi=pm.math.invlogit(theta[3]), mu=mu, alpha=shape)
        counts = {
            "negative binomial": lambda: pm.NegativeBinomial.dist(mu=mu, alpha=shape),
            "beta-binomial": lambda: pm.BetaBinomial.dist(n=self.persons, alpha=shape * p, beta=shape * (1 - p)),
            "binomial": lambda: pm.Binomial.dist(n=self.persons, p=p),
            "Poisson": lambda: pm.Poisson.dist(mu),
        }[family]()
        return pm.Truncated.dist(counts, lower=1) if extra == "truncated at 1" else counts

    def _weights(self, i, theta, top):
        """Return probabilities of counts times noise, without the constant of the noise."""
        family, extra, y, v = self.counts.family, self.counts.extra, self.released[i], int(self.died[i])
        odds, n = (theta[0] + theta[1] * float(self.x[i])).exp(), int(self.persons[i])
        mu, shape = odds * float(self.size[i]), theta[2].exp() if self.counts.shape else None
        if family == "negative binomial":
            p, first, ratio = mu / (mu + shape), (shape / (mu + shape)) ** shape, lambda k: p * (shape + k)
        elif family == "Poisson":
            first, ratio = (-mu).exp(), lambda k: mu
        elif family == "binomial":
            first, ratio = (1 + odds) ** -n, lambda k: odds * (n - k)
        else:
            a, b = shape * odds / (1 + odds), shape / (1 + odds)
            first, ratio = b.rising(n) / (a + b).rising(n), lambda k: (n - k) * (a + k) / (b + (n - 1 - k))
        found, none = [first], 1 / (1 + theta[-1].exp())
        for k in range(top):
            found.append(found[-1] * ratio(k) / (k + 1))
        if extra == "zero-inflated":
            found = [none + (1 - none) * first, *((1 - none) * w for w in found[1:])]
        elif extra == "truncated at 1":
            found = [arb(0), *(w / (1 - first) for w in found[1:])]
        elif extra:
            of_v = [arb(0)] * v + [(1 - none) ** v]
            for k in range(v, top):
                of_v.append(of_v[-1] * none * (k + 1) / (k + 1 - v))
            found = [w * f for w, f in zip(found, of_v, strict=True)]
        return [w * self.noise[abs(y - k)] for k, w in enumerate(found)]

    def _log_density(self, theta):
        counts, value = self.counts, arb(0)
        square = (-2 / arb(counts.inverse)).exp()
        for t, mean in zip(theta, self.mean, strict=True):
            value -= (t - float(mean)) ** 2 / 2 + (2 * arb.pi()).log() / 2
        for b in range(max(counts.totals, 1)):
            members = [i for i in range(counts.areas) if self.block[i] == b]
            d, room = len(members), sum(self.released[i] for i in members)
            tops = [max(self.released[i], 0) + REACH * counts.inverse for i in members]
            if not counts.totals:
                value += sum(sum(self._weights(i, theta, top)).log() for i, top in zip(members, tops, strict=True))
                value -= d * ((1 + square.sqrt()) / (1 - square.sqrt())).log()
                continue
            sums = [arb_poly(self._weights(i, theta, min(top, room))) for i, top in zip(members, tops, strict=True)]
            while len(sums) > 1:
                products = [p * q for p, q in zip(sums[::2], sums[1::2], strict=False)]
                sums = [arb_poly(p.coeffs()[: room + 1]) for p in products] + sums[len(sums) // 2 * 2 :]
            # the generating function of the noise is a product of two series: (1 - q^2)^d (1 - qz)^-d (1 - q/z)^-d
            value += (sums[0][room] / square.hypgeom_2f1(d, d, 1)).log() - d * (1 - square).log()
        return value

    def at(self, theta, directions):
        """Return the log density and its derivatives in some directions, in more than 40 and 15 digits."""
        ctx.prec, theta = BITS, [arb(float(t)) for t in theta]
        value, step = self._log_density(theta), arb(2) ** -STEP
        moved = [[t + step * float(u) for t, u in zip(theta, along, strict=True)] for along in directions]
        slopes = [(self._log_density(point) - value) / step for point in moved]
        assert value.rel_accuracy_bits() > 133
        assert all(slope.rad() < 1e-15 for slope in slopes)
        return value, slopes


def posterior_draws(f, start, number, rng):
    """Draw by Metropolis updates whose proposals have the shape of the posterior; the first half is dropped."""
    d, at, step = start.size, start, 1e-4
    for _ in range(20):  # Newton's method, with steps of at most 1/2
        hessian = np.array([(f(at + step * e)[1] - f(at - step * e)[1]) / (2 * step) for e in np.eye(d)])
        value, vector = np.linalg.eigh(-(hessian + hessian.T) / 2)
        covariance = (vector / np.maximum(value, 0.5)) @ vector.T
        at = at + np.clip(covariance @ f(at)[1], -0.5, 0.5)
    root, found, density = 2.4 / np.sqrt(d) * np.linalg.cholesky(covariance), [], f(at)[0]
    for _ in range(2 * number * THIN):
        to = at + root @ rng.standard_normal(d)
        there = f(to)[0]
        if np.log(rng.random()) < there - density:
            at, density = to, there
        found.append(at)
    return np.array(found)[-number * THIN :: THIN]


def largest_errors(exact, f, points, rng):
    """Return the largest errors of density, derivative in a direction, and derivative by the last coefficient."""
    errors = []
    for point in points:
        directions = [rng.standard_normal(point.size), np.eye(point.size)[2 if exact.counts.shape else -1]]
        value, slopes = exact.at(point, directions)
        found, gradient = f(point)
        # differences are computed in balls, so that exact numbers are not rounded
        off = [
            abs(float(float(gradient @ u) - s)) / max(1, abs(float(s))) for u, s in zip(directions, slopes, strict=True)
        ]
        errors.append([abs(float(float(found) - value)), *off])
    return np.max(errors, axis=0)


def main():
    print("| model | totals | ε | density | derivative | by shape | density, far | derivative, far | by shape, far |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in map(int, sys.argv[1:] or range(len(MODELS))):
        counts, rng = MODELS[row], np.random.default_rng(SEED)
        exact, number = ExactDensity(counts), DRAWS // (10 if counts.areas > 60 else 1)
        f = exact.model.logp_dlogp_function(ravel_inputs=True)
        draws = posterior_draws(f, np.array(exact.mean), number, rng)
        away = rng.standard_normal((number // 4, len(exact.mean)))
        away *= rng.uniform(4, 15, (len(away), 1)) / np.linalg.norm(away, axis=1, keepdims=True)
        far = draws.mean(axis=0) + away * draws.std(axis=0)
        shown = [f"{e:.0e}" for points in (draws, far) for e in largest_errors(exact, f, points, rng)]
        name = counts.family + (f", shape {counts.shape}" if counts.shape else "")
        name += (f", {counts.extra}" if counts.extra else "") + f", {counts.areas} areas"
        print("| " + " | ".join([name, str(counts.totals or "none"), f"1/{counts.inverse}", *shown]) + " |", flush=True)


if __name__ == "__main__":
    main()
