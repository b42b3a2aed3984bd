"""
Choosing epsilon
================

A curator plans a table of 67 counties and 5 age groups, whose totals by county are public. Users need counts of 50 with
a relative error of at most 10 %. The error of the noise does not depend on the counts, so that it can be planned before
any budget is spent.
"""

from fractions import Fraction

import matplotlib.pyplot as plt

import ppdinf as ppd

# %%
# The plan needs the labels of the table, the public sums and the mechanism.
public = ppd.invariants.margin("county")
losses = ["1/20", "1/10", "1/5", "2/5", "4/5", "8/5"]
labels = {"county": 67, "age": 5}
plan = ppd.plan(lambda loss: ppd.GeneralizedLaplace(public, epsilon=loss), labels, losses, sizes=[10, 50, 250])
print(plan.table.droplevel("noise of cells")[["sd", "cv_10", "cv_50", "cv_250"]].round(3))

# %%
# The inverse question: the smallest loss for the required error, and the guarantee of one person.
loss = plan.loss_for(cv="1/10", at=50)
print(f"epsilon = {loss}.", plan.guarantee(loss).describe_unit())


# %%
# At this loss, the noise of a count of 10 is half as large as the count.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
epsilons = [float(Fraction(text)) for text in losses]
for count, color in {10: "#D55E00", 50: "#0072B2", 250: "#009E73"}.items():
    axes.loglog(epsilons, 100 * plan.table[f"cv_{count}"], "o-", color=color, label=f"count of {count}")
axes.axhline(10, color="#767676", linestyle=":", label="required error")
axes.axvline(float(loss), color="#222222", linestyle="--", label=f"epsilon = {loss}")
axes.set_xticks(epsilons, losses)
axes.set_yticks([1, 10, 100], ["1 %", "10 %", "100 %"])
axes.minorticks_off()
axes.set(xlabel="epsilon, per unit of distance", ylabel="standard deviation of the noise / count")
axes.legend(frameon=False)
