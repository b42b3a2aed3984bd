"""
Persons who are on no list
==========================

A city estimates the number of its homeless persons from two registers. The size of each register is public. The number
of persons who are on both registers is published by district with privacy noise. The overlap informs the number of
persons who are on no register (capture and recapture). The numbers are made up.
"""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import ppdinf as ppd

# %%
# The noise of the column ``both`` has epsilon 1/8 and a standard deviation of 11 persons. The usual estimate, the
# product of the other columns divided by this column, is negative in district E.
text = """district,shelters,clinics,both
A,122,93,49
B,69,59,34
C,182,113,46
D,194,123,71
E,40,29,-4
F,66,50,19
G,66,48,20
H,60,43,10"""
lists = pd.read_csv(io.StringIO(text), index_col="district")

# %%
# Assume that the registers are independent and that clinics see the same share of persons in all districts. Then the
# overlap is binomial given the persons in shelters, and the number of other persons in clinics is Poisson.
seen = ppd.Measurements(
    {"district": lists.index},
    ppd.measured(ppd.invariants.margin("district"), lists.both, ppd.laws.DoubleGeometric("1/8")),
)
with pm.Model(coords=seen.coords) as model:
    coverage = pm.Beta("coverage", 2, 2)
    outside = pm.LogNormal("outside", np.log(100), 1, dims="district")  # persons who are not in shelters
    both = ppd.PartiallyPrivate("both", pm.Binomial.dist(n=lists.shelters.values, p=coverage), release=seen)
    clinics_only = pm.Poisson.dist(coverage * outside)
    pm.Potential("clinics", pm.logp(clinics_only, lists.clinics.values - both))
    idata = pm.sample(500, tune=500, chains=2, random_seed=1, progressbar=False, quiet=True)
persons = lists.shelters.to_xarray() + idata.posterior.outside
print(ppd.models.summary(persons.sum("district").rename("persons")).round())

# %%
# The posterior uses the overlap of all districts for the coverage of the registers.
by_district = ppd.models.summary(persons)
error = [by_district.estimate - by_district.lower, by_district.upper - by_district.estimate]
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.errorbar(by_district.estimate, lists.index, xerr=error, fmt="o", color="#0072B2", label="posterior, 90 % interval")
axes.plot(lists.shelters * lists.clinics / lists.both, lists.index, "D", color="#D55E00", label="usual estimate")
axes.invert_yaxis()
axes.set(xlabel="homeless persons", ylabel="district")
axes.legend(frameon=False)
