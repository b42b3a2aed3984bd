"""The stated loss of one unit, against all outputs of all small tables that differ in one unit's records.

A unit with k records can turn a table x into x + z where z adds at most k records and removes at most k. Laws are
written out here; the package provides the stated guarantee, matrices of single cells and scales of the noise.
"""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
import xarray as xr
from enumeration import changes, normal_delta
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.counts import TwoStage, truncated_geometric
from ppdinf.invariants import Public, covariates, linear, margin, nonnegative, total
from ppdinf.privacy import compose

SUMS = {"nothing": [[0, 0, 0]], "total": [[1, 1, 1]], "two of three": [[1, 1, 0]], "weighted": [[1, 1, 2]]}
PUBLIC = {"nothing": Public(), "total": total(), "two of three": linear([[1, 1, 0]]), "weighted": linear([[1, 1, 2]])}
TABLE = np.array([9, 4, 5])
REACH = 16  # noise beyond has less than 1e-9 of the mass of any law here
ALPHAS = (1.1, 2.0, 5.0, 30.0)


def noise(sums, log_weight):
    """Log probability of every noise vector within reach that keeps the sums; -inf elsewhere."""
    z = np.stack(np.meshgrid(*[np.arange(-REACH, REACH + 1)] * 3, indexing="ij"), axis=-1)
    weight = np.where((z @ np.transpose(sums)).any(axis=-1), -np.inf, log_weight(z))
    return weight - logsumexp(weight)


def shifted(law, z):
    """Log probabilities of each output for two tables that differ by z; -inf beyond the reach."""
    there = np.full_like(law, -np.inf)
    size = law.shape[0]
    to = tuple(slice(max(0, k), size + min(0, k)) for k in z)
    there[to] = law[tuple(slice(max(0, -k), size + min(0, -k)) for k in z)]
    return law[np.isfinite(law)], there[np.isfinite(law)]


def largest_loss(law, moves):
    pairs = [shifted(law, z) for z in moves]
    return max((float((one - other)[np.isfinite(other)].max()) for one, other in pairs), default=0.0)


def delta_between(law, z, epsilon):
    """Mass by which one law exceeds ``exp(epsilon)`` times the other, in the worse direction."""
    one, other = np.exp(shifted(law, z))
    return max(np.maximum(0, one - math.exp(epsilon) * other).sum(), delta_of(other, one, epsilon))


def delta_of(one, other, epsilon):
    return np.maximum(0, one - math.exp(epsilon) * other).sum()


def with_unit(public, records):
    return public & ppd.invariants.unit("visit", contributions=records) if records > 1 else public


def stated(mechanism, table=TABLE):
    """Guarantees of a mechanism and of its release: both must hold."""
    return [mechanism.guarantee, mechanism.release(table).guarantee]


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.parametrize(("metric", "power"), [("l1", 1), ("l2", 2)])
def test_laplace(metric, power, public, records):
    law = noise(SUMS[public], lambda z: -0.5 * (np.abs(z) ** power).sum(axis=-1) ** (1 / power))
    worst = largest_loss(law, changes(SUMS[public], records))
    for found in stated(ppd.GeneralizedLaplace(with_unit(PUBLIC[public], records), "1/2", norm=metric)):
        assert found.delta_of_unit == 0
        assert found.loss_of_unit >= worst * (1 - 1e-12)
        assert public == "weighted" or found.loss_of_unit == pytest.approx(worst)  # attained


