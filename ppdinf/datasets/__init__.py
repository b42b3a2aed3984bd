"""Example tables, and strict readers of files.

Rule: a file is read unchanged or refused with line and column.

epidemic       Monthly cases and deaths by county: a fictitious state in a simulated epidemic, and its CSV files.
printed_lines  The rows of a published table among titles, second header rows, notes and footers.
table_file     Tables of counts from CSV files: where public files are, rows as text, one row per cell.
"""

from ppdinf.datasets.epidemic import epidemic as epidemic
from ppdinf.datasets.epidemic import read_epidemic as read_epidemic
from ppdinf.datasets.epidemic import simulate_epidemic as simulate_epidemic
from ppdinf.datasets.table_file import public_file as public_file
from ppdinf.datasets.table_file import read_table as read_table

__all__ = ["epidemic", "public_file", "read_epidemic", "read_table", "simulate_epidemic"]
