"""Delta_z and conditioned laws against independent computations."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import PrivacyError
from ppdinf.privacy import (
    Guarantee,
    KAnonymity,
    Ledger,
    TCloseness,
    compose,
    condition_output,
    condition_pairs,
    delta_z,
    delta_z_counts,
    delta_z_normal,
    secret_pair,
    to_pufferfish,
    wasserstein_infinity,
)


@pytest.mark.parametrize(("n", "z0", "z1"), [(4, "1/5", "2/3"), (5, 0, "1/2"), (3, "0.3", 0.3), (1, "1/2", 1)])
def test_count_pair_by_enumeration(n, z0, z1):
    """All outcomes of the other n - 1 persons."""
    for j, z, law in zip((0, 1), (Fraction(str(z0)), Fraction(str(z1))), secret_pair(n, z0, z1), strict=True):
        found = {}
        for others in itertools.product((0, 1), repeat=n - 1):
            weight = math.prod(z if x else 1 - z for x in others)
            found[j + sum(others)] = found.get(j + sum(others), 0) + weight
        assert law == {count: weight for count, weight in found.items() if weight}


def test_surface():
    """Corners of Figure 4, growth along either axis, and floats against fractions."""
    grid = [Fraction(k, 10) for k in range(11)]
    surface = {(a, b): delta_z_counts(30, a, b) for a in grid for b in grid if a <= b}
    assert surface[0, 1] == 30
    assert {surface[a, a] for a in grid} == {1}
    for (a, b), value in surface.items():
        assert value <= surface.get((a - Fraction(1, 10), b), 30)
        assert value <= surface.get((a, b + Fraction(1, 10)), 30)
        assert value == wasserstein_infinity(stats.binom(29, float(a)), stats.binom(29, float(b), loc=1))
    limit = [delta_z_counts(30, z, 1 - z) for z in (Fraction(1, 10**k) for k in range(1, 12))]
    assert limit == sorted(limit)
    assert limit[0] < limit[-1]
    assert limit[-1] in (29, 30)


def test_the_pair_is_the_worst_of_its_family():
    """Both probabilities anywhere in [z0, z1]; the printed one-sided bounds alone would always give n - 2."""
    n, z0, z1 = 12, Fraction(1, 4), Fraction(3, 5)
    inside = [z0 + (z1 - z0) * Fraction(k, 5) for k in range(6)]
    pairs = [(secret_pair(n, p, p)[0], secret_pair(n, q, q)[1]) for p in inside for q in inside]
    assert delta_z(pairs) == delta_z_counts(n, z0, z1)
    assert (
        wasserstein_infinity(secret_pair(n, 1, 1)[0], secret_pair(n, 0, 0)[1]) == n - 2
    )  # P = 1 >= z0 and P = 0 <= z1


def conditional(covariance, v, z, mean=0.0):
    """Law of the statistic given the person's value and public statistics, all with the same mean."""
    inverse = np.linalg.inv(covariance)  # by precisions, not by regression
    given = np.concatenate([[v], z]) - mean
    return stats.norm(mean - inverse[0, 1:] @ given / inverse[0, 0], inverse[0, 0] ** -0.5)


def test_normal_against_conditional_laws():
    """The same z on both sides: only the person's coefficient remains; the printed (Delta, z - mean) differs."""
    rng = np.random.default_rng(1)
    for k in (0, 1, 3):
        root = rng.normal(size=(2 + k, 2 + k))
        covariance, z, width = root @ root.T, rng.normal(size=k), 2.5
        found = delta_z_normal(covariance, width)
        for v in rng.normal(size=3):
            laws = conditional(covariance, v, z, 0.3), conditional(covariance, v + width, z, 0.3)
            shift = abs(laws[0].mean() - laws[1].mean())
            assert laws[0].std() == pytest.approx(laws[1].std(), rel=1e-12)
            assert found == pytest.approx(shift, rel=1e-9)
        printed = abs(covariance[0, 1:] @ np.linalg.solve(covariance[1:, 1:], np.concatenate([[width], z - 0.3])))
        assert (k == 0) == (printed == pytest.approx(found, rel=1e-6))


