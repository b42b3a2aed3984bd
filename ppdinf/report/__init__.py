"""Analyses and case studies as pages that stand alone.

Rule: one file, nothing to load from anywhere.

analysis_report  from a release to everything that a report shows: posterior, checks, table of cells, figures
denoised_report  what was published about a table, and its posterior without a model, as one page that stands alone
html_page        the stand-alone HTML page: one file, figures inside, nothing to load from anywhere
study            what every case study shares: claims with numbers, figures, one page; replicates that survive an
                 interruption
"""

from ppdinf.report.analysis_report import RateAnalysis as RateAnalysis
from ppdinf.report.analysis_report import analyse_rates as analyse_rates
from ppdinf.report.denoised_report import write_denoised as write_denoised
from ppdinf.report.html_page import write_report as write_report

__all__ = ["RateAnalysis", "analyse_rates", "write_denoised", "write_report"]
