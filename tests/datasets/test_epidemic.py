import numpy as np
import pytest

from ppdinf.datasets import epidemic, simulate_epidemic
from ppdinf.tables.table import as_table


def test_the_embedded_table_has_the_documented_shape_and_types():
    table = epidemic()
    assert dict(table.sizes) == {"county": 67, "month": 24}
    assert table.month.values.tolist()[:2] == ["2020-03", "2020-04"]
    assert table.month.values[-1] == "2022-02"
    assert table.cases.dtype == table.deaths.dtype == table.population.dtype == np.int64
    assert len(set(table.county.values)) == len(set(table.fips.values)) == 67
    assert all(len(code) == 5 and code.isdigit() for code in table.fips.values)
    as_table(table.cases)


def test_sizes_are_those_of_a_state():
    table = epidemic()
    assert 4_000 < table.population.min() < 6_000
    assert 1.3e6 < table.population.max() < 1.7e6
    quiet, peak = table.cases.sel(month="2021-07"), table.cases.sel(month="2022-01")
    assert 2_000 < quiet.sum() < 30_000
    assert peak.sum() > 10 * quiet.sum()
    assert (quiet < 30).sum() >= 10  # the small counts that noise hurts
    assert 0.002 < table.deaths.sum() / table.cases.sum() < 0.05


def test_cumulative_deaths_do_not_exceed_cases():
    table = simulate_epidemic(rng=3)
    assert (table.deaths.cumsum("month") <= table.cases.cumsum("month")).all()


def test_one_seed_gives_one_table_and_callers_cannot_spoil_the_next():
    first = epidemic()
    first["cases"][:] = 0
    assert epidemic().equals(simulate_epidemic(rng=2020))
    assert not simulate_epidemic(rng=1).equals(simulate_epidemic(rng=2))


@pytest.mark.parametrize("month", ["2020-04", "2020-11", "2021-08"])
def test_counts_are_overdispersed_and_autocorrelated(month):
    table = epidemic()
    rate = table.cases / table.population
    cases = table.cases.sel(month=month)
    expected = rate.sel(month=month).median() * table.population
    assert ((cases - expected) ** 2 / expected).mean() > 5
    before = rate.sel(month=table.month.values[table.month.values.tolist().index(month) - 1])
    assert np.corrcoef(np.log(rate.sel(month=month) + 1e-5), np.log(before + 1e-5))[0, 1] > 0.3
