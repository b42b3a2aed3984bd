"""Chi-square tests of draws against an enumerated law."""

import numpy as np
from scipy import stats


def p_value(values, law, least=5):
    """Return the p-value of integer draws 0, 1, ... with the probabilities `law`.

    Values with an expected count below `least` are combined, with the most probable value if they are too few. Draws of
    probability 0 give the p-value 0.
    """
    law = np.asarray(law, dtype=float).ravel()
    values = np.asarray(values)
    seen = np.bincount(values, minlength=law.size)
    if seen[law.size :].any() or seen[: law.size][law == 0].any():
        return 0.0
    often = law * values.size >= least
    if 0 < law[~often].sum() * values.size < least:
        often[law.argmax()] = False
    observed, expected = np.append(seen[often], seen[~often].sum()), np.append(law[often], law[~often].sum())
    kept = expected > 0
    if kept.sum() < 2:
        return 1.0
    return float(stats.chisquare(observed[kept], expected[kept] / expected[kept].sum() * values.size).pvalue)


def p_value_of_tables(draws, tables, law, least=5, complete=True):
    """Return the p-value of draws, one per row, with the probabilities `law` of the listed `tables`.

    Draws that are not listed give the p-value 0 if the list is `complete`; otherwise they count as a rare table.
    """
    law, tables = np.asarray(law, dtype=float).ravel(), np.asarray(tables)
    number = {tuple(table): k for k, table in enumerate(tables.reshape(len(tables), -1).tolist())}
    other = law.size if complete else int(law.argmin())
    return p_value([number.get(tuple(draw), other) for draw in draws.reshape(len(draws), -1).tolist()], law, least)
