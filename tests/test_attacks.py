"""Attacks on releases, and on naive publications that fail; false-alarm probabilities are below 1e-9 per test."""

import contextlib
import os
import warnings
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import BudgetError, CountError, LabelError, PpdinfError, PrivacyError, PrivacyWarning
from ppdinf.invariants import margin, total
from ppdinf.noise.primitives.integers import draw_discrete_laplace
from ppdinf.noise.primitives.stream import secure_stream

TABLE = np.array([30, 4, 12, 0, 7, 19])
OTHER = np.array([29, 5, 12, 0, 7, 19])  # one person counted elsewhere: the same total
SMALL, LARGE = np.array([0, 2048]), np.array([2048, 0])


def laplace(epsilon="1/4"):
    return ppd.GeneralizedLaplace(total(), epsilon=epsilon)


# --- least bits: doubles betray which table they were added to ---------------------------------------------------


def proves(y, x):
    """Whether released doubles cannot be sums of doubles and x: the sum x + z is a multiple of ulp(x)/2."""
    return np.any((x > 0) & (np.mod(y, np.where(x > 0, np.spacing(x.astype(float)) / 2, 1)) != 0), axis=-1)


def test_least_bits_prove_nothing():
    """Mironov 2012. From y near 0, where doubles are dense, a naive sum reveals that the cell was not 2,048."""
    rng = np.random.default_rng(1)
    naive = SMALL + rng.laplace(scale=400, size=(4000, 2))
    assert proves(naive, LARGE).mean() > 0.5
    assert not proves(naive, SMALL).any()
    for mechanism in (
        ppd.SubspaceGaussian(total(), epsilon=1, delta="1e-6"),
        ppd.SubspaceLaplace(total(), epsilon="1/100", method="extended"),
        ppd.KNorm(total(), epsilon="1/100"),
        ppd.CorrelatedGaussian(total(), epsilon=1, delta="1e-6"),
    ):
        drawn = mechanism.simulate(SMALL, draws=4000, rng=1).values
        grid = mechanism.release(SMALL).mechanism.grid
        assert not proves(drawn, LARGE).any()
        assert np.all(drawn / float(grid) == np.rint(drawn / float(grid)))


# --- tails of inversion: noise that a double cannot represent -----------------------------------------------------


def test_tails_are_unbounded():
    """Doubles in (0, 1) end at 2^-53: by inversion, noise is at most 37 / epsilon, and 53 bits make the tail coarse."""
    epsilon = Fraction(1, 4)
    naive = -np.log(2.0**-53) / float(epsilon)
    reached = []
    for extreme in (0, 2**64 - 1):
        for words in (1, 2, 3):
            left, source = [words], secure_stream()

            def stream(n, left=left, source=source, extreme=extreme):
                found = source(n)
                if left[0] > 0:
                    found[:] = extreme
                    left[0] -= 1
                return found

            reached.append(abs(int(draw_discrete_laplace(epsilon, 1, stream)[0])))
    assert max(reached) > naive + 1
    assert max(reached) > 1.9 * 64 * np.log(2) / float(
        epsilon
    )  # two 64-bit words for one bit: beyond the precision of one word


# --- tiny and huge epsilon ----------------------------------------------------------------------------------------


def test_extreme_losses_are_drawn_as_stated_or_refused():
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        naive = np.rint(TABLE + rng.laplace(scale=1e21, size=(200, 6))).astype(np.int64)
    assert (np.abs(naive.astype(float)) >= 2.0**63).mean() > 0.5  # casts that say nothing of it
    for wrong in ("1e-13", "1e7", 0, -1, float("nan"), float("inf"), "1e-400", 1e-320):
        with pytest.raises(PrivacyError):
            laplace(wrong)
    tiny = laplace("1e-9")
    noise = tiny.simulate(TABLE, draws=300, rng=1).values - TABLE
    assert np.all(noise.sum(axis=1) == 0)
    assert 0.8e9 < np.abs(noise).mean() < 1.1e9
    assert np.all(laplace("1e6").simulate(TABLE, draws=50, rng=1).values == TABLE)
    assert laplace("1e6").guarantee.loss(2) == 2 * 10**6  # which protects nothing, as stated
    with pytest.raises(CountError, match=r"exceeds 2\*\*52"):
        laplace().release(np.array([2**52 + 1, 3, 4]))


