"""Tables to try things on: one embedded by code, and a loader for public files of the same shape."""

from ppdinf.datasets.epidemic import epidemic as epidemic
from ppdinf.datasets.epidemic import simulate_epidemic as simulate_epidemic
from ppdinf.datasets.epidemic_file import read_epidemic as read_epidemic

__all__ = ["epidemic", "read_epidemic", "simulate_epidemic"]
