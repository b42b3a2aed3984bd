"""Random small tables with sums under one kind of law, and weights by listing tables; laws are only statements."""

import math
from dataclasses import dataclass

import numpy as np
from grids import box
from scipy import special

import ppdinf as ppd
from ppdinf.denoising.count_windows import published_windows
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.invariants import linear

laws = ppd.laws
LARGEST = 5
FAR = np.arange(-400, 401)
IMPOSSIBLE = -1e9


@dataclass
class Kind:
    """A law, a wrong variant, the log probability of a value given the sum, and a value given the sum."""

    law: object
    wrong: object
    log_p: object
    value: object
    wrong_value: object = staticmethod(lambda value: value)


def log(p):
    return math.log(p) if p > 0 else -math.inf


def interval(rng):
    """Texts of ranges; the wrong variant moves one end by one."""

    def value(s, rng):
        low, high = s - int(rng.integers(3)), s + int(rng.integers(3))
        return rng.choice([f"{low}-{high}", f"<{high + 1}", f">={low}", f"{s}", f"≤{high}"])

    def ends(text):
        if text[0] in "<≤":
            return -math.inf, int(text[1:]) - (text[0] == "<")
        if text[0] == ">":
            return int(text[2:]), math.inf
        low, _, high = text[1:].partition("-")
        return int(text[0] + low), int(high or text)

    def wrong(text):
        low, high = ends(text)
        return f">={low + 1}" if math.isinf(high) else f"<={high - 1}"

    return Kind(laws.Interval(), laws.Interval(), lambda y, s: log(ends(y)[0] <= s <= ends(y)[1]), value, wrong)


