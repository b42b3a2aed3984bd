"""Integer points of fibers: feasible tables, enumeration, fixed cells, short vectors.

decision_diagram  All integer tables with given sums and supports as a decision diagram, and exact draws from it.
feasible          A feasible table for public equalities and bounds, nearest to a given table, or rows that contradict
                  each other.
fiber_tables      All tables with given sums and bounds: intervals of cells, enumeration, cells with one value.
programme         Linear and integer programmes: variables, rows and ends, solved by HiGHS.
shortest          The shortest vectors of the lattice in l1 or l2: distances of tables with the same sums.
supports          Supports of counts, possibly with holes: possible counts by interval propagation, and tables within
                  them.
"""
