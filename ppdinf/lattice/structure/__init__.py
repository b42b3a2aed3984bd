"""Structure of systems of sums: independent blocks, two-way tables, elimination orders.

blocks                  Decomposition of an integer system A x = a into fixed cells, classes and blocks.
elimination_order       An elimination order of the constraints, and its width.
independent_class_sums  Entangled class sums: proportional ones merged, under independent constraints.
tables_in_rows          Class sums that form a complete table with public margins.
two_way                 Two-way tables with both margins public.
"""
