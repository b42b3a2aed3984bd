"""Analyses as self-contained pages.

A page is one HTML file that loads no other file.

analysis_report  Fit of a release, with everything that a report shows: posterior, checks, table of cells, figures.
denoised_report  Published measurements of a table and its posterior without a user-written model, as one page.
html_page        The self-contained HTML page of an analysis, with figures inside.
"""

from ppdinf.report.analysis_report import RateAnalysis as RateAnalysis
from ppdinf.report.analysis_report import analyse_rates as analyse_rates
from ppdinf.report.denoised_report import write_denoised as write_denoised
from ppdinf.report.html_page import write_report as write_report

__all__ = ["RateAnalysis", "analyse_rates", "write_denoised", "write_report"]
