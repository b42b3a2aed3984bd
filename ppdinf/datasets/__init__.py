"""Example tables, and strict readers of files.

Rule: a file is read unchanged or refused with line and column.

epidemic      Monthly cases and deaths by county: a fictitious state in a simulated epidemic, and its CSV files.
printed_file  Tables as they are printed in text files, spreadsheets and frames: columns of text, and the line of each
              row. All readers of tables start from it.
table_file    Tables of counts from files with one row per cell, unchanged or refused, and where public files are.
"""

from ppdinf.datasets.epidemic import epidemic, read_epidemic, simulate_epidemic
from ppdinf.datasets.table_file import public_file, read_table

__all__ = ["epidemic", "public_file", "read_epidemic", "read_table", "simulate_epidemic"]