def test_both_margins_need_two_records():
    """One record alone keeps no margin of a 2 x 2 table, two records do: the loss at the nearest table counts."""
    margins = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    assert not len(changes(margins, 1))
    assert [np.abs(z).sum() for z in changes(margins, 2)] == [4, 4]
    for records in (1, 2):
        public = with_unit(margin("dim_0") & margin("dim_1"), records)
        release = ppd.GeneralizedLaplace(public, "1/2").release(np.array([[9, 4], [3, 8]]))
        assert release.guarantee.loss_of_unit == 2


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.parametrize("calibration", ["zcdp", "exact"])
def test_gaussian(calibration, public, records):
    """All mass above the stated epsilon is within the stated delta; zCDP bounds every divergence."""
    mechanism = ppd.GeneralizedGaussian(with_unit(PUBLIC[public], records), 4, "1e-3", calibration=calibration)
    release = mechanism.release(TABLE)
    sigma = float(release.mechanism.sigma)
    law = noise(SUMS[public], lambda z: -(z**2).sum(axis=-1) / (2 * sigma**2))
    for found in (mechanism.guarantee, release.guarantee):
        if found.loss_of_unit == math.inf:  # the scale follows from the sums of a table, and the loss with it
            assert (calibration, public != "nothing" or records == 2) == ("exact", True)  # of two, delta would be 1
            assert found == mechanism.guarantee
            continue
        for z in changes(SUMS[public], records):
            if found.rho is None:
                true = delta_between(law, z, float(found.loss_of_unit))
                assert true <= found.delta_of_unit * (1 + 1e-6)
                continue
            one, other = shifted(law, z)
            near = np.isfinite(other)
            for alpha in ALPHAS:
                true = logsumexp(alpha * one[near] + (1 - alpha) * other[near]) / (alpha - 1)
                assert true <= alpha * float(found.loss_of_unit) * (1 + 1e-9)


@pytest.mark.parametrize("records", [1, 2])
def test_published_calibration_of_gaussian_noise(records):
    """Two cells under a total, where noise is one integer: mass above the stated epsilon."""
    public = with_unit(total(), records)
    mechanism = ppd.GeneralizedGaussian(public, "3/10", "1e-2", calibration="theorem14")
    release = mechanism.release(TABLE[:2])
    t = np.arange(-2000, 2001)
    law = np.exp(-(t**2) / float(release.mechanism.sigma) ** 2)
    law /= law.sum()
    for found in (mechanism.guarantee, release.guarantee):
        for moved in range(1, records + 1):
            assert delta_of(law[moved:], law[:-moved], float(found.loss_of_unit)) <= found.delta_of_unit


