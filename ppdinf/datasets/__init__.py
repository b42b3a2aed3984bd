"""Example tables, and strict readers of files.

Rule: a file is read unchanged or refused with line and column.

csv_rows       Rows of a CSV file as text, and counts read from text, for all readers.
epidemic       A fictitious state of 67 counties in a simulated epidemic: monthly cases and deaths.
epidemic_file  Monthly cases and deaths by county from CSV files, unchanged or refused.
public_files   Public tables that are too large for the package: files in the folder that PPDINF_DATA names.
table_file     Tables of counts from CSV files with one row per cell.
"""

from ppdinf.datasets.epidemic import epidemic as epidemic
from ppdinf.datasets.epidemic import simulate_epidemic as simulate_epidemic
from ppdinf.datasets.epidemic_file import read_epidemic as read_epidemic
from ppdinf.datasets.public_files import public_file as public_file
from ppdinf.datasets.table_file import read_table as read_table

__all__ = ["epidemic", "public_file", "read_epidemic", "read_table", "simulate_epidemic"]