def test_normal_without_public_information_is_the_usual_sensitivity():
    for n, sigma in ((10, 0.1), (50, 3.0)):
        s2 = sigma**2
        assert delta_z_normal([[s2 / n, s2 / n], [s2 / n, s2]], 2.0) == pytest.approx(2.0 / n)


def test_normal_depends_on_the_dependence():
    """A public sum makes one person's value more informative; no bound holds for all dependences."""

    def with_public(share):
        n, s2 = 20, 1.0
        noise = 1 / share - 1
        return [[s2 / n, s2 / n, s2], [s2 / n, s2, s2], [s2, s2, n * s2 * (1 + noise)]]

    values = [delta_z_normal(with_public(share), 1.0) for share in (0.001, 0.5, 0.9, 0.999)]
    assert values[0] == pytest.approx(1 / 20, rel=0.01)
    assert values == sorted(values, reverse=True)  # the sum leaves less and less for the person to move
    strong = [[1, 0.9999, 0], [0.9999, 1, 0.01], [0, 0.01, 1]]
    assert delta_z_normal(np.array(strong) * [[1e6, 1e3, 1e3], [1e3, 1, 1], [1e3, 1, 1]], 1.0) > 900


def test_k_anonymity_and_t_closeness_as_printed():
    assert list(KAnonymity(10, 3).counts) == [s for s in range(11) if s >= 3 and 10 - s >= 3]
    close = TCloseness(30, "0.35", 0.1)
    assert list(close.counts) == [s for s in range(31) if abs(Fraction(s, 30) - Fraction(35, 100)) <= Fraction(1, 10)]


def test_conditioning_is_bayes_and_drops_decided_pairs():
    first, second = secret_pair(6, "1/3", "1/2")
    ((given, other),) = condition_pairs([(first, second)], KAnonymity(6, 2).counts)
    assert given == {s: first[s] / (first[2] + first[3] + first[4]) for s in (2, 3, 4)}
    assert sum(other.values()) == 1
    assert list(condition_pairs([(first, second)], [0])) == []  # nobody is counted: one secret is impossible


def test_disclosure_limits_do_not_raise_the_sensitivity_of_counts():
    """Observed for all pairs of binomial laws below: conditioning on an interval never increases their distance."""
    for z0, z1 in [("0.1", "0.9"), ("0.3", "0.3"), ("0.02", "0.5"), ("0.4", "0.45")]:
        pair = secret_pair(24, z0, z1)
        distances = [delta_z(condition_pairs([pair], KAnonymity(24, k).counts)) for k in range(12)]
        assert distances == sorted(distances, reverse=True)
        assert all(d <= 24 - 2 * k for k, d in enumerate(distances))


def worst_loss(pair, scale, outcomes):
    """Largest log ratio over outcomes of noise exp(-|y - x| / scale) on them, between two laws of x."""
    y = np.array(outcomes)
    mixed = []
    for law in pair:
        rows = np.array([np.exp(-np.abs(y - x) / scale) for x in law])
        rows /= rows.sum(axis=1, keepdims=True)
        mixed.append(np.array([float(w) for w in law.values()]) @ rows)
    return np.abs(np.log(mixed[0] / mixed[1])).max()


def random_law(rng):
    weights = rng.integers(0, 4, 9) ** 3
    weights[rng.integers(9)] += 1
    return {k: Fraction(int(w), int(weights.sum())) for k, w in enumerate(weights) if w}


def printed_delta(p, q):
    """Equation (35): quantiles at the jump levels of the first law only."""
    level, worst = Fraction(0), 0
    for value in sorted(p):
        level += p[value]
        at = Fraction(0)
        for other in sorted(q):
            at += q[other]
            if at >= level:
                worst = max(worst, abs(value - other))
                break
    return worst