# --- seeds --------------------------------------------------------------------------------------------------------


def seeds_that_fit(y, mechanism, seeds):
    """Subtract the noise of each seed; the remainder is a table only for the right seed, except by chance."""
    blank = np.zeros_like(TABLE)
    return [s for s in seeds if np.all(y - mechanism.simulate(blank, draws=1, rng=s).values[0] >= 0)]


def test_no_seed_recovers_the_table():
    """Six cells with noise of several hundred: a wrong seed leaves no count below 0 in less than 1 of 50 cases."""
    mechanism, seeds = laplace("1/200"), range(180, 240)
    naive = mechanism.simulate(TABLE, draws=1, rng=207).values[0]
    found = seeds_that_fit(naive, mechanism, seeds)
    assert 207 in found
    assert np.array_equal(naive - mechanism.simulate(np.zeros_like(TABLE), draws=1, rng=207).values[0], TABLE)
    np.random.seed(207)  # noqa: NPY002  (what a careless script would set)
    released = mechanism.release(TABLE).table.values
    recovered = [
        s
        for s in seeds
        if np.array_equal(released - mechanism.simulate(np.zeros_like(TABLE), draws=1, rng=s).values[0], TABLE)
    ]
    assert recovered == []
    with pytest.raises(PrivacyError, match="takes no 'rng'"):
        mechanism.release(TABLE, rng=207)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_workers_draw_different_noise():
    """Two copies of a generator draw the same noise, so that two releases differ by the difference of the tables."""
    generator, mechanism = np.random.default_rng(1), laplace("1/1000")
    mechanism.release(TABLE)  # compiled, with all state that could be shared
    answers = []
    for table in (TABLE, OTHER):
        read, write = os.pipe()
        if not os.fork():
            noise = np.rint(generator.laplace(scale=1000, size=6)).astype(np.int64)
            os.write(write, np.stack([table + noise, mechanism.release(table).table.values]).tobytes())
            os._exit(0)
        os.wait()
        answers.append(np.frombuffer(os.read(read, 1000), dtype=np.int64).reshape(2, 6))
        os.close(read)
        os.close(write)
    difference = answers[0] - answers[1]
    assert np.array_equal(difference[0], TABLE - OTHER)
    assert not np.array_equal(difference[1], TABLE - OTHER)


# --- integers that overflow, labels that are joined silently --------------------------------------------------------


def test_large_counts_do_not_wrap():
    huge = np.array([2**62, 2**62, 5])
    with np.errstate(over="ignore"):
        assert huge.sum() < 0  # a total that NumPy makes of it
    for wrong in (huge, huge.astype(float), huge.astype(np.uint64) * 2, np.array([2.0**70, 1, 2])):
        with pytest.raises(CountError):
            laplace().release(wrong)
        with pytest.raises(CountError):
            total().on(wrong)
    weights = np.array([[2**40, 2**40, 2**40]])
    with pytest.raises(PpdinfError):
        ppd.invariants.linear(weights, ["weighted"]).on(np.array([2**40, 2**40, 2**40]))


def test_tables_are_not_joined_by_the_labels_that_they_share():
    a = xr.DataArray([3, 4, 5], dims="c", coords={"c": ["x", "y", "z"]})
    b = xr.DataArray([3, 4, 5], dims="c", coords={"c": ["y", "z", "w"]})
    assert (a + b).size == 2  # labels that are not shared are dropped
    with pytest.raises(LabelError):
        laplace().logp(a, b)
    with pytest.raises(LabelError):
        ppd.Release(a, laplace(), public=total().on(b))
    with pytest.raises(LabelError, match="reindex it to the same order"):
        laplace().logp(a, a.isel(c=[2, 0, 1]))


# --- attributes and order of a table --------------------------------------------------------------------------------


