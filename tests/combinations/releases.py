"""Random releases of a table by mechanisms."""

import numpy as np
from scipy.special import logsumexp

from combinations import noises
from combinations.enumerator import FAR, System, Term, TooManyError, log_noise
from combinations.frames import pick
from combinations.measured import exact_sums, truth_of


def mechanism(rng, frame, public_code, equal, truth, features):
    """Draw a release by a mechanism that preserves sums: code, log weights, further limits."""
    code = " & ".join(public_code) or "inv.Public()"
    name = pick(rng, list(noises.EPSILONS))
    epsilon = noises.EPSILONS[name]
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
        matrix_code, matrix = noises.spread_matrix(rng, int(truth.max()) + 4)
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
