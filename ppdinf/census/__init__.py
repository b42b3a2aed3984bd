"""Noisy measurement files of the 2020 Census: reading, simulation, and geography.

Rule: files in, measurements of labelled cells out; invalid rows are refused with file, row and column.

block_measurements  Rows of the files as measurements of a labelled table, with a check for geounits that are missing.
geography           Coordinates of cells from codes: every level of a tree by prefix, and areas off the tree.
housing             Occupied housing units from the files of units: one count for each geounit.
noisy_files         Unchanged rows of the files, for chosen places, levels and queries, checked as columns.
schema              Histograms of the files: axes, labels, groupings by queries, and the variances of the noise by level
                    and query.
simulate            Files with the same schema, simulated from a given table.
"""

from ppdinf.census.block_measurements import read_nmf
from ppdinf.census.geography import off_spine_areas, tree
from ppdinf.census.housing import read_occupied
from ppdinf.census.noisy_files import read_rows
from ppdinf.census.schema import PERSONS, PERSONS_2020, UNITS, UNITS_2020, Axis, Histogram, Strategy
from ppdinf.census.simulate import simulate_nmf

__all__ = [
    "PERSONS", "PERSONS_2020", "UNITS", "UNITS_2020", "Axis", "Histogram", "Strategy", "off_spine_areas",
    "read_nmf", "read_occupied", "read_rows", "simulate_nmf", "tree",
]  # fmt: skip
