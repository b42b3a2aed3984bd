"""Tables to try things on: one embedded by code, and loaders of CSV files."""

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
