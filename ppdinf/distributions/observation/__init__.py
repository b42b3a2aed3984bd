"""Observed data as constraints and likelihood terms on the cells of a confidential table.

float64                Distributions in double precision for parameters of any type, and detection of constants.
linear_queries         Windows and moves of confidential cells for releases of linear queries W x.
measured_moves         Moves of a table that preserve some of its noisy sums.
multinomial_rows       Multinomial rows as independent cells, which have the same density given public row totals.
nested_plan            Nested measured and exact sums as a forest, whose total weight is computed exactly.
observed               `Observed`: the base class of observations of a confidential table.
observed_measurements  Measurements of one table as observations of its cells.
observed_release       A release as an observation of the confidential cells.
possible_values        Possible counts and sums: ranges that public statements and noisy sums permit.
table_function         A number that depends on a complete table, computed outside of PyTensor graphs.
table_moves            Sampling plan of a table: moves that are proved to connect its support, or exact draws.
truncation_bounds      Truncation of counts: cells with a window, widths of windows, probability outside them.
"""