def test_mechanisms_calibrated_to_delta_z_satisfy_their_guarantee():
    """Wasserstein exponential noise: epsilon / Delta_z on all integers, half of it on a bounded base measure.

    The printed sensitivity of equation (35) is too small for certain pairs, which violates the guarantee.
    """
    rng, epsilon, broken = np.random.default_rng(5), 0.8, 0
    for _ in range(300):
        pair = random_law(rng), random_law(rng)
        distance, printed = delta_z([pair]), printed_delta(*pair)
        if distance == 0:
            continue
        assert worst_loss(pair, distance / epsilon, range(-200, 210)) <= epsilon + 1e-9
        assert worst_loss(pair, 2 * distance / epsilon, range(9)) <= epsilon + 1e-9
        if printed:
            broken += worst_loss(pair, printed / epsilon, range(-200, 210)) > epsilon + 1e-9
    assert broken > 0


def test_the_guarantee_for_dependent_counts():
    """Noise for independent persons violates the guarantee for dependent persons."""
    for z0, z1 in [("1/5", "1/2"), ("1/10", "9/10"), (0, 1)]:
        pair = secret_pair(12, z0, z1)
        assert worst_loss(pair, delta_z([pair]) / 0.5, range(-300, 313)) <= 0.5 + 1e-9
        assert worst_loss(pair, 1 / 0.5, range(-300, 313)) > 1


PURE = Guarantee("pure", Fraction(2, 5), neighbours="one person more in the count")


def losses(epsilon, possible, counts=range(12)):
    """Largest log ratio between neighbouring counts of double geometric noise conditioned on a set of outputs."""
    law = np.array([np.exp(-epsilon * np.abs(np.array(possible) - x)) for x in counts])
    law = np.log(law / law.sum(axis=1, keepdims=True))
    return np.abs(np.diff(law, axis=0)).max()


@pytest.mark.parametrize("possible", [range(12), range(3, 9), [2, 3, 5, 7, 11], [0, 11]])
def test_the_loss_at_most_doubles(possible):
    epsilon, promise = float(PURE.epsilon), condition_output(PURE, "the count is possible")
    assert losses(epsilon, possible) <= float(promise.loss()) + 1e-12


def test_epsilon_alone_would_not_do():
    epsilon = float(PURE.epsilon)
    assert losses(epsilon, range(12)) > epsilon + 0.01
    assert losses(epsilon, [0, 11], range(12)) == pytest.approx(2 * epsilon, abs=0.02)
    assert losses(epsilon, range(-400, 400), range(3)) == pytest.approx(epsilon, abs=1e-9)  # nothing is cut off


def test_description():
    promise = condition_output(PURE, "the count is at least 5")
    assert promise.known == ("the count is at least 5",)
    assert "the count is at least 5" in promise.describe()
    assert f"{math.exp(0.8):.3g}" in promise.describe()


ORDERS = (1.1, 2, 6)


def renyi(log_p, log_q, order):
    """Renyi divergence of two laws on one grid."""
    return logsumexp(order * log_p - (order - 1) * log_q) / (order - 1)


def mixed(law, y, sigma):
    """Log density on a grid of the noisy count, normalized, for a law of the count."""
    log_p = logsumexp([math.log(w) + stats.norm.logpdf(y, count, sigma) for count, w in law.items()], axis=0)
    return log_p - logsumexp(log_p)


@pytest.mark.parametrize("sigma", [2.0, 6.0])
def test_renyi_divergences_of_mixtures_are_bounded(sigma):
    """Counts of dependent persons: two points attain the bound; the distance of the means is too small."""
    y = np.linspace(-60, 80, 28_001)
    noise = Guarantee("zcdp", rho=Fraction(1 / (2 * sigma**2)), metric="l2")
    broken = []
    for pair in [
        secret_pair(12, "0.3", "0.5"),
        secret_pair(9, "1/10", "9/10"),
        ({0: 1}, {5: 1}),
        ({0: 0.99, 9: 0.01}, {1: 0.5, 0: 0.5}),
    ]:
        sensitivity = delta_z([pair], norm="l2")
        rho = float(to_pufferfish(noise, sensitivity, secrets="status").rho)
        found = np.array(
            [[renyi(mixed(a, y, sigma), mixed(b, y, sigma), order) for order in ORDERS] for a, b in (pair, pair[::-1])]
        )
        assert (found <= np.multiply(ORDERS, rho) + 1e-9).all()
        shift = abs(sum(x * float(w) for x, w in pair[0].items()) - sum(x * float(w) for x, w in pair[1].items()))
        broken.append((found > np.multiply(ORDERS, shift**2 / (2 * sigma**2)) + 1e-9).any())
        if len(pair[0]) == 1:
            assert found == pytest.approx(np.tile(np.multiply(ORDERS, rho), (2, 1)), rel=1e-6)
    assert broken[-1]


