"""Large inputs are refused by name, before computation, in negligible time and memory."""

import time
import tracemalloc

import numpy as np
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.invariants import at_least, margin, nonnegative, total
from ppdinf.mechanisms import DoubleGeometric, Staircase
from ppdinf.privacy import conditioning_cost, delta_z_counts, secret_pair, wasserstein_infinity

LARGE = 330_000_000


class Small:
    """Refuse more than 100 MB, or ten seconds."""

    def __enter__(self):
        tracemalloc.start()
        self.started = time.process_time()

    def __exit__(self, *error):
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100e6
        assert time.process_time() - self.started < 10


CONDITIONED = {
    "one total": (total() & nonnegative(), [LARGE, 0, 7]),
    "margins": (margin("dim_0") & margin("dim_1") & nonnegative(), [[LARGE, 3], [0, LARGE]]),
    "linked": (total() & nonnegative() & at_least(0, 1, dim="dim_0"), [LARGE, 5, 2]),
}


@pytest.mark.parametrize("where", CONDITIONED)
def test_guarantees_of_large_totals(where):
    """The cells of three persons and of the whole population take the same time."""
    public, table = CONDITIONED[where]
    mechanism, table = ppd.Conditioned(public, noise=DoubleGeometric("1/2")), np.array(table)
    with Small():
        found = ppd.Release(table, mechanism).guarantee
    assert found.gamma > 0
    with Small():  # climbing along moves as long as the total
        cost = conditioning_cost(mechanism, public.on(np.minimum(table, 10**5)), search=0)
    assert cost.gamma > 0


def test_the_search_for_a_lower_bound_steps_to_the_ends_of_lines():
    """A line through a table ends at a bound, at any distance."""
    public = margin("dim_0") & margin("dim_1") & nonnegative()
    table = np.array([[40, 3, 0], [2, 30, 9]])
    mechanism = ppd.Conditioned(public, noise=DoubleGeometric("1/2"))
    found = conditioning_cost(mechanism, public.on(table), search=20, rng=1)
    assert 0 < found.lower <= found.gamma


@pytest.mark.parametrize("noise", [DoubleGeometric("1e-9"), Staircase("1e-9", sensitivity=2)])
def test_noise_that_is_too_wide_to_tabulate_is_refused(noise):
    public = total() & nonnegative()
    with Small(), pytest.raises(InvariantError, match=r"noise this wide under 1 public sums over 3 cells"):
        ppd.Conditioned(public, noise=noise).release(np.array([2**50, 2**50, 2**49]))


def test_narrow_bounds_need_no_wide_tables():
    released = ppd.Conditioned(total() & nonnegative(), noise=DoubleGeometric("1e-9")).release(np.array([3, 0, 2]))
    assert int(released.table.sum()) == 5


@pytest.mark.parametrize(
    "refused",
    [
        lambda: secret_pair(10**9, 0, "1/3"),
        lambda: delta_z_counts(10**7, "1/3", "1/2"),
        lambda: wasserstein_infinity(stats.binom(10**11, 0.5), stats.binom(10**11, 0.25)),
        lambda: wasserstein_infinity(*({(k, j): 1 / 2000 for k in range(2000)} for j in range(2))),
    ],
)
def test_laws_that_are_too_large_to_list_are_refused(refused):
    with Small(), pytest.raises(PrivacyError, match=r"more than|from 1 to 10000|the limit is 1,000,000"):
        refused()


def test_measurements_are_counted_before_they_are_listed():
    public = total() & nonnegative()
    tables = np.array([[0, LARGE], [LARGE, 0]])
    with Small(), pytest.raises(InvariantError, match="more than 200,000 measurements"):
        ppd.PostProcessed(public, epsilon=1).push(public.on(tables[0]), tables, reach=2)


def test_noise_is_too_wide_before_it_is_drawn():
    """A refusal that depends on the draw would truncate the law for users who draw again."""
    with pytest.raises(PrivacyError, match="limit of exact integers"):
        ppd.GeneralizedLaplace(total(), epsilon="1e-12", norm="l2").sampler_plan([3, 1, 2])
    ppd.GeneralizedLaplace(total(), epsilon="1e-6", norm="l2").sampler_plan([3, 1, 2])
    for count, allowed in ((2**52, True), (2**52 + 1, False)):
        mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1)
        if allowed:
            mechanism.release([count, 1])
            continue
        with pytest.raises(CountError, match=r"dim_0=0 exceeds 2\*\*52"):
            mechanism.release([count, 1])
