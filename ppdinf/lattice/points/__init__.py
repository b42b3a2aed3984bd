"""Integer points of fibers: feasible tables, enumeration, fixed cells, short vectors.

conflict           Contradictory rows: a certificate with few rows, by linear programming.
decision_diagram   All integer tables with given sums and supports, as a layered graph, and exact draws from it.
diagram_paths      Random and cheapest paths of a decision diagram.
feasible           A feasible table for public equalities and bounds, nearest to a given table.
fiber_tables       Enumeration of all integer tables with given sums and bounds, for small fibers.
fixed_cells        Cells that are determined by public sums and bounds together.
presolve           Interval propagation: the possible counts of each cell.
shortest           The shortest vectors of the lattice in l1 or l2: distances of tables with the same sums.
tables_with_holes  Tables with supports that have holes, by integer programming.
"""