def test_the_smallest_change_is_not_one_person_moved():
    """Without sums the calibration is for one additional record in a cell: a moved record exceeds this delta."""
    mechanism = ppd.GeneralizedGaussian(Public(), 1, "1e-3", calibration="exact")
    sigma = float(mechanism.release(TABLE).mechanism.sigma)
    one, other = (np.exp(-((np.arange(-60, 61) - at) ** 2) / (2 * sigma**2)) for at in (0, 1))
    first, second = np.outer(one, other).ravel() / one.sum() ** 2, np.outer(other, one).ravel() / one.sum() ** 2
    assert delta_of(first, second, 1.0) > 0.0125
    for found in stated(mechanism):
        assert (found.loss_of_unit, found.delta_of_unit) == (2, pytest.approx(1e-3 * (1 + math.e)))
        assert delta_of(first, second, 2.0) <= found.delta_of_unit
    labelled = xr.DataArray(TABLE, coords={"a": list("xyz"), "persons": ("a", [8, 9, 7])}, dims="a")
    declared = ppd.GeneralizedGaussian(covariates("persons"), 1, "1e-3", calibration="exact").release(labelled)
    assert (declared.guarantee.loss_of_unit, declared.guarantee.delta_of_unit) == (2, found.delta_of_unit)
    with_total = ppd.GeneralizedGaussian(total(), 1, "1e-3", calibration="exact").release(TABLE).guarantee
    assert (with_total.loss_of_unit, with_total.delta_of_unit) == (1, pytest.approx(1e-3))


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.parametrize("law", [ppd.mechanisms.DoubleGeometric("1/2"), ppd.mechanisms.Staircase(1, 2)])
def test_noise_of_single_cells_conditioned_on_sums(law, public, records):
    """Weights of single cells multiply among noise vectors that keep the sums; without bounds nothing else enters."""
    log_weights = noise(SUMS[public], lambda z: law.log_weight(z.astype(float)).sum(axis=-1))
    worst = largest_loss(log_weights, changes(SUMS[public], records))
    for found in stated(ppd.Conditioned(with_unit(PUBLIC[public], records), noise=law)):
        assert found.delta_of_unit == 0
        assert found.loss_of_unit >= worst * (1 - 1e-12)


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("public", ["nothing", "total"])
def test_conditioned_on_bounds(public, records):
    """Noise among tables without negative cells: normalizers differ between tables and enter the loss."""
    sums = np.array(SUMS[public])
    tables = np.array(list(product(range(9), repeat=3)))
    table = np.array([2, 1, 0])
    near = tables[(tables.sum(axis=1) == 3) if public == "total" else tables.sum(axis=1) <= 3]
    worst = 0.0
    moved = {tuple(z) for z in changes(sums, records)}
    outputs = tables[tables.sum(axis=1) == 3] if public == "total" else tables
    weight = -0.5 * np.abs(outputs[None] - near[:, None]).sum(axis=2)
    law = weight - logsumexp(weight, axis=1, keepdims=True)
    for i, x in enumerate(near):
        for j, other in enumerate(near):
            if tuple(x - other) in moved:
                worst = max(worst, float((law[i] - law[j]).max()))
    public_ = with_unit(PUBLIC[public] & nonnegative(), records)
    mechanism = ppd.Conditioned(public_, noise=ppd.mechanisms.DoubleGeometric("1/2"))
    for found in stated(mechanism, table):
        assert found.delta_of_unit == 0
        assert found.loss_of_unit >= worst - 1e-3  # outputs above 8 are left out


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("matrix", ["geometric", "rounding"])
def test_single_cells(matrix, records):
    """Two cells of counts 0 to 3, all pairs of tables: the ratio of the product of rows, or its distance."""
    public = with_unit(Public(), records)
    law = truncated_geometric(4, 1).matrix if matrix == "geometric" else None
    mechanism = ppd.Transition(law, public) if matrix == "geometric" else ppd.mechanisms.random_rounding(3, 3, public)
    rows = mechanism.probabilities
    tables = np.array(list(product(range(4), repeat=2)))
    joint = np.einsum("ia,ib->iab", rows[tables[:, 0]], rows[tables[:, 1]]).reshape(len(tables), -1)
    moved = {tuple(z) for z in changes([[0, 0]], records)}
    pairs = [(i, j) for i in range(16) for j in range(16) if tuple(tables[i] - tables[j]) in moved]
    for found in stated(mechanism, np.array([1, 2])):
        if matrix == "rounding" and records == 2:  # a change of two records can change a cell from 0 to 2
            assert found.describe().startswith("No guarantee: ")
            continue
        if matrix == "rounding":
            true = max(delta_of(joint[i], joint[j], float(found.loss_of_unit)) for i, j in pairs)
            assert true <= found.delta_of_unit
            continue
        true = max(np.abs(np.log(joint[i] / joint[j])).max() for i, j in pairs)
        assert true == pytest.approx(2 * records)
        assert true <= found.loss_of_unit <= true + 1e-8


def test_a_delta_of_one_is_no_guarantee():
    """Rounding to base 2 can show that a person moved; for Gaussian noise, zCDP states more than group privacy."""
    for found in stated(ppd.mechanisms.random_rounding(2, upper=9), np.array([1, 2])):
        assert found.describe().startswith("No guarantee: ")
        assert found.loss_of_unit == math.inf
    for mechanism in (
        ppd.GeneralizedGaussian(with_unit(Public(), 2), 1, "1/20", calibration="exact"),
        ppd.SubspaceGaussian(with_unit(Public(), 4), 1, "1/10", neighbours="added"),
    ):
        records = mechanism.guarantee.contributions
        release = mechanism.release(TABLE)
        sigma = float(release.mechanism.sigma) if records == 2 else ppd.privacy.gaussian_sigma(1, "1/10")
        apart, epsilon = math.sqrt(2) * records / sigma, float(release.guarantee.loss_of_unit)
        assert 0 < epsilon < math.inf
        assert normal_delta(apart, epsilon) <= release.guarantee.delta_of_unit < 1


