"""Everything published about one table by any source: noisy sums with their distributions, exact sums, bounds.

The subpackage converts labels and published numbers to rows of integers and distributions. It does not draw or infer.

column_roles        Which columns of a published table are labels, published values, flags of values, and neither.
entries             Published numbers, each of a sum of cells with its own noise distribution.
labelled_numbers    Labels of a table without counts, and numbers matched to its sums by label.
measured            One published array of noisy sums, and the distribution of its noise.
measurement_file    Files of measurements: a sealed archive of JSON and CSV, like release files.
measurement_reader  Reading of measurement files, with verification of every byte.
measurements        Everything published about one table: noisy sums, exact sums, and bounds.
published_table     Measurements from published tables as they are: numbers, ranges, percentages and suppression marks.
row_totals          Rows of totals among the rows of a published table, and what was understood of the table.
same_noise          Refusal of releases that occur twice: their noise would count as two independent draws.
window_sums         Published sums along a dimension: cumulative sums, rolling sums, and changes of rolling sums.
"""

from ppdinf.measurements.measured import Measured, measured
from ppdinf.measurements.measurement_reader import read_measurements, read_ppd
from ppdinf.measurements.measurements import Measurements
from ppdinf.measurements.published_table import read_published

__all__ = ["Measured", "Measurements", "measured", "read_measurements", "read_ppd", "read_published"]