def test_lattice_noise_of_tables_with_a_public_total():
    """Laws of three counts with the total 6, discrete Gaussian noise on the lattice, two releases: by enumeration."""
    pair = ({(3, 2, 1): 0.6, (4, 1, 1): 0.4}, {(2, 3, 1): 0.5, (3, 1, 2): 0.3, (4, 2, 0): 0.2})
    sensitivity = delta_z([pair], norm="l2")
    assert sensitivity == pytest.approx(np.sqrt(2))
    mechanisms = [ppd.GeneralizedGaussian(ppd.invariants.total(), sigma=sigma) for sigma in (1, 2)]
    both = to_pufferfish(compose(*(m.guarantee for m in mechanisms)), "1.4142135623730951", secrets="status")
    assert float(both.rho) == pytest.approx(2 * (1 / 2 + 1 / 8))
    k = np.arange(-14, 15)
    z = np.stack(np.meshgrid(k, k), axis=-1).reshape(-1, 2)
    y = np.column_stack([3 + z[:, 0], 2 + z[:, 1], 1 - z.sum(axis=1)])

    def joint(law):
        total = 0
        for cells, weight in law.items():
            logs = [-((y - np.array(cells)) ** 2).sum(axis=1) / (2 * s**2) for s in (1, 2)]
            first, second = (np.exp(log - np.log(np.exp(log).sum())) for log in logs)
            total = total + weight * np.outer(first, second).ravel()
        return np.log(np.maximum(total, 1e-300))

    laws = [joint(law) for law in pair]
    for order in (1.1, 2, 4):
        assert renyi(*laws, order) <= order * float(both.rho) + 1e-9
        assert renyi(*laws, order) > order * float(both.rho) / 20


def test_ledgers_of_pufferfish_guarantees():
    table, ledger = np.array([3, 2, 1]), Ledger(rho=1)
    for sigma in (2, 4):
        ledger.add(ppd.GeneralizedGaussian(ppd.invariants.total(), sigma=sigma).release(table))
    guarantee = to_pufferfish(ledger.guarantee, 3, secrets="whether one person is counted")
    assert guarantee.rho == 9 * (Fraction(1, 8) + Fraction(1, 32))
    assert guarantee.loss() == guarantee.loss_of_unit == guarantee.rho
    text = guarantee.describe()
    assert "a secret can lose at most rho = 1.40625 in zCDP" in text
    assert "zero-concentrated DP with rho allows, with rho = 1.40625" in text
    assert "Delta = 3 in l2" in text
    assert guarantee.to_dict()["dp_flavor"]["name"].startswith("Concentrated Pufferfish")
    laplace = to_pufferfish(ppd.GeneralizedLaplace(ppd.invariants.total(), "1/4").guarantee, 2, secrets="status")
    assert laplace.epsilon == Fraction(1, 2)
    assert compose(guarantee, guarantee, independent=True).rho == 2 * guarantee.rho
    with pytest.raises(PrivacyError, match="independent"):
        compose(guarantee, guarantee)
    with pytest.raises(PrivacyError, match="in epsilon and in rho"):
        compose(guarantee, laplace, independent=True)
    for refused in (ppd.SubspaceGaussian(ppd.invariants.total(), 1, "1e-6").guarantee, guarantee):
        with pytest.raises(PrivacyError, match="per unit of distance"):
            to_pufferfish(refused, 1, secrets="status")
    with pytest.raises(PrivacyError, match="secrets must describe"):
        to_pufferfish(ledger.guarantee, 1, secrets=" ")
