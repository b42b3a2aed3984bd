"""A posterior of rates from one release, and the stand-alone page that tells its story."""

from ppdinf.report.analysis import RateAnalysis as RateAnalysis
from ppdinf.report.analysis import analyse_rates as analyse_rates
from ppdinf.report.page import write_report as write_report

__all__ = ["RateAnalysis", "analyse_rates", "write_report"]