@pytest.mark.parametrize("records", [1, 2])
def test_two_stages(records):
    """Three cells of counts 0 to 2: noise around the cycle for the histogram, then the matrix computed from it."""
    epsilon, n = 1.0, 3
    reach = np.arange(-7, 8)
    around = np.array(list(product(reach, repeat=n)))
    weight = (np.tanh(epsilon / 4) * np.exp(-epsilon / 2 * np.abs(around))).prod(axis=1)
    shift = around - np.roll(around, -1, axis=1)
    laws, matrices = {}, {}

    def law_of(histogram):
        if histogram not in laws:
            found = laws.setdefault(histogram, {})
            for noisy, w in zip(map(tuple, histogram + shift), weight, strict=True):
                found[noisy] = found.get(noisy, 0.0) + w
        return laws[histogram]

    def log_matrix(noisy):
        if noisy not in matrices:
            made = ppd.counts.heuristic(ppd.counts.to_distribution(noisy), "1/2").matrix
            with np.errstate(divide="ignore"):
                matrices[noisy] = np.log(made)
        return matrices[noisy]

    table = np.array([1, 1, 0])
    worst = 0.0
    for z in changes([[0, 0, 0]], records):
        other = table + z
        if (other < 0).any() or (other >= n).any():
            continue
        one, two = (law_of(tuple(np.bincount(t, minlength=n))) for t in (table, other))
        for noisy in one.keys() & two.keys():
            if max(np.abs(noisy)) > 3:
                continue  # the enumerated range excludes this noise
            T = log_matrix(noisy)
            with np.errstate(invalid="ignore"):
                cells = np.nan_to_num(T[table] - T[other], nan=0.0).max(axis=1).sum()
            worst = max(worst, math.log(one[noisy] / two[noisy]) + cells)
    assert worst > epsilon * 1.2  # above the loss of one step
    assert worst <= TwoStage(epsilon=1, n=n, split="1/2", public=with_unit(Public(), records)).guarantee.loss_of_unit


def cache_by_value(function):
    """Evaluate a function of a vector once for each value."""
    cached = lru_cache(maxsize=None)(lambda values: function(np.array(values)))
    return lambda z: cached(tuple(z.tolist()))


REAL = {
    "projected laplace": lambda public, neighbours: ppd.SubspaceLaplace(public, "1/2", neighbours=neighbours),
    "extended laplace": lambda public, neighbours: ppd.SubspaceLaplace(
        public, "1/2", method="extended", neighbours=neighbours
    ),
    "k-norm": lambda public, neighbours: ppd.KNorm(public, "1/2", neighbours=neighbours),
    "gaussian": lambda public, neighbours: ppd.SubspaceGaussian(public, "1/2", "1e-3", neighbours=neighbours),
    "extended gaussian": lambda public, neighbours: ppd.SubspaceGaussian(
        public, "1/2", "1e-3", method="extended", neighbours=neighbours
    ),
    "correlated": lambda public, neighbours: ppd.CorrelatedGaussian(public, "1/2", "1e-3", neighbours=neighbours),
}