def test_order_and_attributes_reveal_nothing(tmp_path):
    import pandas as pd

    rng = np.random.default_rng(1)
    persons = pd.Series(rng.choice(list("abcdef"), p=[0.2, 0.05, 0.3, 0.12, 0.25, 0.08], size=3000))
    counted = persons.rename("county").value_counts()
    assert counted.index.tolist() == counted.sort_values(ascending=False).index.tolist()  # the ranking, as a CSV has it
    with pytest.warns(PrivacyWarning, match="in the order of their counts"):
        laplace("1/1000").release(counted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        released = laplace("1/1000").release(counted.sort_index())
    assert released.table["county"].values.tolist() == list("abcdef")
    table = ppd.as_table(counted.sort_index())
    table.attrs["confidential"] = counted.to_dict()
    table.name = str(counted.max())
    laplace("1/1000").release(table).save(tmp_path / "r.ppd")
    data = (tmp_path / "r.ppd").read_bytes()
    assert b"confidential" not in data
    naive = table.to_series().to_csv().encode() + str(table.attrs).encode()
    assert str(int(counted.max())).encode() in naive
    with pytest.raises(LabelError, match="nothing declares"):
        laplace().release(table.assign_coords(diagnosed=(table.dims[0], table.values)))


# --- many releases: lucky ones, and averages ------------------------------------------------------------------------


def test_repeated_draws_and_averages_end_with_the_budget(tmp_path):
    """Without a session both attacks work: of 400 releases the best is near the table, and their mean equals it."""
    mechanism = laplace("1/10")
    naive = np.array([mechanism.release(TABLE).table.values for _ in range(400)])
    one = mechanism.expected_error((6,))["sd"].iloc[0]
    assert np.array_equal(np.abs(naive.mean(axis=0) - TABLE) < one / 3, [True] * 6)
    errors = np.abs(naive - TABLE).sum(axis=1)
    assert errors.min() < 0.5 * np.median(errors)
    session, drawn = ppd.Session.open(tmp_path / "cases.budget", epsilon="2/5"), []
    with contextlib.suppress(BudgetError):
        for _ in range(400):
            drawn.append(session.release(mechanism, TABLE))
    assert len(drawn) == 4
    assert session.left == {"epsilon": 0}
    # the information of four releases is at most that of one release with four times the loss
    assert session.guarantee.loss(2) == laplace("2/5").guarantee.loss(2)


# --- errors --------------------------------------------------------------------------------------------------------

ATTEMPTS = {
    "a coordinate": lambda t: laplace().release(ppd.as_table(t).assign_coords(extra=("dim_0", list("abcdef")))),
    "a seed": lambda t: laplace().release(t, seed=1),
    "a fraction": lambda t: laplace().release(t + 0.5),
    "another shape": lambda t: laplace().logp(t, t[:3]),
    "a broken domain": lambda t: ppd.GeneralizedLaplace(ppd.invariants.labels("dim_0", list("ab")), epsilon=1).release(
        t
    ),
    "a bound": lambda t: ppd.Conditioned(
        total() & ppd.invariants.between(0, 10), noise=ppd.laws.DoubleGeometric(1)
    ).release(t),
    "too narrow": lambda t: ppd.GeneralizedGaussian(margin("dim_0"), sigma="1/1000").release(t),
    "a zero": lambda t: ppd.GeneralizedLaplace(ppd.invariants.zeros({"dim_0": 0}), epsilon=1).release(t),
    "an unknown label": lambda t: ppd.GeneralizedLaplace(margin("county"), epsilon=1).release(t),
    "a domain of counts": lambda t: ppd.counts.TwoStage(1, 10).release(t),
}


def messages(attempt, table):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            attempt(table)
        except PpdinfError as error:
            return type(error), str(error)
    return [str(warning.message) for warning in caught]


def naive_release(table):
    """As scripts do: refuse negative counts, and report them."""
    if (table < 5).any():
        raise ValueError(f"small count {table.min()} in cell {table.argmin()}: suppress it")


@pytest.mark.parametrize("name", ATTEMPTS)
def test_errors_are_the_same_for_neighbouring_tables(name):
    """Moving one person changes no error or warning, and no message contains a count."""
    first, second = messages(ATTEMPTS[name], TABLE), messages(ATTEMPTS[name], OTHER)
    assert first == second
    canary = TABLE * 0 + [70_123_457, 80_234_567, 90_345_679, 0, 91_456_787, 60_567_891]
    assert not [count for count in canary[canary > 0] if str(count) in str(messages(ATTEMPTS[name], canary))]
    with pytest.raises(ValueError, match="small count 4") as one:
        naive_release(TABLE[[0, 1, 2, 4, 5]])
    with pytest.raises(ValueError, match="small count 3") as other:
        naive_release(TABLE[[0, 1, 2, 4, 5]] - [0, 1, 0, 0, 0])
    assert str(one.value) != str(other.value)
