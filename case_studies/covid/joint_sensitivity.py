"""Delta_z and privacy loss of joint tables of cases and deaths, for one person's status, by enumeration.

Persons are cases independently with a common probability, and a case has died independently with probability
`fatality`. The state's cases are public, its deaths are not. A person has no case, survived or died. A table is
(cases, deaths) of the person's county, then of all others.

Two statuses move at most this person's case and another person's: the others have one case more or less, anywhere.
With both deaths this changes four counts by 1, so Delta_z is at most 4 in l1 and 2 in l2. Tables in which all cases
are in other counties and have died are that far from every table with a death of this person. `run.py` in this folder
calls this module.
"""

from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
from scipy.special import gammaln

from ppdinf.privacy import delta_z

NORMS = ("l2", "l1")
DELTA_Z = {"l2": 2, "l1": 4}  # of one person's status: died, or no case
SECRETS = (("died", "no case"), ("case", "no case"), ("survived", "no case"), ("died", "survived"))
FATALITIES = (Fraction(1, 50), Fraction(1, 2), Fraction(9, 10))
STATES = ((2, 3, 2), (3, 5, 4))  # other persons of the county, persons elsewhere, cases of the state
LARGER_STATES = (*STATES, (1, 100, 8))
BASE = np.array([0.05, 0.3])  # concentration of the prior base measure in the two counties


def stated(epsilon, norm):
    """Describe the noise of rate epsilon / 4: it is stated with epsilon in l2, and with twice as much in l1."""
    return f"epsilon {epsilon * DELTA_Z[norm] / 2:g}, {norm} loss"


def binomial(n, k, p):
    """Return a binomial probability as a fraction."""
    return comb(n, k) * p**k * (1 - p) ** (n - k)


def laws(first, others, total, fatality):
    """Return the laws of the table given each status of one person, with `first` other persons in the county."""
    found = {}
    for status, (case, death) in {"no case": (0, 0), "survived": (1, 0), "died": (1, 1)}.items():
        left, law = total - case, {}
        for k in range(max(0, left - others), min(first, left) + 1):
            here = Fraction(comb(first, k) * comb(others, left - k), comb(first + others, left))
            for a in range(k + 1):
                for b in range(left - k + 1):
                    cells = case + k, death + a, left - k, b
                    law[cells] = here * binomial(k, a, fatality) * binomial(left - k, b, fatality)
        found[status] = law
    of_case = {cells: (1 - fatality) * p for cells, p in found["survived"].items()}
    for cells, p in found["died"].items():
        of_case[cells] = of_case.get(cells, 0) + fatality * p
    return found | {"case": of_case}


def sensitivities():
    """Tabulate Delta_z by pair of statuses, norm and fatality: the largest over small states."""
    rows = {f"{s} / {t}": {} for s, t in SECRETS}
    for fatality in FATALITIES:
        every = [laws(*state, fatality) for state in STATES]
        for norm in NORMS:
            for s, t in SECRETS:
                found = float(delta_z([(law[s], law[t]) for law in every], norm=norm))
                rows[f"{s} / {t}"][f"{norm}, {float(fatality):g} die"] = found
    return pd.DataFrame(rows).T.rename_axis("statuses")


def loss(law, total, epsilon, norm, base=None):
    """Return the largest change of a release's log probability between statuses, rate epsilon / 4, given the total."""
    tables = np.array(
        [(c, a, total - c, b) for c in range(total + 1) for a in range(c + 1) for b in range(total - c + 1)]
    )
    apart = tables[:, np.newaxis] - tables
    away = np.abs(apart).sum(axis=2) if norm == "l1" else np.sqrt((apart**2).sum(axis=2))
    log_p = -epsilon / 4 * away
    if base is not None:
        log_p = log_p + (gammaln(tables[:, ::2] + base) - gammaln(tables[:, ::2] + 1)).sum(axis=1)
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    place = {tuple(cells): k for k, cells in enumerate(tables.tolist())}
    given = {
        status: np.array([float(p) for p in own.values()]) @ np.exp(log_p[[place[cells] for cells in own]])
        for status, own in law.items()
    }
    return max(float(np.abs(np.log(given[s] / given[t])).max()) for s, t in SECRETS)


def losses(epsilon=1):
    """Tabulate the enumerated loss of both base measures and norms at rate epsilon / 4, largest over all states."""
    every = [(laws(*state, fatality), state[-1]) for state in LARGER_STATES for fatality in FATALITIES]
    rows = {
        (name, norm): {
            "noise of epsilon": epsilon,
            "stated in this norm": epsilon * DELTA_Z[norm] / 2,
            "enumerated loss": max(loss(law, total, epsilon, norm, base) for law, total in every),
        }
        for name, base in (("congenial", None), ("prior", BASE))
        for norm in NORMS
    }
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.rename_axis(["method", "loss"])


def enter(study, paper):
    """Add both tables, and the claims about Delta_z of what is released: cases and deaths."""
    delta, lost = sensitivities(), losses()
    study.text(
        "The paper sets Delta_z = 2 and leaves the model open. Released are cases and deaths, so the secret is whether "
        "a person has no case, survived or died. In l2 Delta_z is 2. In l1 it is 4; 2 would be that of cases alone. "
        "Both norms have noise of rate epsilon / 4 here. In l1 this noise is stated with 2 epsilon by the mechanism "
        "with a base measure. Without constraints the normalizer does not depend on the table, so that the loss is at "
        "most 4 times the rate, which is epsilon.",
        heading="Delta_z of cases and deaths",
    )
    caption = "Delta_z of the table of cases and deaths, by the statuses of one person: largest over small states."
    study.table("sensitivity", delta, caption)
    caption = "Privacy loss at rate 1/4, enumerated for two counties: largest over small states and pairs of statuses."
    study.table("losses", lost, caption)
    for norm in NORMS:
        (found, *_), (case, *_) = (delta.filter(like=norm).loc[f"{s} / no case"] for s in ("died", "case"))
        source = f"{paper}.2, which leaves the model open" if norm == "l2" else "here; the paper's distance is l2"
        study.claim(
            f"Delta_z = {DELTA_Z[norm]} ({norm}) for one person's status, given the state's cases",
            source,
            str(DELTA_Z[norm]),
            f"{found:g} for died / no case, {case:.3g} for a case / no case",
            holds=abs(found - DELTA_Z[norm]) < 1e-9,
        )
    for norm in NORMS:
        row, stated_epsilon = lost.xs(norm, level="loss")["enumerated loss"], DELTA_Z[norm] / 2
        study.claim(
            f"noise of rate 1/4 loses at most the stated epsilon = {stated_epsilon:g} ({norm})",
            f"{paper}.2" if norm == "l2" else "here; the paper's distance is l2",
            f"{stated_epsilon:g}",
            ", ".join(f"{name} {value:.2f}" for name, value in row.items()),
            holds=row.max() <= stated_epsilon,
        )
