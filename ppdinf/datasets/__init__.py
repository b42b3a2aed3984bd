"""Tables to try things on, and strict readers of files.

Rule: a file is read as written or refused with line and column.

csv_rows            rows of a CSV file as text, and counts read from text: the strict part that all loaders share
demonstration_file  demonstration files of census privacy: a count as it was published before, beside the protected
                    one
epidemic            A made-up state of 67 counties in a made-up epidemic: monthly cases and deaths over two years
epidemic_file       monthly cases and deaths by county from CSV files, exactly as written or not at all
health_files        monthly cases and deaths of a state's counties from the files that people download
public_files        public tables that are too large to come with the package: files in a folder that the variable
                    PPDINF_DATA names
table_file          any table of counts from a CSV file with one row per cell
"""

from ppdinf.datasets.demonstration_file import read_demonstration as read_demonstration
from ppdinf.datasets.epidemic import epidemic as epidemic
from ppdinf.datasets.epidemic import simulate_epidemic as simulate_epidemic
from ppdinf.datasets.epidemic_file import read_epidemic as read_epidemic
from ppdinf.datasets.health_files import read_county_series as read_county_series
from ppdinf.datasets.health_files import read_health_department as read_health_department
from ppdinf.datasets.public_files import public_file as public_file
from ppdinf.datasets.table_file import read_table as read_table

__all__ = [
    "epidemic", "public_file", "read_county_series", "read_epidemic", "read_health_department", "read_table",
    "simulate_epidemic",
]  # fmt: skip
