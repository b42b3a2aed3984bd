"""Occupied housing units: against enumeration of all tables, and files that contradict themselves."""

import re
from itertools import product

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.census import UNITS, Strategy, read_occupied, read_rows, simulate_nmf
from ppdinf.errors import CountError, LabelError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

BLOCKS = ["04400001A", "04400001B", "04400001C", "04400003A"]
OCCUPIED, TOTAL = np.array([3, 0, 4, 2]), np.array([4, 0, 5, 2])
LEVELS = {"US": 40.0, "State": 3.0, "County": 2.0, "Block": 6.0}
STRATEGY = Strategy(UNITS, {level: {"detailed": s} for level, s in LEVELS.items()}, dict.fromkeys(LEVELS, ("total",)))


@pytest.fixture
def root(tmp_path):
    cells = np.stack([TOTAL - OCCUPIED, OCCUPIED], axis=1)
    table = xr.DataArray(cells, coords={"block": BLOCKS, "h1": ["vacant", "occupied"]})
    simulate_nmf(table, STRATEGY, tmp_path, "US_Unit_PL_PROD", {"US": 0, "State": 3, "County": 8}, rng=4)
    return tmp_path


def listed(root, p):
    """Log weights of all tables, from the rows of the files."""
    rows = read_rows(root, "US_Unit_PL_PROD", "DPQuery", UNITS)
    found = {}
    for x in product(*(range(n + 1) for n in TOTAL)):
        x = np.array(x)
        log_weight = stats.binom.logpmf(x, TOTAL, p).sum()
        for level, code, value in zip(rows["level"], rows["geocode"], rows["value"], strict=True):
            among = np.array([block.startswith(code) for block in BLOCKS])
            answer = np.array([(TOTAL - x)[among].sum(), x[among].sum()])
            log_weight -= ((value - answer) ** 2).sum() / (2 * LEVELS[level])
        found[tuple(x[TOTAL > 0].tolist())] = log_weight
    return found


@pytest.mark.quick_cases(0)
def test_posterior_is_that_of_all_tables(root):
    seen = read_occupied(root)
    assert seen.frame.coords["units"][1].tolist() == [4, 5, 2]
    assert seen.entries.y.size == 2 * (1 + 1 + 2 + 3)  # two values of each geounit with units
    with pm.Model(coords=seen.coords) as model:
        logit = pm.Normal("logit", 0, 1)
        units = seen.frame.coords["units"][1]
        ppd.PartiallyPrivate(
            "occupied", pm.Binomial.dist(units, pm.math.invlogit(logit)), release=seen, marginalize=True
        )
        log_p = model.compile_logp()
    at = (-1.0, 0.5)
    here = [float(log_p({"logit": a}) - stats.norm.logpdf(a)) for a in at]
    all_tables = [np.array(list(listed(root, 1 / (1 + np.exp(-a))).values())) for a in at]
    there = [np.logaddexp.reduce(log_weights) for log_weights in all_tables]
    assert here[1] - here[0] == pytest.approx(there[1] - there[0], abs=1e-6)
    wrong = [np.logaddexp.reduce(0.95 * log_weights) for log_weights in all_tables]
    assert abs(wrong[1] - wrong[0] - (here[1] - here[0])) > 1e-2  # everything 5 % weaker


def test_the_printed_bounds_are_true(root):
    """Each is a sentence on minus the occupied units, because bounds are printed with >=."""
    public = read_occupied(root).public
    stated = re.findall(r"-\(occupied units of (\w+)\) >= (-\d+)", str(public.public))
    assert stated == [("04400001A", "-4"), ("04400001C", "-5"), ("04400003A", "-2")]
    assert str(public.public).count(">=") == 3
    np.testing.assert_array_equal(public.B.toarray(), -np.eye(3))


def edited(root, level, change):
    for path in (root / "US_Unit_PL_PROD" / f"{level}.parquet" / "Constraint").rglob("*.parquet"):
        frame = pq.ParquetFile(path).read()
        place = frame.schema.names.index("value")
        pq.write_table(frame.set_column(place, "value", pa.array(change(frame.column("value").to_pylist()))), path)


def test_totals_that_contradict_their_parts(root):
    edited(root, "County", lambda own: [[n[0] + 1] for n in own])
    with pytest.raises(CountError, match=r"County.parquet/Constraint.*row 0, column 'value'"):
        read_occupied(root)


def test_totals_that_are_missing(root):
    (path,) = (root / "US_Unit_PL_PROD/Block.parquet/Constraint").rglob("*.parquet")
    pq.write_table(pq.ParquetFile(path).read().slice(1), path)
    with pytest.raises(LabelError, match="'04400001A' has no exact total"):
        read_occupied(root)
