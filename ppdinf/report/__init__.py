"""Analyses as self-contained pages.

A page is one HTML file that loads no other file.

analysis_report  A rate analysis of a release, and its report as one HTML page.
denoised_report  Published measurements of a table and its posterior without a user-written model, as one page.
"""

from ppdinf.report.analysis_report import RateAnalysis as RateAnalysis
from ppdinf.report.analysis_report import analyse_rates as analyse_rates
from ppdinf.report.analysis_report import write_report as write_report
from ppdinf.report.denoised_report import write_denoised as write_denoised

__all__ = ["RateAnalysis", "analyse_rates", "write_denoised", "write_report"]
