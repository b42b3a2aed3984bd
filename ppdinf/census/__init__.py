"""Noisy measurement files of the 2020 Census: reading, simulation, and geography.

Rule: files in, measurements of labelled cells out; invalid rows are refused with file, row and column.

block_measurements  Rows of the files as measurements of a labelled table: noisy sums, exact sums, zeros, bounds.
columns             A batch of rows of a file as arrays, checked as columns.
geography           Coordinates of cells from codes: every level of a tree by prefix, and areas off the tree.
housing             Occupied housing units from the files of units: one count for each geounit.
missing_geounits    Geounits without rows in the files: the total of a geounit compared with the sum over its children.
noisy_files         Unchanged rows of the files, for chosen places, levels and queries.
schema              Histograms of the files: axes, their labels, and their groupings by queries.
simulate            Files with the same schema, simulated from a given table.
strategies          Variances of the noise by level and query, including the production settings.
"""

from ppdinf.census.block_measurements import read_nmf as read_nmf
from ppdinf.census.geography import off_spine_areas as off_spine_areas
from ppdinf.census.geography import tree as tree
from ppdinf.census.housing import read_occupied as read_occupied
from ppdinf.census.noisy_files import read_rows as read_rows
from ppdinf.census.schema import PERSONS as PERSONS
from ppdinf.census.schema import UNITS as UNITS
from ppdinf.census.schema import Axis as Axis
from ppdinf.census.schema import Histogram as Histogram
from ppdinf.census.simulate import simulate_nmf as simulate_nmf
from ppdinf.census.strategies import PERSONS_2020 as PERSONS_2020
from ppdinf.census.strategies import UNITS_2020 as UNITS_2020
from ppdinf.census.strategies import Strategy as Strategy

__all__ = [
    "PERSONS", "PERSONS_2020", "UNITS", "UNITS_2020", "Axis", "Histogram", "Strategy", "off_spine_areas",
    "read_nmf", "read_occupied", "read_rows", "simulate_nmf", "tree",
]  # fmt: skip
