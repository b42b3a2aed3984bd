"""What was published about one table, from whatever source: noisy sums with their laws, exact sums, bounds.

Rule: labels and published numbers in, rows of integers and laws out; nothing here draws or infers.

entries          published numbers, each of a sum of cells with a law of its own
file             files of measurements: a sealed archive of JSON and CSV, as release files are
frame_of_labels  labels and coordinates of a table whose counts are not published
measured         one published array of noisy sums, and the law of its noise
measurements     everything published about one table: noisy sums, what is exact, and bounds
reading          reading files of measurements, every byte of which is verified before it is believed
rows             numbers onto the rows of a statement, by label wherever they have labels
"""

from ppdinf.measurements.measured import Measured as Measured
from ppdinf.measurements.measured import measured as measured
from ppdinf.measurements.measurements import Measurements as Measurements
from ppdinf.measurements.reading import read_measurements as read_measurements
from ppdinf.measurements.reading import read_published as read_published

__all__ = ["Measured", "Measurements", "measured", "read_measurements", "read_published"]
