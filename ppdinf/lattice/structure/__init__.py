"""Structure of systems of sums: independent blocks, two-way tables, elimination orders.

blocks                  what an integer system A x = a leaves free, from what cannot move to what is hard
elimination_order       an order in which constraints can be summed out, and how many stay open meanwhile
independent_class_sums  class sums that are entangled: proportional ones merged, independent constraints kept
tables_in_rows          class sums that form a complete table whose public sums are margins, found in the rows of a
                        system
two_way                 two-way tables under both margins, found in the rows of a system
"""
