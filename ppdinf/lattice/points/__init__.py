"""Integer points of fibers: feasible tables, enumeration, cells that are fixed, short vectors.

conflict           rows that contradict each other: a certificate with few rows, by linear programming
decision_diagram   all integer tables with given sums and supports, as a layered graph
feasible           A table that satisfies public equalities and bounds, as near as possible to a given one
fiber_tables       all integer tables that obey public sums and bounds, where they are few
fixed_cells        which cells follow from public sums and bounds together
presolve           interval propagation: counts of each cell that some table can have
shortest           how near two different tables with the same public sums can be: the shortest vector of the
                   lattice, in l1 or l2
tables_with_holes  tables with supports that have holes, by integer programs
"""
