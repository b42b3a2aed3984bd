"""What was published about one table, from whatever source: noisy sums with their laws, exact sums, bounds.

Rule: labels and published numbers in, rows of integers and laws out; nothing here draws or infers.

entries          published numbers, each of a sum of cells with a law of its own
measured         one published array of noisy sums, and the law of its noise
measurements     everything published about one table: noisy sums, what is exact, and bounds
rows             numbers onto the rows of a statement, by label wherever they have labels
"""

from ppdinf.measurements.measured import Measured as Measured
from ppdinf.measurements.measured import measured as measured
from ppdinf.measurements.measurements import Measurements as Measurements

__all__ = ["Measured", "Measurements", "measured"]
