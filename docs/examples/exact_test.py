"""
Fisher's exact test of a noisy table
====================================

A table of admissions by gender is published with privacy noise that keeps both margins. Fisher's exact test of
independence is valid for the confidential table, but not for the noisy one. The distribution of the noise is public, so
that an exact test exists for the noisy table, too. The table is department D of Bickel, Hammel and O'Connell (Science
187, 1975, 398-404), 792 applicants to Berkeley.
"""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import hypergeom

import ppdinf as ppd

# %%
# The noise has a standard deviation of 7 persons in each of the four cells.
text = "gender,admitted,rejected\nmen,138,279\nwomen,131,244\n"
table = pd.read_csv(io.StringIO(text), index_col="gender").rename_axis(columns="decision")
margins = ppd.invariants.margin("gender") & ppd.invariants.margin("decision")
mechanism = ppd.GeneralizedLaplace(margins, epsilon="1/20")
released = mechanism.simulate(table, draws=1, rng=4)[0]
print(released.to_pandas())

# %%
# With both margins exact, one number describes a table: the admitted men. If gender and decision are independent, the
# confidential number is hypergeometric. The released number is this number plus noise, whose probabilities follow
# from ``logp``. Their convolution is the exact distribution of the released number.
men, admitted, persons = int(released[0].sum()), int(released[:, 0].sum()), int(released.sum())
x = np.arange(max(0, men + admitted - persons), min(men, admitted) + 1)
fisher = hypergeom(persons, men, admitted).pmf(x)
k = np.arange(-120, 121)
noise = np.exp([mechanism.logp(released + step * np.array([[1, -1], [-1, 1]]), released) for step in k])
noise /= noise.sum()
y, null = np.arange(x[0] + k[0], x[-1] + k[-1] + 1), np.convolve(fisher, noise)
naive = np.interp(y, x, fisher, left=0, right=0)


# %%
# The p-value is the probability of all numbers that are at most as probable as the released number.
def p_value(law, seen):
    return law[law <= law[y == seen] * (1 + 1e-9)].sum()


seen = int(released[0, 0])
wrong = sum(null[y == seen] for seen in y if p_value(naive, seen) <= 0.05).item()
print(f"p = {p_value(null, seen):.2f} with the noise, {p_value(naive, seen):.2f} without it")
print(f"At the level of 5 %, the test without the noise rejects {wrong:.0%} of independent tables.")

# %%
# The noise widens the distribution of the released number.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.step(y, null, where="mid", color="#0072B2", label="independence and noise")
axes.step(y, naive, where="mid", color="#D55E00", label="independence, noise ignored")
axes.axvline(seen, color="#222222", linestyle="--", label="released number")
middle = men * admitted / persons
axes.set(xlim=(middle - 50, middle + 50), xlabel="admitted men (persons)", ylabel="probability")
axes.legend(frameon=False)
