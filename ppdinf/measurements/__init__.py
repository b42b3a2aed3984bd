"""What was published about one table, from whatever source: noisy sums with their laws, exact sums, bounds.

Rule: labels and published numbers in, rows of integers and laws out; nothing here draws or infers.

entries             published numbers, each of a sum of cells with a law of its own
label_frame         labels and coordinates of a table whose counts are not published
measured            one published array of noisy sums, and the law of its noise
measured_rows       numbers onto the rows of a statement, by label wherever they have labels
measurement_file    files of measurements: a sealed archive of JSON and CSV, as release files are
measurement_reader  reading files of measurements, every byte of which is verified before it is believed
measurements        everything published about one table: noisy sums, what is exact, and bounds
"""

from ppdinf.measurements.measured import Measured as Measured
from ppdinf.measurements.measured import measured as measured
from ppdinf.measurements.measurement_reader import read_measurements as read_measurements
from ppdinf.measurements.measurement_reader import read_published as read_published
from ppdinf.measurements.measurements import Measurements as Measurements

__all__ = ["Measured", "Measurements", "measured", "read_measurements", "read_published"]
