"""Cells whose log weights are ratios of gamma functions, given exact totals of disjoint groups, at a few real nodes.

gamma_ratios  Log weights that are ratios of gamma functions, with bounds off the real line.
gamma_sums    Sums of cells whose log weights are ratios of gamma functions: value and gradient.
panel_sums    Sums of cells given their total, from the nodes of the panels of every cell.
panels        Runs of integers that a few real nodes replace, with error bounds.
"""
