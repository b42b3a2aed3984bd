"""
A year with a budget
====================

A health department publishes cases every month. It decides once how much privacy one person may lose in a year. A
session writes every loss to a file before noise is drawn, and refuses releases that would exceed the budget. Here a
correction in November uses the budget of December. The cases are made up.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import ppdinf as ppd

# %%
# The budget allows twelve months at epsilon = 1/8. Every release opens the file again, as a process on another day
# would. The file contains the losses and no count.
monthly = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/8")
names = [*(f"2024-{month:02d}" for month in range(1, 12)), "2024-11, corrected", "2024-12"]
rng, refused = np.random.default_rng(1), []
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "cases-2024.budget")
    ppd.Session.open(file, epsilon="3/2")
    for name in names:
        cases = pd.Series(rng.poisson(40, 8), index=pd.Index(list("ABCDEFGH"), name="county"))
        try:
            ppd.Session.open(file).release(monthly, cases, name=name).save(Path(folder, f"{name}.ppd"))
        except ppd.errors.BudgetError as error:
            refused.append(name)
            print(f"{name} is refused: {error}")
    session = ppd.Session.open(file)
    record, guarantee = session.table(), session.guarantee
print(f"All releases together: one person can lose at most epsilon = {guarantee.loss_of_unit}.")

# %%
# The correction uses the last part of the budget.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
spent = record.epsilon.cumsum()
axes.barh(record.name, spent, color="#0072B2", label="spent")
tried = spent.iloc[-1] + float(monthly.epsilon)
axes.barh(refused, tried, color="white", edgecolor="#D55E00", hatch="//", label="refused")
axes.axvline(float(session.budget.total["epsilon"]), color="#222222", linestyle="--", label="budget")
axes.invert_yaxis()
axes.set(xlabel="epsilon of all releases so far, per unit of distance", ylabel="release")
axes.legend(frameon=False, loc="upper center")
