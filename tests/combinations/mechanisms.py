"""Random releases of a table by mechanisms, and random mechanisms: public sums, shapes, distributions."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from combinations import frames, measured
from combinations.composition import Composition, Stage
from combinations.enumerator import FAR, System, Term, TooManyError
from combinations.formulas import log_noise
from combinations.frames import pick
from combinations.measured import exact_sums, truth_of


def mechanism(rng, frame, public_code, equal, truth, features):
    """Draw a release by a mechanism that preserves sums: code, log weights, further limits."""
    code = " & ".join(public_code) or "inv.Public()"
    name = pick(rng, list(measured.EPSILONS))
    epsilon = measured.EPSILONS[name]
    kinds = ["l1", "l1", "l2", "gaussian", "conditioned", "suppressed", "bounded", "wasserstein"]
    kinds += ["transition"] * (not equal)
    kind = pick(rng, kinds)
    if kind in ("suppressed", "wasserstein", "bounded") and not equal:
        kind = "l1"
    features.add(f"mechanism: {kind}")
    cells = tuple(range(frame.size))
    other = truth
    if kind not in ("transition", "suppressed"):  # tables with the same sums
        near = System(np.zeros(frame.size, int), truth + 3, equal).tables(cells)
        a, b, c = near[rng.integers(0, len(near), 3)]
        other = a if kind in ("bounded", "wasserstein") else a + b - c
    norms = {"l1": lambda z: -epsilon * np.abs(z).sum(axis=-1), "l2": lambda z: -epsilon * np.sqrt((z**2).sum(axis=-1))}
    if kind in ("l1", "l2"):
        weigh = norms[kind]
        text = f"ppd.GeneralizedLaplace({code}, epsilon={name!r}, norm={kind!r})"
    elif kind == "gaussian":
        sigma = pick(rng, [1, 2])
        text, weigh = f"ppd.GeneralizedGaussian({code}, sigma={sigma})", lambda z: -(z**2).sum(axis=-1) / (2 * sigma**2)
    elif kind == "conditioned":
        text = f"ppd.Conditioned({code}, noise=laws.Staircase({name!r}, sensitivity=2, step=1))"

        def weigh(z):
            return log_noise(("staircase", epsilon, 2, 1), z, 0).sum(axis=-1)
    elif kind == "suppressed":
        return f"ppd.Suppression({code} & inv.nonnegative())", [], truth, None
    elif kind == "transition":
        matrix_code, matrix = measured.spread_matrix(rng, int(truth.max()) + 4)
        y = np.array([rng.choice(len(matrix), p=matrix[x]) for x in truth])
        terms = [Term((k,), lambda t, y=int(v): log_noise(("matrix", matrix), y, t[:, 0])) for k, v in enumerate(y)]
        return f"ppd.Transition({matrix_code})", terms, y, None
    else:
        text = f"ppd.Conditioned({code} & inv.nonnegative(), noise=laws.DoubleGeometric({name!r}))"
        weigh, loss = norms["l1"], "l1"
        if kind == "wasserstein":
            loss = pick(rng, ["l1", "l2"])
            text = (
                f"ppd.WassersteinExponential({code} & inv.nonnegative(), epsilon={name!r}, sensitivity=2, "
                f'secrets="whether one is a case", loss={loss!r})'
            )

            def weigh(z):
                return norms[loss](z) / 4

        released = System(np.zeros(frame.size, int), np.full(frame.size, FAR), equal).tables(cells)

        def with_normaliser(t):
            return weigh(other - t) - logsumexp(weigh(released[None] - t[:, None]), axis=1)

        return text, [Term(cells, with_normaliser)], other, released
    return text, [Term(cells, lambda t: weigh(other - t))], other, None


def released(rng, frame, law, features):
    """Draw one or two releases of a table: code, system, log weights, table, mechanism and numbers."""
    exact, kind = exact_sums(rng, frame)
    features.add(f"exact: {kind}")
    mean = rng.choice([0.6, 1.2, 1.8]) if exact else rng.choice([1.5, 6.0])
    truth = truth_of(rng, frame, law, mean)
    equal = [(row, int(row @ truth)) for one in exact for row in one.rows]
    text, terms, y, bounded = mechanism(rng, frame, [one.code for one in exact], equal, truth, features)
    system = System(law.low.copy(), law.high.copy(), equal)
    if bounded is not None or "nonnegative" in text:
        system = system.within(0, np.inf)
    return text, system, terms, truth, y, equal


def released_again(rng, frame, setup, equal, truth, features):
    """Draw another release of the same table that preserves the same sums."""
    code = setup.split("\n", 1)[0]
    public = code[code.index("(") + 1 :].split(", epsilon", 1)[0].split(", sigma", 1)[0].split(", noise", 1)[0]
    if "Suppression" in code or "Transition" in code or "nonnegative" in code:
        raise TooManyError
    text, terms, y, bounded = mechanism(
        rng, frame, [public] if public != "inv.Public()" else [], equal, truth, features
    )
    if bounded is not None:
        raise TooManyError
    return text, terms, y


TALL = [(10, 6)]  # exact draws of larger ones take seconds
WIDE = [
    *TALL, *TALL, *TALL, (6, 10), (12, 3), (3, 12), (20, 2), (2, 20), (3, 4, 2), (2, 4, 3), (4, 3, 2),
    (7, 5), (1, 9), (9, 1), (4, 4),
]  # fmt: skip
LATTICE = 12  # largest enumerated noise of a cell


@dataclass
class Drawn:
    """A mechanism for the enumerator."""

    frame: frames.Frame
    rows: np.ndarray  # sums that the noise preserves
    weigh: object = None  # log weight of noise, rows of an array; None if unknown
    bounded: bool = False  # whether releases obey the bounds
    real: bool = False
    alike: bool = False  # whether noise has the same distribution in all cells
    cellwise: object = None  # matrix of probabilities of single cells
    enumerable: bool = False
    post: bool = False  # whether releases are post-processed

    def noise(self):
        """Return all noise of limited size that preserves the sums, with its probabilities."""
        cells = tuple(range(self.frame.size))
        size = np.full(self.frame.size, LATTICE)
        z = System(-size, size, [(row, 0) for row in self.rows], most=40_000).tables(cells)
        log_w = self.weigh(z)
        return z, np.exp(log_w - logsumexp(log_w))

    def releases(self, x):
        """Return all releases within the bounds, with their log probabilities given a table."""
        cells = tuple(range(self.frame.size))
        low, high = np.zeros(self.frame.size, int), np.full(self.frame.size, FAR)
        y = System(low, high, [(row, int(row @ x)) for row in self.rows], most=2000).tables(cells)
        log_w = self.weigh(y - x)
        return y, log_w - logsumexp(log_w)


KINDS = ["l1", "l1", "l1", "l2", "gaussian", "conditioned", "bounded", "wasserstein", "wasserstein", "transition",
         "subspace gaussian", "subspace laplace", "post-processed", "top-down", "suppression"]  # fmt: skip


def compose(seed, rng):
    """Draw a mechanism, a table and draws."""
    kind = pick(rng, KINDS)
    wide = 0.0 if kind in ("bounded", "wasserstein", "transition", "suppression") else 0.7 if kind == "l1" else 0.4
    small = rng.random() >= wide
    frame = frames.frame(rng, frames.SHAPES if small else WIDE)
    options = ["total", "margin", "margins", "margins", "groups", "nested", "cells", "mapped", "all pairs", "none"]
    options += ["linear", "weighted"] if small else ["margins"] * 10
    exact, sort = exact_sums(rng, frame, options)
    if not exact and kind in ("bounded", "wasserstein", "suppression"):
        raise TooManyError
    if kind == "transition":
        exact = []
    features = {"way: mechanism", f"mechanism: {kind}", f"exact: {sort}", f"shape: {frame.shape}"}
    rows = np.vstack([one.rows for one in exact]) if exact else np.zeros((0, frame.size), dtype=int)
    code = " & ".join([one.code for one in exact] or ["inv.Public()"])
    if frame.coords:
        code += f" & inv.covariates({', '.join(map(repr, frame.coords))})"
    truth = rng.poisson(pick(rng, [0.7, 1.5] if kind in ("bounded", "wasserstein") else [0.7, 1.5, 20]), frame.size)
    name = pick(rng, ["1", "2"] if small else ["1/4", "1/2", "1"])
    epsilon = measured.EPSILONS[name]
    l1, l2 = (lambda z: -np.abs(z).sum(axis=-1)), (lambda z: -np.sqrt((z**2).sum(axis=-1)))
    drawn = Drawn(frame, rows)
    free = frame.size - (np.linalg.matrix_rank(rows) if len(rows) else 0)
    drawn.enumerable = kind in ("l1", "l2", "gaussian", "conditioned") and free <= (2 if epsilon < 2 else 3) and small
    if kind in ("l1", "l2"):
        text = f"ppd.GeneralizedLaplace({code}, epsilon={name!r}, norm={kind!r})"
        drawn.weigh = lambda z: epsilon * (l1 if kind == "l1" else l2)(z)
    elif kind == "gaussian":
        text, drawn.weigh = f"ppd.GeneralizedGaussian({code}, sigma=1)", lambda z: -(z**2).sum(axis=-1) / 2
    elif kind == "conditioned":
        staircase = f"laws.Staircase({name!r}, sensitivity=2, step=1)", ("staircase", epsilon, 2, 1)
        law, own = pick(rng, [("laws.DiscreteGaussian(variance=2)", ("gaussian", 2.0)), staircase])
        text, drawn.weigh = f"ppd.Conditioned({code}, noise={law})", lambda z: log_noise(own, z, 0).sum(axis=-1)
        drawn.enumerable &= epsilon == 2 and free <= 2
    elif kind == "bounded":
        text = f"ppd.Conditioned({code} & inv.nonnegative(), noise=laws.DoubleGeometric({name!r}))"
        drawn.weigh, drawn.bounded = (lambda z: epsilon * l1(z)), True
    elif kind == "wasserstein":
        loss = pick(rng, ["l1", "l2"])
        features.add(f"loss: {loss}")
        text = (
            f"ppd.WassersteinExponential({code} & inv.nonnegative(), epsilon={name!r}, sensitivity=2, "
            f'secrets="whether one is a case", loss={loss!r})'
        )
        drawn.weigh, drawn.bounded = (lambda z: epsilon * (l1 if loss == "l1" else l2)(z) / 4), True
    elif kind == "transition":
        size = int(truth.max()) + 3
        matrix, drawn.cellwise = measured.spread_matrix(rng, size)
        text = f"ppd.Transition({matrix})"
        if frame.coords:
            text = text[:-1] + f", inv.covariates({', '.join(map(repr, frame.coords))}))"
    elif kind == "subspace gaussian":
        text, drawn.real = f'ppd.SubspaceGaussian({code}, epsilon={name!r}, delta="1e-3")', True
    elif kind == "subspace laplace":
        text, drawn.real = f"ppd.SubspaceLaplace({code}, epsilon={name!r})", True
    elif kind == "post-processed":
        text, drawn.post = f"ppd.PostProcessed({code}, epsilon={name!r}, method={pick(rng, ['rounded', 'l1'])!r})", True
    elif kind == "suppression":
        text = f"ppd.Suppression({code})"
    else:
        level = frames.margin(frame, (frame.dims[0],))
        text, drawn.post = f"ppd.TopDown({code}, {name!r}, levels={level.code})", True
    if drawn.bounded:
        drawn.releases(truth)
    if drawn.enumerable:
        drawn.noise()
    features.add("law listed" if drawn.enumerable or drawn.bounded or kind == "transition" else "sums alone")
    drawn.alike = kind in ("l1", "l2", "gaussian") and sort in ("margins", "total", "none", "all pairs")
    lines = [f"table = {frame.table_code(truth)}", f"mechanism = {text}"]
    return Composition(seed, features, [Stage("\n".join(lines), drawn, "mechanism")], truth, "mechanism")
