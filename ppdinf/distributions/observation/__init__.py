"""Observed data as constraints and likelihood terms on the cells of a confidential table.

float64                distributions in double precision, whatever their parameters were written as; and which of
                       these are constants
linear_queries         windows and moves of confidential cells, where a release answers linear queries W x on them
measured_moves         moves of a table that leave some of its noisy sums as they are
multinomial_rows       multinomial rows as independent cells: the same density wherever the totals of the rows are
                       public
nested_plan            measured and exact sums that nest, as a forest of which the total weight is known exactly
observed               what was observed of a confidential table: made once from what was published, and asked by
                       everything that comes after
observed_measurements  measurements of one table, as they speak of its cells
observed_release       a release, as it speaks of the confidential cells
table_function         a number that depends on a table as a whole, computed outside of PyTensor's graphs
table_moves            the plan of how a table moves: moves that are proved to connect its support, or exact draws
truncation_bounds      truncation of counts: which cells have a window, how wide it is, and the probability outside
                       it
"""