def nearest(s, base, ties):
    below = s // base * base
    if 2 * (s - below) == base:
        return below + base * (ties == "up" or (ties == "even" and below // base % 2 == 1))
    return below + base * (2 * (s - below) > base)


def rounded(rng):
    base, ties = int(rng.choice([2, 3, 4, 5])), str(rng.choice(["up", "down", "even"]))
    other = laws.Rounded(base, "down" if ties == "up" or base % 2 else "up")
    return Kind(
        laws.Rounded(base, ties=ties), other, lambda y, s: log(nearest(s, base, ties) == y),
        lambda s, rng: nearest(s, base, ties),
    )  # fmt: skip


def one_sided(rng):
    base, up = int(rng.choice([2, 3, 5])), bool(rng.random() < 0.5)

    def value(s, rng=None):
        return -(-s // base) * base if up else s // base * base

    directions = ("up", "down") if up else ("down", "up")
    return Kind(*(laws.Rounded(base, way) for way in directions), lambda y, s: log(value(s) == y), value)


def suppressed_after_rounding(rng):
    base, threshold = int(rng.choice([3, 5])), int(rng.choice([3, 5, 6]))

    def value(s, rng=None):
        y = nearest(s, base, "up")
        return y if y >= threshold else None

    law = laws.Rounded(base)
    cut, wrong = laws.Thresholded(law, threshold), laws.Thresholded(law, threshold - base)
    return Kind(cut, wrong, lambda y, s: log(value(s) == y), value)


def suppressed_random_rounding(rng):
    base, threshold = 3, int(rng.choice([3, 4, 6]))

    def p(y, s):
        return max(1 - abs(y - s) / base, 0) * (y % base == 0)

    def log_p(y, s):
        return log(sum(p(z, s) for z in range(-base, threshold)) if y is None else p(y, s))

    def value(s, rng):
        y = s // base * base + base * int(rng.random() < s % base / base)
        return y if y >= threshold else None

    law = laws.RandomRounding(base)
    return Kind(laws.Thresholded(law, threshold), laws.Thresholded(law, threshold + base), log_p, value)


def suppressed_matrix(rng):
    p = rng.dirichlet(np.ones(30), size=30)
    threshold = int(rng.integers(2, 8))

    def log_p(y, s):
        return log(p[s, :threshold].sum() if y is None else p[s, y]) if 0 <= s < 30 else -math.inf

    def value(s, rng):
        y = int(rng.integers(14))
        return y if y >= threshold else None

    law = laws.TransitionMatrix(p)
    return Kind(laws.Thresholded(law, threshold), laws.Thresholded(law, threshold + 1), log_p, value)


def clipped(rng):
    at, gaussian = int(rng.choice([0, 2])), bool(rng.random() < 0.5)
    noise = laws.DiscreteGaussian(variance=2) if gaussian else laws.DoubleGeometric("1/2")
    weights = np.exp(-(FAR**2) / 4 if gaussian else -abs(FAR) / 2)
    weights /= weights.sum()

    def log_p(y, s):
        return log(weights[s + FAR <= at].sum() if y == at else weights[s + FAR == y].sum())

    def value(s, rng):
        return max(at, s + int(rng.integers(-3, 3)))

    return Kind(laws.Clipped(noise, at), noise, log_p, value)


def additive(rng):
    first, p = int(rng.integers(-4, 2)), rng.dirichlet(np.full(5, 0.7))
    p[int(rng.integers(1, 4))] = 0  # a hole
    p /= p.sum()
    pmf = {first + k: q for k, q in enumerate(p)}

    def value(s, rng):
        return s + int(rng.choice(list(pmf), p=p))

    mirrored = laws.AdditiveNoise({-z: q for z, q in pmf.items()})
    return Kind(laws.AdditiveNoise(pmf), mirrored, lambda y, s: log(pmf.get(y - s, 0)), value)


def clipped_additive(rng):
    kind = additive(rng)
    at = int(rng.integers(0, 3))

    def log_p(y, s):
        return log(sum(math.exp(kind.log_p(z, s)) for z in range(s - 9, at + 1))) if y == at else kind.log_p(y, s)

    return Kind(
        laws.Clipped(kind.law, at), kind.wrong, log_p, lambda s, rng: max(at, kind.value(s, rng))
    )  # fmt: skip


def banded(rng):
    """Zeros stay zeros; the wrong variant moves the last band by one count."""
    starts = [0, 1, 2 + int(rng.integers(3))]
    pmfs = [{0: 1.0}, *(dict(zip((-1, 0, 2), rng.dirichlet(np.ones(3)), strict=True)) for _ in range(2))]

    def pmf(s):
        return pmfs[np.searchsorted(starts, s, side="right") - 1]

    def value(s, rng):
        return s + int(rng.choice(list(pmf(s)), p=list(pmf(s).values())))

    wrong = laws.BandedNoise(dict(zip([0, 1, starts[2] + 1], pmfs, strict=True)))
    return Kind(
        laws.BandedNoise(dict(zip(starts, pmfs, strict=True))), wrong, lambda y, s: log(pmf(s).get(y - s, 0)), value
    )


def suppressed_banded(rng):
    kind, threshold = banded(rng), int(rng.integers(1, 6))

    def log_p(y, s):
        return log(sum(math.exp(kind.log_p(z, s)) for z in range(threshold))) if y is None else kind.log_p(y, s)

    def value(s, rng):
        y = kind.value(s, rng)
        return y if y >= threshold else None

    return Kind(laws.Thresholded(kind.law, threshold), laws.Thresholded(kind.wrong, threshold), log_p, value)


def gaussian(rng):
    sd = float(rng.choice([0.3, 1.0, 2.5]))
    return Kind(
        laws.Gaussian(sd), laws.Gaussian(1.1 * sd), lambda y, s: -0.5 * ((y - s) / sd) ** 2,
        lambda s, rng: s + float(rng.normal(0, sd)) + int(rng.integers(-1, 2)),
    )  # fmt: skip


def laplace(rng):
    scale = float(rng.choice([0.3, 1.0, 2.5]))
    return Kind(
        laws.Laplace(scale), laws.Laplace(1.1 * scale), lambda y, s: -abs(y - s) / scale,
        lambda s, rng: s + float(rng.laplace(0, scale)) + int(rng.integers(-1, 2)),
    )  # fmt: skip


def clipped_real(rng):
    is_gaussian = rng.random() < 0.5
    law = laws.Gaussian(1.5) if is_gaussian else laws.Laplace(1.5)

    def log_p(y, s):
        z = (at - s if y == at else y - s) / 1.5
        if y == at:
            return special.log_ndtr(z) if is_gaussian else log(math.exp(z) / 2 if z < 0 else 1 - math.exp(-z) / 2)
        return -0.5 * z * z - math.log(1.5 * math.sqrt(2 * math.pi)) if is_gaussian else -abs(z) - math.log(3)

    at = int(rng.integers(1, 4))
    return Kind(laws.Clipped(law, at), law, log_p, lambda s, rng: max(at, s - 1 + float(rng.normal(0, 1.5))))


def randomized_response(rng):
    """The sums of Bernoulli variables by convolution; the wrong variant has the answers exchanged."""
    n, keep, flip = 24, *rng.uniform(0, 1, 2)

    def distribution(s):
        p = np.ones(1)
        for k in range(n):
            q = keep if k < s else flip
            p = np.convolve(p, [1 - q, q])
        return p

    rows = [distribution(s) for s in range(n + 1)]

    def log_p(y, s):
        return log(rows[s][y]) if 0 <= s <= n else -math.inf

    law, wrong = laws.RandomizedResponse(n, keep, flip), laws.RandomizedResponse(n, flip, keep)
    return Kind(law, wrong, log_p, lambda s, rng: int(rng.choice(n + 1, p=rows[s])))


def sampled(rng):
    """Binomial probabilities; half of the weights are not integers, and their estimates are rounded."""
    w = float(rng.choice([1.5, 2.0, 3.0, 3.7]))

    def log_p(y, s):
        n = round(y / w)
        return log(math.comb(s, n) * (1 / w) ** n * (1 - 1 / w) ** (s - n)) if s >= n else -math.inf

    def value(s, rng):
        return round(w * rng.binomial(s, 1 / w))

    return Kind(laws.Sampled(w), laws.Sampled(1.2 * w), log_p, value)


KINDS = {
    kind.__name__: kind
    for kind in (
        interval, rounded, one_sided, suppressed_after_rounding, suppressed_random_rounding, suppressed_matrix, clipped,
        gaussian, laplace, clipped_real, additive, clipped_additive, banded, suppressed_banded, randomized_response,
        sampled,
    )
}  # fmt: skip


class Problem:
    """Cells with counts of at most `LARGEST`, and everything published about their sums."""

    def __init__(self, kind, seed, *, nested):
        rng = np.random.default_rng(seed)
        self.kind, self.nested, self.d = KINDS[kind](rng), nested, int(rng.integers(2, 4))
        truth = rng.integers(0, LARGEST + 1, self.d)
        self.tables = box(0, LARGEST, self.d)
        self.rows = np.vstack([np.eye(self.d, dtype=np.int64), self._sums(rng)])
        chosen = rng.random(len(self.rows)) < 0.7
        chosen[-1] = True
        self.rows = self.rows[chosen]
        self.y = [self.kind.value(int(row @ truth), rng) for row in self.rows]
        self.exact = (np.ones(self.d, dtype=np.int64), int(truth.sum())) if rng.random() < 0.4 else None
        self.log_prior = rng.normal(0, 1, (2, self.d, LARGEST + 1))

    def _sums(self, rng):
        prefixes = np.tri(self.d, dtype=np.int64)[1:]
        if self.nested:
            return prefixes
        return np.vstack([prefixes, rng.integers(0, 2, (1, self.d)), np.arange(self.d) % 2 + 1])

    def measurements(self, *, wrong=False, marks_missing=False):
        """Return the statements, their wrong variant, or a variant where clipped and absent numbers state nothing."""
        kind, law = self.kind, self.kind.wrong if wrong else self.kind.law
        y = [kind.wrong_value(value) if wrong and value is not None else value for value in self.y]
        if marks_missing:
            y, law = [None if value == law.mark else value for value in y], law.law
        public = {} if self.exact is None else {linear([self.exact[0]], ["exact"]): [self.exact[1]]}
        stated = ppd.measured(linear(self.rows), [np.nan if value is None else value for value in y], law)
        bounds = ppd.invariants.between(0, LARGEST)
        return ppd.Measurements({"cell": list(range(self.d))}, stated, public=public, bounds=bounds)

    def log_weights(self):
        """Log weight of every table under a flat prior."""
        total = np.array([
            sum(self.kind.log_p(y, int(row @ x)) for row, y in zip(self.rows, self.y, strict=True)) for x in self.tables
        ])  # fmt: skip
        return total if self.exact is None else np.where(self.tables @ self.exact[0] == self.exact[1], total, -np.inf)

    def with_prior(self, log_weights, number):
        """Log of the total weight under a prior."""
        prior = self.log_prior[number][np.arange(self.d), self.tables].sum(axis=1)
        return np.logaddexp.reduce(log_weights + prior)


def listed_log_weights(problem, measurements):
    """Log weight of every table by the factors of overlapping sums, up to a constant; -inf outside of the windows."""
    observed = ObservedMeasurements(measurements)
    windows = published_windows(observed)
    coupling, system = observed.coupling(windows.lower, windows.counts.shape[1]), observed.system
    found = np.full(len(problem.tables), -np.inf)
    for k, x in enumerate(problem.tables):
        place = x - windows.lower
        if (place >= 0).all() and (place < windows.counts.shape[1]).all() and (system.A @ x == system.values).all():
            found[k] = windows.log_noise[np.arange(x.size), place].sum()
            found[k] += 0.0 if coupling is None else coupling.log_density(x)
    return found


def log_ratio(problem, measurements):
    """Log ratio of the total weights under two priors, by nested sums; nan if no table is possible."""
    observed = ObservedMeasurements(measurements)
    windows = published_windows(observed)
    sums, (d, width) = observed.in_forest(windows.lower, windows.counts.shape[1]), windows.counts.shape
    assert sums is not None
    inside = np.clip(windows.lower[:, None] + np.arange(width), 0, LARGEST)
    values = [
        sums.evaluate((windows.log_noise + prior[np.arange(d)[:, None], inside]).ravel()).value.sum()
        for prior in problem.log_prior
    ]
    return values[1] - values[0] if np.isfinite(values).all() else np.nan