@pytest.mark.quick_cases(34)
@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("neighbours", ["replaced", "added"])
@pytest.mark.parametrize("public", ["nothing", "total", "two of three"])
@pytest.mark.parametrize("law", REAL)
def test_real_noise(law, public, neighbours, records):
    """Densities at shifted points: the largest ratio, or the delta of two normal laws with these means."""
    mechanism = REAL[law](with_unit(PUBLIC[public], records), neighbours)
    moved = changes(SUMS[public], records, same_number=neighbours == "replaced")
    release = mechanism.release(TABLE)
    log_density = cache_by_value(release.mechanism.law(release.kept).log_density)
    others = moved[:: 1 + len(moved) // 12]
    for found in (mechanism.guarantee, release.guarantee):
        for z in moved:
            if "gaussian" in law or law == "correlated":
                apart = math.sqrt(-2 * (log_density(z) - log_density(0 * z)))
                assert normal_delta(apart, float(found.loss_of_unit)) <= found.delta_of_unit * (1 + 1e-9)
            else:
                noise_vectors = [k * e for e in (z, *others) for k in (0, 1, 3, -2)]
                true = max(abs(log_density(e) - log_density(e - z)) for e in noise_vectors)
                assert true <= found.loss_of_unit * (1 + 1e-9)


@pytest.mark.parametrize("sensitivity", [2, 4])
def test_secrets(sensitivity):
    """Secrets that move the table by at most Delta: the loss of the pair, normalizers included."""
    tables = np.array([t for t in product(range(4), repeat=3) if sum(t) == 3])
    apart = np.abs(tables[:, None] - tables[None]).sum(axis=2)
    law = -0.5 * apart / (2 * sensitivity)
    law -= logsumexp(law, axis=1, keepdims=True)
    near = [(i, j) for i, j in zip(*np.nonzero(apart <= sensitivity), strict=True)]
    true = max(float((law[i] - law[j]).max()) for i, j in near)
    mechanism = ppd.WassersteinExponential(total() & nonnegative(), "1/2", sensitivity, "the cell of one person")
    for found in stated(mechanism, np.array([1, 2, 0])):
        assert true <= found.loss_of_unit


@pytest.mark.parametrize("objective", [ppd.mechanisms.Quantile(0.5, 0, 4), ppd.mechanisms.Mean(bound=4)])
def test_statistics_of_records(objective):
    """All replacements of one of three records: the ratio of densities on a grid, with their sums as normalizers."""
    mechanism = ppd.KNormGradient(objective, epsilon=1)
    answers = np.linspace(0, 4, 401) if isinstance(objective, ppd.mechanisms.Quantile) else np.linspace(-150, 150, 6001)
    laws = {}
    for records in product((0.5, 2.0, 3.5), repeat=3):
        log_density = mechanism.log_density(answers[:, np.newaxis], np.array(records))
        laws[records] = log_density - logsumexp(log_density)
    worst = max(
        float(np.abs(laws[one] - laws[other]).max())
        for one, other in product(laws, repeat=2)
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1
    )
    for found in (mechanism.guarantee, mechanism.release(np.array([0.5, 2.0, 3.5])).guarantee):
        assert (found.loss_of_unit, found.delta_of_unit) == (1, 0)
        assert worst <= found.loss_of_unit
        assert found.describe().startswith("Under the models stated below, a secret can lose at most epsilon = 1 ")


@pytest.mark.parametrize("records", [1, 2])
def test_post_processed_and_suppressed_tables(records):
    """A function of l1 noise loses at most as much as the noise; omission by a fixed rule loses nothing."""
    public = with_unit(total() & nonnegative(), records)
    release = ppd.PostProcessed(public, epsilon="1/2").release(TABLE)
    for found in (release.guarantee, release.noisy.guarantee):
        assert found.loss_of_unit == 2 * records * Fraction(1, 2)
    assert ppd.Suppression(public).guarantee.loss_of_unit == 0


def test_the_models_of_composed_pufferfish_guarantees_are_those_of_all():
    """With distances 2 and 4 the sum of the losses holds for distance 2 only: log ratios by enumeration."""
    counts = np.array([(k, 12 - k) for k in range(13)])
    public = ppd.invariants.total() & ppd.invariants.nonnegative()
    stated = {"secrets": "whether one person is a case"}
    one, other = (
        ppd.WassersteinExponential(public, epsilon=epsilon, sensitivity=distance, **stated).release(counts[3]).guarantee
        for epsilon, distance in ((1, 2), ("1/2", 4))
    )
    both = compose(one, other, independent=True)

    def log_ratio(steps):
        worst = 0.0
        for k in range(13 - steps):
            total = 0.0
            for epsilon, distance in ((1, 2), (0.5, 4)):
                log = -epsilon * abs(counts[None] - counts[[k, k + steps], None]).sum(axis=2) / (2 * distance)
                laws = log - logsumexp(log, axis=1, keepdims=True)
                total += abs(laws[0] - laws[1]).max()
            worst = max(worst, total)
        return worst

    assert log_ratio(1) <= both.epsilon < log_ratio(2)
    assert "in l1 and in which, at the same time, the secret moves" in both.describe()
    assert compose(both, one, independent=True).models == both.models
