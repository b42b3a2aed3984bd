"""Chi-square tests of draws against an enumerated law."""

import numpy as np
from scipy import stats


def p_value(values, law, least=5):
    """Return the p-value of integer draws 0, 1, ... with the probabilities `law`.

    Values with an expected count below `least` are combined. Draws of probability 0 give the p-value 0.
    """
    law = np.asarray(law, dtype=float).ravel()
    values = np.asarray(values)
    seen = np.bincount(values, minlength=law.size)
    often = law * values.size >= least
    observed, expected = np.append(seen[often], seen[~often].sum()), np.append(law[often], law[~often].sum())
    kept = expected > 0
    if observed[~kept].any():
        return 0.0
    if kept.sum() < 2:
        return 1.0
    return float(stats.chisquare(observed[kept], expected[kept] / expected[kept].sum() * values.size).pvalue)


def p_value_of_tables(draws, tables, law, least=5):
    """Return the p-value of tables, shape (n, cells), with the probabilities `law` of the listed `tables`."""
    number = {tuple(table): k for k, table in enumerate(np.asarray(tables).tolist())}
    return p_value([number[tuple(table)] for table in np.asarray(draws).tolist()], law, least)
