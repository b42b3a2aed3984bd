"""Results as self-contained pages.

A page is one HTML file that loads no other file. All pages have one template: the verdict and the finding in a box,
then the figure, the table, the guarantee in short, and the rest behind folds.

analysis_report  A rate analysis of a release, and its page.
denoised_report  Published measurements of a table and its posterior without a user-written model, as one page.
page             Parts of a page, tables and figures on it, and the template.
other_reports    Pages of bounds, of plans, and of scores of methods.
"""

from ppdinf.report.analysis_report import RateAnalysis, analyse_rates, write_report
from ppdinf.report.denoised_report import write_denoised
from ppdinf.report.other_reports import write_bounds, write_plan, write_scores

__all__ = [
    "RateAnalysis", "analyse_rates", "write_bounds", "write_denoised",
    "write_plan", "write_report", "write_scores",
]  # fmt: skip
