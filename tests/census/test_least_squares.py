"""Production noise from the simulator through files and reader: least squares has its stated errors, query by query.

Sixty geounits with the variances of counties. For each of the eleven queries, a squared error divided by its variance
is added over all files, which are independent: chi-square at p > 1e-6, one false alarm in 90,000 runs. Noise twice as
wide as stated would be detected in every query.
"""

import numpy as np
import pytest
import scipy.sparse as sp
import xarray as xr
from scipy.stats import chi2

from ppdinf.census import PERSONS, PERSONS_2020, read_nmf, simulate_nmf

CODES, RARE, DATA = [f"044{k:05d}" for k in range(60)], 1e-6, "US_Person_PL_PROD"


@pytest.mark.deep
def test_errors_are_those_stated(tmp_path):
    rng = np.random.default_rng(5)
    table = np.zeros((len(CODES), *PERSONS.shape), dtype=np.int64)
    table[:, 0] = rng.poisson(3, table[:, 0].shape)
    axes = {axis.name: list(axis.labels) for axis in PERSONS.axes}
    persons = xr.DataArray(table, coords={"county": CODES, **axes})
    kinds = {"county": CODES, "hhgq": axes["hhgq"]}
    facilities = xr.DataArray(np.zeros((len(CODES), 8), dtype=np.int64), coords=kinds)
    simulate_nmf(persons, PERSONS_2020, tmp_path, DATA, {}, leaf="County", facilities=facilities, rng=rng)
    found = np.zeros((len(CODES), len(PERSONS_2020.squared_sigmas["County"])))
    for own, code, truth in zip(found, CODES, table, strict=True):
        seen = read_nmf(tmp_path, DATA, PERSONS, within=code)
        inside = ~seen.public.empty
        assert inside.sum() == 252  # households only
        entries, precision = seen.entries, np.empty(seen.entries.y.size)
        for form, rows in entries.forms:
            precision[rows] = 1 / float(form.law.variance)
        Q = entries.matrix[:, inside].astype(float)
        covariance = np.linalg.inv((Q.T @ sp.diags_array(precision) @ Q).toarray())
        off = covariance @ (Q.T @ (precision * entries.y)) - truth.ravel()[inside]
        first = [part.matrix[:, inside][[0]].toarray()[0] for part in seen.parts]
        own[:] = [(q @ off) ** 2 / (q @ covariance @ q) for q in first]
    total = found.sum(axis=0)
    p = chi2.sf(total, len(CODES))
    assert (np.minimum(p, 1 - p) > RARE).all()
    assert (chi2.sf(4 * total, len(CODES)) < RARE).all()
